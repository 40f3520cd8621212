/** Retention: removes old data, one bounded piece per transaction, until nothing is left or the process closes. */
import { appendFileSync, closeSync, constants, fstatSync, fsyncSync, openSync } from 'node:fs'
import { HoldfastError } from '../../errors.ts'
import { isOwn, noFollowFlags } from '../../host/access.ts'
import type { EventView } from '../../operations/event/event.ts'
import type { Past } from '../../operations/recovery/horizon.ts'
import type { Execute, InputOf } from '../../operations/table.ts'
import type { RetentionOptions } from '../../options.ts'
import { inPieces } from '../session/input.ts'

const dayMs = 24 * 60 * 60 * 1000
const instancesMs = 7 * dayMs

export async function retain(
  execute: Execute,
  options: RetentionOptions,
  isClosed: () => boolean,
): Promise<void> {
  const { items, events, ...others } = await settle(execute, options)
  const repeat = async (piece: () => Promise<{ more: boolean }>) => {
    if (!isClosed()) await inPieces(piece, isClosed)
  }
  await repeat(() => execute('retention.run', { items, ...others }))
  await repeat(() => execute('messages.retain', { past: items }))
  if (events !== null) await repeat(() => sealSome(execute, events, options.eventsExport))
}

/** The cutoff for each age; null for what is kept for ever, and while the date is not trusted. */
async function settle(execute: Execute, { itemsMs, eventsMs, answersMs }: RetentionOptions) {
  // A completed run that was forgotten would run again.
  const runsMs = itemsMs === 0 || eventsMs === 0 ? 0 : Math.max(itemsMs, eventsMs)
  const agesMs = [itemsMs, runsMs, eventsMs, answersMs, instancesMs]
  const settled = await execute('retention.settle', { agesMs })
  const [items = null, runs = null, events = null, answers = null, instances = null] = settled
  return { items, runs, events, answers, instances }
}

async function sealSome(execute: Execute, past: Past, path: string | undefined): Promise<{ more: boolean }> {
  const seal = (options: Omit<InputOf<'events.seal'>, 'past'>) => execute('events.seal', { past, ...options })
  if (path === undefined) return seal({})
  const { removed, through } = await seal({ dryRun: true })
  if (removed === 0) return { more: false }
  const { events } = await execute('events.list', { since: 0, limit: removed })
  // Exported and on disk before anything is removed. After a crash in between, lines repeat, with the same number.
  appendDurably(path, events)
  return seal({ through })
}

function appendDurably(path: string, events: readonly EventView[]): void {
  const file = openExport(path)
  try {
    appendFileSync(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * Opens only a plain file that belongs to the user or root, and follows no link: somebody else who may write to the
 * folder could have put something there.
 */
function openExport(path: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | noFollowFlags
  let file: number
  try {
    file = openSync(path, flags, 0o600)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ELOOP')
      throw unusable(path, 'it is a symbolic link', cause)
    throw cause
  }
  const found = fstatSync(file)
  if (found.isFile() && (isOwn(found) || found.uid === 0)) return file
  closeSync(file)
  throw unusable(path, found.isFile() ? 'it belongs to another user' : 'it is not a plain file')
}

function unusable(path: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `events are not exported to ${path}: ${why}; none are removed meanwhile`,
    next: 'name a plain file of your own as eventsExport',
    facts: { path },
    cause,
  })
}
