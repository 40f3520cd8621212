/**
 * The time from which ages are measured when old data is removed. A machine's date can be wrong, and removed data is
 * gone. So a date is trusted only after the lease clock, which nobody sets, has run alongside it for a while: the date
 * is noted first, and settled later if it has not gone back since.
 *
 * Not promised: that a date that stays wrong for longer than the wait is detected.
 */
import type { Clocks } from './item.ts'

export interface Horizon {
  /** How long a noted date waits, in ms of the lease clock; there is one horizon per wait. */
  readonly waitMs: number
  /** Wall time from which ages are measured, and the lease clock at that time; null until a date has been trusted. */
  readonly settledAt: number | null
  readonly settledLeaseAt: number | null
  /** Wall time waiting to be trusted, and the lease clock at that time. */
  readonly notedAt: number
  readonly notedLeaseAt: number
  readonly version: number
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Clocks are corrected by seconds all the time, and nothing is lost by a minute. */
const toleranceMs = minuteMs

/** The wait of the horizon kept by every process with retention. */
export const usualWaitMs = hourMs

/** An hour. Data kept for less than an hour would be gone within the hour anyway, so it waits a minute. */
export function waitFor(ageMs: number): number {
  return ageMs < usualWaitMs ? minuteMs : usualWaitMs
}

/** The current horizon; the same object if nothing has changed. */
export function settleHorizon(kept: Horizon | null, waitMs: number, clocks: Clocks): Horizon {
  if (kept === null) return noted({ waitMs, settledAt: null, settledLeaseAt: null, version: 0 }, clocks)
  // The date was ahead when it was trusted, so what has ended since then is not as old as it seems.
  if (!isSettled(kept.settledAt, clocks))
    return noted({ ...kept, settledAt: null, settledLeaseAt: null }, clocks)
  if (hasGoneBack(kept, clocks)) return noted(kept, clocks)
  if (clocks.now - kept.notedLeaseAt < waitMs) return kept
  return noted({ ...kept, settledAt: kept.notedAt, settledLeaseAt: kept.notedLeaseAt }, clocks)
}

/** Whether a trusted date can still be right. */
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
 * The date by which an explicit request measures ages, without waiting: the wall clock, unless the last trusted date
 * plus the lease clock since then gives an earlier time.
 */
export function agreedWall(kept: Horizon | null, { now, wall }: Clocks): number {
  if (kept === null || kept.settledAt === null || kept.settledLeaseAt === null) return wall
  return Math.min(wall, kept.settledAt + Math.max(0, now - kept.settledLeaseAt))
}
