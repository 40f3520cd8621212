/** An item's position in line after it was added or submitted, or why it has none. */
import { formatDuration } from './duration.ts'
import type { Item } from './item.ts'

/** Positions are counted up to here; beyond that, "more than 1,000 ahead" is all anyone needs. */
export const maxLine = 1000
const maxNames = 3

/** Where an item stands in line. */
export interface QueuePosition {
  /** 1-based position among items that can be claimed; null: see `reason`. */
  readonly position: number | null
  /** Items ready to be claimed, counted up to 1,000. */
  readonly totalPending: number
  /** Why there is no position: held, delayed, waiting, or 1,000 ahead of it. */
  readonly reason: string | null
}

export interface LineFacts {
  /** How many ready items were ahead of its position, and in total, before the operation. */
  readonly line: { readonly ahead: number; readonly total: number }
  /** The item before the operation; null if it is new to the line. */
  readonly before: Item | null
  /** The items it waits for, as far as they are known. */
  readonly blockers: readonly Item[]
  readonly wall: number
}

export function positionOf(item: Item, { line, before, blockers, wall }: LineFacts): QueuePosition {
  const wasCounted = before?.phase === 'ready'
  const isReady = item.phase === 'ready'
  const totalPending = line.total - Number(wasCounted) + Number(isReady)
  if (!isReady) return { position: null, totalPending, reason: whyNotInLine(item, blockers, wall) }
  if (line.ahead >= maxLine)
    return { position: null, totalPending, reason: `${maxLine} or more are ahead of it` }
  // If it moved back, it was itself counted among those ahead of its new position.
  const wasAhead = wasCounted && before.priority < item.priority
  return { position: line.ahead + 1 - Number(wasAhead), totalPending, reason: null }
}

function whyNotInLine(item: Item, blockers: readonly Item[], wall: number): string {
  if (item.phase === 'held') return `${item.agent ?? 'an unknown agent'} holds it`
  if (item.phase === 'suspect')
    return 'it may be killing its holders, so it is handed out separately from the line'
  if (item.quarantinedAt !== null) return `it is quarantined: ${item.quarantineReason}`
  if (item.waitingFor.length > 0) return whyBlocked(item, blockers)
  if (item.runAt !== null) return `it is delayed for ${formatDuration(item.runAt - wall)}`
  return `it cannot be claimed in state ${item.state}`
}

function whyBlocked({ waitingFor }: Item, blockers: readonly Item[]): string {
  const awaited = waitingFor.map(
    (id) => blockers.find((each) => each.id === id) ?? { id, key: null, outcome: null },
  )
  const failed = awaited.filter((each): each is Item => each.outcome === 'failed')
  const [first] = failed
  if (first === undefined) return `it waits for ${named(awaited)}`
  const others = failed.length === 1 ? '' : ` (and ${failed.length - 1} more that failed)`
  return `it waits for ${nameOf(first)}, which is ${first.state}${others}: it cannot be claimed until that is retried or resubmitted and succeeds`
}

function named(items: readonly Pick<Item, 'id' | 'key'>[]): string {
  const names = items.slice(0, maxNames).map(nameOf)
  const more = items.length - names.length
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ')
}

function nameOf({ id, key }: Pick<Item, 'id' | 'key'>): string {
  return key ?? id
}
