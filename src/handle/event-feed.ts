/** `hf.events()`: the events of the store, as they come. */
import { feed } from '../domain/bell.ts'
import type { EventView } from '../operations/event/event.ts'
import { assertFilter, type EventFilter, isWanted } from '../operations/event/filter.ts'
import { assertSignal, knownOptionsOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'
import { wakeOn } from '../runtime/waiting/wake-up.ts'

/** Which events to read, and from where on. */
export interface EventOptions extends EventFilter {
  /**
   * Only events after this sequence number; default 0, from the oldest that is kept. Where retention has removed some of
   * them, NOT_FOUND names the last that is gone (`facts.checkpoint`).
   */
  readonly since?: number | undefined
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined
}

const eventPollMs = 500
const eventOptionNames = ['since', 'subject', 'id', 'kinds', 'queue', 'signal'] as const

/** All events in order, then new ones as they come. */
export async function* followEvents(session: Session, options: EventOptions): AsyncGenerator<EventView> {
  const { since = 0, signal, ...wanted } = knownOptionsOf('events', options, eventOptionNames)
  assertSignal('events', signal)
  assertFilter(wanted)
  let seq = since
  while (!signal?.aborted && !session.isClosed) {
    const wakeUp = wakeOn(session, feed, signal)
    try {
      const page = await session.call('events.list', { since: seq, limit: 500 })
      for (const event of page.events) {
        seq = event.seq
        if (!isWanted(event, wanted)) continue
        yield event
        if (signal?.aborted) return
      }
      if (page.events.length > 0) continue
      await wakeUp.sleep(eventPollMs)
    } finally {
      wakeUp.end()
    }
  }
}
