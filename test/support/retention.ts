/** Retention by hand, for stores whose handles have nothing running in the background. */
import type { Holdfast } from 'holdfast'
import type { MovableEnvironment } from 'holdfast/testing'

export const dayMs = 86_400_000
export const hourMs = 3_600_000

export interface Kept {
  readonly itemsMs?: number
  readonly eventsMs?: number
}

/** One round, as an open process runs it every minute. */
export async function retain(hf: Holdfast, kept: Kept = {}): Promise<void> {
  const { items, runs, events, answers, instances } = await horizons(hf, kept)
  await repeat(() => hf.execute('retention.run', { items, runs, answers, instances }))
  await repeat(() => hf.execute('messages.retain', { past: items }))
  if (events !== null) await repeat(() => hf.execute('events.seal', { past: events }))
}

/** The first transaction of a round, as when its process is killed after it. */
export async function beginToRetain(hf: Holdfast, kept: Kept = {}): Promise<void> {
  const { items, runs, answers, instances } = await horizons(hf, kept)
  await hf.execute('retention.run', { items, runs, answers, instances })
}

async function horizons(hf: Holdfast, { itemsMs = 7 * dayMs, eventsMs = 90 * dayMs }: Kept) {
  const agesMs = [itemsMs, Math.max(itemsMs, eventsMs), eventsMs, dayMs, 7 * dayMs]
  const settled = await hf.execute('retention.settle', { agesMs })
  const [items = null, runs = null, events = null, answers = null, instances = null] = settled
  return { items, runs, events, answers, instances }
}

/** One round per hour: after two hours, the date of the first is trusted. */
export async function retainFor(
  hours: number,
  { hf, env }: { hf: Holdfast; env: MovableEnvironment },
  kept: Kept = {},
): Promise<void> {
  await retain(hf, kept)
  for (let hour = 0; hour < hours; hour++) {
    await env.advance(hourMs)
    await retain(hf, kept)
  }
}

async function repeat(piece: () => Promise<{ more: boolean }>): Promise<void> {
  for (let more = true; more; ) ({ more } = await piece())
}
