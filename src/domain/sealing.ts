/**
 * How many of the oldest events are old enough to be sealed. Their order is certain but their dates are not: the clock
 * may have been wrong when some were written. An event can be sealed once it, or one after it, is old by a date that
 * can be trusted.
 */

interface Dated {
  readonly at: number
}

export interface SealingDates {
  /** The last trusted date among the events sealed before. */
  readonly latestAt: number
  /** An event dated up to here is old. */
  readonly before: number
  readonly wall: number
}

export interface Sealable {
  readonly count: number
  /** The last trusted date among them. */
  readonly latestAt: number
  /**
   * What stopped the count: an event that is not old, the end of the events, or that none of their dates can be
   * trusted.
   */
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

/** Whether one of these later events shows that everything before it is old. */
export function isAnyOld(events: readonly Dated[], { latestAt, before, wall }: SealingDates): boolean {
  return events.some(({ at }) => isBelievable(at, latestAt, wall) && at <= before)
}

/** Not in the future, and not before an earlier event; otherwise one of the two dates must be wrong. */
function isBelievable(at: number, latestAt: number, wall: number): boolean {
  return latestAt <= at && at <= wall
}
