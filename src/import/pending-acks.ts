/**
 * Takes over a `PENDING_ACKS.json`: every pending message goes on here under its old id, from the attempt it had
 * reached. The file is only read. Repeating the import changes nothing. A damaged file is refused as a whole.
 */
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { type HoldfastError, InvalidError, NotFoundError } from '../errors.ts'
import type { Holdfast } from '../holdfast.ts'
import { type ImportEntry, importMax } from '../operations/message-import.ts'

export interface PendingAcksReport {
  /** Version of the file; 0 when it has none. */
  readonly version: number
  /** Ids taken over now (or that would be). */
  readonly imported: string[]
  /** Ids that were there already. */
  readonly known: string[]
  /** Ids with something missing, each with what; they are imported all the same. */
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
  pending_acks: z.array(pendingAck).max(100_000),
})
type PendingAck = z.output<typeof pendingAck>

/** `source`: a path, or the text of such a file. Times without a zone are this host's local time. */
export async function importPendingAcks(
  hf: Holdfast,
  source: string,
  { dryRun = false }: { dryRun?: boolean } = {},
): Promise<PendingAcksReport> {
  const isText = source.trimStart().startsWith('{')
  const { version, pending_acks: pending } = parse(isText ? source : read(source))
  const imports = pending.map(toEntry)
  const entries = imports.map(({ entry }) => entry)
  // All of it is looked at before any of it is taken over.
  const looked = await importAll(hf, entries, true)
  const taken = dryRun ? looked : await importAll(hf, entries, false)
  const flagged = imports
    .filter(({ gaps }) => gaps.length > 0)
    .map(({ entry, gaps }) => ({ id: entry.id, gaps }))
  return { version, ...taken, flagged }
}

type Taken = Pick<PendingAcksReport, 'imported' | 'known'>

async function importAll(hf: Holdfast, entries: readonly ImportEntry[], dryRun: boolean): Promise<Taken> {
  const taken: Taken = { imported: [], known: [] }
  for (let start = 0; start < entries.length; start += importMax) {
    const piece = { entries: entries.slice(start, start + importMax), dryRun }
    const { imported, known } = (await hf.execute('messages.import', piece)) as Taken
    taken.imported.push(...imported)
    taken.known.push(...known)
  }
  return taken
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new NotFoundError({
      what: `${path} cannot be read`,
      next: 'give the path of a PENDING_ACKS.json, or its text',
      facts: { path },
      cause,
    })
  }
}

function parse(text: string): z.output<typeof file> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw damaged('it is not JSON', cause)
  }
  const parsed = file.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw damaged(`${issue?.path.join('.')}: ${issue?.message}`)
}

function damaged(why: string, cause?: unknown): HoldfastError {
  return new InvalidError({
    what: `the file of pending acknowledgements is damaged (${why})`,
    next: 'nothing was imported and the file was left as it is; mend or restore it',
    facts: { why },
    cause,
  })
}

function toEntry(ack: PendingAck): { entry: ImportEntry; gaps: string[] } {
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

/** Null when there is none to read. */
function timeOf(text: string | undefined): number | null {
  const time = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(time) ? null : time
}
