/** Reading the feed of events. */
import type { Event, Holdfast } from 'holdfast'

/** Everything recorded so far. The last read finds nothing and would wait; that wait is cut short. */
export async function readFeed(hf: Holdfast, since = 0): Promise<Event[]> {
  const seen: Event[] = []
  const end = new AbortController()
  const reading = (async () => {
    for await (const event of hf.events({ since, signal: end.signal })) seen.push(event)
  })()
  for (let size = -1; size !== seen.length; ) {
    size = seen.length
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  }
  end.abort()
  await reading
  return seen
}
