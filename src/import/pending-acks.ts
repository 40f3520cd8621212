/**
 * Imports a `PENDING_ACKS.json`. Every pending message continues here under its old id, from the attempt it had
 * reached. The file is only read. Importing twice is a no-op. A damaged file is refused as a whole.
 */

import * as z from 'zod'
import type { Holdfast } from '../handle/holdfast.ts'
import { check } from '../issue.ts'
import { type ImportEntry, importEntry, maxImported } from '../operations/message/import.ts'
import { assertNoneBad, type ImportOptions } from './report.ts'
import { damaged, firstIssue, parseJson, type TextSource, textOf, timeOf } from './source.ts'

const what = 'the file of pending acknowledgements'

/** What the import did. */
export interface PendingAcksReport {
  /** Version of the file; 0 when it has none. */
  readonly version: number
  /** Ids that were imported (or would be). */
  readonly imported: string[]
  /** Ids that were already here. */
  readonly known: string[]
  /** Imported ids with something missing, and what. */
  readonly flagged: { readonly id: string; readonly gaps: string[] }[]
}

const pendingAck = z.object({
  msg_id: z.string().min(1).max(64),
  sender_id: z.string().min(1),
  recipient_id: z.string().min(1),
  message: z.record(z.string(), z.unknown()).default({}),
  sent_at: z.string().optional(),
  retry_count: z.int().min(0).max(50).default(0),
  next_retry_at: z.string().optional(),
})
const file = z.object({
  version: z.int().min(0).default(0),
  pending_acks: z.array(z.unknown()).max(100_000),
})
type PendingAck = z.output<typeof pendingAck>

/**
 * Imports pending messages. `source`: a path, or the text of such a file. Times without a zone are this host's local
 * time.
 */
export async function importPendingAcks(
  hf: Holdfast,
  source: TextSource,
  { dryRun = false, onProgress = () => {} }: Omit<ImportOptions, 'skipBad'> = {},
): Promise<PendingAcksReport> {
  const { version, imports } = parse(textOf(source, 'a PENDING_ACKS.json, or its text'))
  const entries = imports.map(({ entry }) => entry)
  const bring = (isDry: boolean) => importAll(hf, entries, isDry, onProgress)
  // Check all of it before importing any of it.
  const looked = await bring(true)
  const taken = dryRun ? looked : await bring(false)
  const fresh = new Set(taken.imported)
  const flagged = imports
    .filter(({ entry, gaps }) => gaps.length > 0 && fresh.has(entry.id))
    .map(({ entry, gaps }) => ({ id: entry.id, gaps }))
  return { version, ...taken, flagged }
}

type Taken = Pick<PendingAcksReport, 'imported' | 'known'>

async function importAll(
  hf: Holdfast,
  entries: readonly ImportEntry[],
  dryRun: boolean,
  onProgress: NonNullable<ImportOptions['onProgress']>,
): Promise<Taken> {
  const taken: Taken = { imported: [], known: [] }
  const phase = dryRun ? 'looking' : 'importing'
  for (let start = 0; start < entries.length; start += maxImported) {
    onProgress({ phase, done: start, total: entries.length })
    const piece = { entries: entries.slice(start, start + maxImported), dryRun }
    const { imported, known } = await hf.execute('messages.import', piece)
    taken.imported.push(...imported)
    taken.known.push(...known)
  }
  onProgress({ phase, done: entries.length, total: entries.length })
  return taken
}

function parse(text: string) {
  const parsed = check(file, parseJson(text, what))
  if (!parsed.isSound) throw damaged(what, firstIssue(parsed.issues))
  const { version, pending_acks: pending } = parsed.value
  const rows = new Map<string, string>()
  const read = pending.map((value, index) => {
    const row = `pending_acks[${index}]`
    const { found, why } = readAck(value)
    const earlier = found && rows.get(found.entry.id)
    if (found) rows.set(found.entry.id, row)
    return { row, found, why: earlier ? `its id is already in ${earlier}` : why }
  })
  const bad = read.flatMap(({ row, why }) => (why === undefined ? [] : [{ row, why }]))
  // Never skipped: nobody would notice that a message is gone until it matters.
  assertNoneBad(bad, { what, skipBad: 'never' })
  return { version, imports: read.flatMap(({ found }) => found ?? []) }
}

function readAck(value: unknown): { found?: ReturnType<typeof toEntry>; why?: string } {
  const parsed = check(pendingAck, value)
  if (!parsed.isSound) return { why: firstIssue(parsed.issues) }
  const found = toEntry(parsed.value)
  const checked = check(importEntry(), found.entry)
  return checked.isSound ? { found } : { why: firstIssue(checked.issues) }
}

function toEntry(ack: PendingAck) {
  const { message } = ack
  const type = message.msg_type ?? message.type ?? message.message_type
  const sentAt = timeOf(ack.sent_at)
  const dueAt = timeOf(ack.next_retry_at)
  const gaps = [
    ...(ack.msg_id.startsWith('temp-') ? ['it never got its final id'] : []),
    ...(message.content === undefined ? ['it has no content'] : []),
    ...(sentAt === null ? ['it does not say when it was sent'] : []),
    ...(dueAt === null ? ['it does not say when it is due'] : []),
  ]
  const entry: ImportEntry = {
    id: ack.msg_id,
    sender: ack.sender_id,
    recipient: ack.recipient_id,
    type: typeof type === 'string' && type !== '' ? type : 'INFO',
    content: message.content ?? null,
    attempts: ack.retry_count + 1,
    dueAt,
    sentAt,
    note: gaps.length === 0 ? null : `imported: ${gaps.join(', ')}`,
  }
  return { entry, gaps }
}
