/** Reading the feed of events. */
import type { Event, Holdfast } from 'holdfast'
import { whenReadable } from './stores.ts'

/** Everything recorded so far. */
export async function readFeed(hf: Holdfast, since = 0): Promise<Event[]> {
  await whenReadable(hf)
  const seen: Event[] = []
  for (;;) {
    const { events } = (await hf.execute('events.list', {
      since: seen.at(-1)?.seq ?? since,
      limit: 500,
    })) as { events: Event[] }
    if (events.length === 0) return seen
    seen.push(...events)
  }
}
