/** When a caretaker next has something to do. Until then it sleeps, and its thread costs nothing. */
import { renewEveryMs } from './lease.ts'

/**
 * While anything is held, the clocks are compared at least this often, without touching the store: after a suspend, a
 * machine renews its leases as soon as it wakes, not when the next renewal happens to be due.
 */
const compareClocksEveryMs = 500

/** Renewals and rounds run up to a tenth early or late, so that many processes do not all ask at once. */
const jitterMin = 0.9

/** What to multiply an interval by. `random`: in [0, 1). */
export function jitter(random: number): number {
  return jitterMin + 2 * (1 - jitterMin) * random
}

/**
 * `dutiesAt`: when each duty is due. Never returns a past time, so a caretaker that sleeps until then always wakes up.
 */
export function nextDutyAt(
  dutiesAt: readonly number[],
  { now, isHolding }: { readonly now: number; readonly isHolding: boolean },
): number {
  const clocksAt = isHolding ? now + compareClocksEveryMs : Number.POSITIVE_INFINITY
  return Math.max(now, Math.min(clocksAt, ...dutiesAt))
}

/** The first duty for a new lease or position in line: a renewal, or comparing the clocks. */
export function firstDutyAt(granted: { readonly requestedAt: number; readonly leaseMs: number }): number {
  const { requestedAt, leaseMs } = granted
  return requestedAt + Math.min(compareClocksEveryMs, jitterMin * renewEveryMs(leaseMs))
}
