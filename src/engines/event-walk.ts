/** A bounded scan of the events for those about one kind of thing: what was found, and where to continue. */
import type { StoredEvent } from '../domain/event.ts'
import type { Selectors } from '../port/selector.ts'

interface Walk {
  /** In the order found: newest first if that was asked for. */
  readonly events: readonly StoredEvent[]
  readonly limit: number
  /** The scan examined as many events as one scan may. */
  readonly isWindowFull: boolean
  /** The last event examined. */
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
