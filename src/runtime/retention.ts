/** Retention: removes what is old, a bounded piece a transaction, until nothing is left or the process closes. */
import { appendFileSync, closeSync, fsyncSync, openSync } from 'node:fs'
import type { EventView } from '../operations/event.ts'
import type { RetentionOptions } from '../options.ts'

type Execute = (operation: string, input: unknown) => Promise<unknown>

export async function retain(
  execute: Execute,
  options: RetentionOptions,
  isClosed: () => boolean,
): Promise<void> {
  for (let more = true; more && !isClosed(); ) {
    ;({ more } = (await execute('retention.run', { itemsMs: options.itemsMs })) as { more: boolean })
  }
  for (let more = true; more && !isClosed(); ) {
    ;({ more } = (await execute('messages.retain', { keptMs: options.itemsMs })) as { more: boolean })
  }
  if (options.eventsMs === 0) return
  for (let more = true; more && !isClosed(); ) more = await sealSome(execute, options)
}

interface Sealed {
  readonly removed: number
  readonly through: number
  readonly more: boolean
}

async function sealSome(execute: Execute, { eventsMs, eventsExport }: RetentionOptions): Promise<boolean> {
  const seal = (options: object) =>
    execute('events.seal', { olderThanMs: eventsMs, ...options }) as Promise<Sealed>
  if (eventsExport === undefined) return (await seal({})).more
  const { removed, through } = await seal({ dryRun: true })
  if (removed === 0) return false
  const events = (await execute('events.list', { since: 0, limit: removed })) as EventView[]
  // Exported and on disk before anything is removed; after a crash in between, lines repeat, by their number.
  appendDurably(eventsExport, events)
  return (await seal({ through })).more
}

function appendDurably(path: string, events: readonly EventView[]): void {
  const file = openSync(path, 'a')
  try {
    appendFileSync(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
