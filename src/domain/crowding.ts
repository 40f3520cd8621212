/**
 * How idle workers of one queue spread out. Each item notifies all of them, and one gets it. A worker that came too
 * late delays its next looks, by a random part of a span that doubles each time, so that one of many looks first and
 * takes the item. A worker that is alone never waits.
 */

/** However crowded the queue, an item that nobody takes is noticed within this time. */
export const maxSpreadMs = 500
/** How much to delay the next look after the first one in vain. Doubles with each further one. */
const firstSpreadMs = 4
/** A queue without notifications is no longer crowded, so the delay halves in this time. */
const halfLifeMs = 1000

/** The span after a look or a claim that found nothing. */
export function spreadAfterNothing(spreadMs: number): number {
  return Math.min(maxSpreadMs, 2 * Math.max(firstSpreadMs, spreadMs))
}

export function spreadAfterItem(spreadMs: number): number {
  return spreadMs / 2
}

export function spreadAfterSilence(spreadMs: number, silentMs: number): number {
  return spreadMs * 0.5 ** (silentMs / halfLifeMs)
}

/**
 * While others wait in line to write, one of them will most likely take the item we saw. If forty idle workers joined
 * the line for one item, everybody would wait for forty write transactions. An item that is left for too long is
 * claimed anyway.
 */
export function isLeftToOthers(seenForMs: number, isCrowded: boolean): boolean {
  return isCrowded && seenForMs < maxSpreadMs
}
