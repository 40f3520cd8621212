/** A bounded look through the events for those of one kind of thing: what was found, and where to go on. */
import type { StoredEvent } from '../domain/event.ts'
import type { Selectors } from './engine.ts'

interface Walk {
  /** As they were found: newest first where that was asked for. */
  readonly events: readonly StoredEvent[]
  readonly limit: number
  /** As many events were looked through as one look may. */
  readonly isWindowFull: boolean
  /** The last one that was looked at. */
  readonly last: number | null
  readonly newest: boolean
}

export function walkedEvents({
  events,
  limit,
  isWindowFull,
  last,
  newest,
}: Walk): Selectors['eventsAbout'][1] {
  // A full page may end before the window does.
  const isPageFull = events.length === limit
  const beyond = isWindowFull ? last : null
  const next = isPageFull ? (events.at(-1)?.seq ?? null) : beyond
  return { events: newest ? events.toReversed() : events, next }
}
