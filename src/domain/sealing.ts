/**
 * How many of the oldest events are old. Their order is certain and their dates are not: the clock may have been wrong
 * when some were written. An event goes when one that came after it is old, by a date that can be believed.
 */

interface Dated {
  readonly at: number
}

export interface SealingDates {
  /** The last date believed of the events that went before. */
  readonly latestAt: number
  /** Dated up to here an event is old. */
  readonly before: number
  readonly wall: number
}

export interface Sealable {
  readonly count: number
  /** The last date believed among them. */
  readonly latestAt: number
  /** What stopped the count: one that is not old, the end of these events, or that none of their dates can be believed. */
  readonly end: 'young' | 'all' | 'undated'
}

export function decideSealable(events: readonly Dated[], { latestAt, before, wall }: SealingDates): Sealable {
  let sealable: Sealable = { count: 0, latestAt, end: 'undated' }
  for (const [index, { at }] of events.entries()) {
    if (!isBelievable(at, sealable.latestAt, wall)) continue
    if (at > before) return { ...sealable, end: 'young' }
    sealable = { count: index + 1, latestAt: at, end: 'all' }
  }
  return sealable
}

/** Whether one of some later events shows that everything before it is old. */
export function isAnyOld(events: readonly Dated[], { latestAt, before, wall }: SealingDates): boolean {
  return events.some(({ at }) => isBelievable(at, latestAt, wall) && at <= before)
}

/** Neither after now nor before what came earlier: one of these two dates must be wrong. */
function isBelievable(at: number, latestAt: number, wall: number): boolean {
  return latestAt <= at && at <= wall
}
