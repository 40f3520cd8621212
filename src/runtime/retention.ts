/** Retention: removes what is old, a bounded piece per transaction, until nothing is left or the process closes. */
import { appendFileSync, closeSync, fsyncSync, openSync } from 'node:fs'
import type { EventPage, EventView } from '../operations/event.ts'
import type { Past } from '../operations/horizon.ts'
import type { RetentionOptions } from '../options.ts'

type Execute = (operation: string, input: unknown) => Promise<unknown>

const dayMs = 24 * 60 * 60 * 1000
const instancesMs = 7 * dayMs

export async function retain(
  execute: Execute,
  options: RetentionOptions,
  isClosed: () => boolean,
): Promise<void> {
  const { items, events, ...others } = await settle(execute, options)
  const repeat = async (piece: () => Promise<{ more: boolean }>) => {
    for (let more = true; more && !isClosed(); ) ({ more } = await piece())
  }
  const removing = (operation: string, input: unknown) => () =>
    execute(operation, input) as Promise<{ more: boolean }>
  await repeat(removing('retention.run', { items, ...others }))
  await repeat(removing('messages.retain', { past: items }))
  if (events !== null) await repeat(() => sealSome(execute, events, options.eventsExport))
}

/** From when each age counts back; null for what is kept for ever, and while no date is believed. */
async function settle(execute: Execute, { itemsMs, eventsMs, answersMs }: RetentionOptions) {
  // A completed run that nobody knows any more would run again.
  const runsMs = itemsMs === 0 || eventsMs === 0 ? 0 : Math.max(itemsMs, eventsMs)
  const agesMs = [itemsMs, runsMs, eventsMs, answersMs, instancesMs]
  const settled = (await execute('retention.settle', { agesMs })) as (Past | null)[]
  const [items = null, runs = null, events = null, answers = null, instances = null] = settled
  return { items, runs, events, answers, instances }
}

interface Sealed {
  readonly removed: number
  readonly through: number
  readonly more: boolean
}

async function sealSome(execute: Execute, past: Past, path: string | undefined): Promise<{ more: boolean }> {
  const seal = (options: object) => execute('events.seal', { past, ...options }) as Promise<Sealed>
  if (path === undefined) return seal({})
  const { removed, through } = await seal({ dryRun: true })
  if (removed === 0) return { more: false }
  const { events } = (await execute('events.list', { since: 0, limit: removed })) as EventPage
  // Exported and on disk before anything is removed; after a crash in between, lines repeat, by their number.
  appendDurably(path, events)
  return seal({ through })
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
