/**
 * The moment from which ages are counted back when old things are removed. A machine's date can be wrong, and what is
 * removed is gone, so a date is believed only after the lease clock, which nobody sets, has run beside it for a while:
 * it is noted first, and settled later if the date has not gone back since.
 *
 * Not promised: that a date which stays wrong for longer than the wait is found out.
 */

export interface Horizon {
  /** How long a noted date waits, ms of the lease clock; there is one horizon per wait. */
  readonly waitMs: number
  /** Wall time that ages count back from, with the lease clock beside it; null while no date has been believed. */
  readonly settledAt: number | null
  readonly settledLeaseAt: number | null
  /** Wall time that waits to be believed, with the lease clock beside it. */
  readonly notedAt: number
  readonly notedLeaseAt: number
  readonly version: number
}

interface Clocks {
  /** Lease clock. */
  readonly now: number
  readonly wall: number
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Dates are corrected by seconds all the time; nothing is lost by a minute. */
const toleranceMs = minuteMs

/** The wait of the horizon that every process with retention keeps. */
export const usualWaitMs = hourMs

/** An hour. What is kept for less than that would be gone within the hour anyway, and waits a minute. */
export function waitFor(ageMs: number): number {
  return ageMs < usualWaitMs ? minuteMs : usualWaitMs
}

/** The horizon as it stands now; the same object when nothing has changed. */
export function settleHorizon(kept: Horizon | null, waitMs: number, clocks: Clocks): Horizon {
  if (kept === null) return noted({ waitMs, settledAt: null, settledLeaseAt: null, version: 0 }, clocks)
  // The date was ahead when it was believed: what has ended since then is not as old as it seems.
  if (!isSettled(kept.settledAt, clocks))
    return noted({ ...kept, settledAt: null, settledLeaseAt: null }, clocks)
  if (hasGoneBack(kept, clocks)) return noted(kept, clocks)
  if (clocks.now - kept.notedLeaseAt < waitMs) return kept
  return noted({ ...kept, settledAt: kept.notedAt, settledLeaseAt: kept.notedLeaseAt }, clocks)
}

/** Whether a date that was believed can still be true. */
export function isSettled(settledAt: number | null, { wall }: Pick<Clocks, 'wall'>): boolean {
  return settledAt === null || wall >= settledAt
}

/** A suspended machine's wall clock runs ahead of its lease clock, never behind. */
function hasGoneBack({ notedAt, notedLeaseAt }: Horizon, { now, wall }: Clocks): boolean {
  const elapsedMs = now - notedLeaseAt
  return elapsedMs < 0 || wall < notedAt + elapsedMs - toleranceMs
}

function noted(
  kept: Pick<Horizon, 'waitMs' | 'settledAt' | 'settledLeaseAt' | 'version'>,
  { now, wall }: Clocks,
): Horizon {
  return { ...kept, notedAt: wall, notedLeaseAt: now, version: kept.version + 1 }
}

/**
 * The date by which somebody's own request measures ages, at once: the wall clock, unless the last date that was
 * believed and the lease clock since then say that it is earlier.
 */
export function agreedWall(kept: Horizon | null, { now, wall }: Clocks): number {
  if (kept === null || kept.settledAt === null || kept.settledLeaseAt === null) return wall
  return Math.min(wall, kept.settledAt + Math.max(0, now - kept.settledLeaseAt))
}
