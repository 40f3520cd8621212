/** When somebody who waits for work looks again. */
import type { Environment } from '../../environment.ts'

/** When there may be something to claim. */
export interface Prospect {
  readonly nextDueAt?: number | null
  readonly lapseInMs?: number | null
}

/** As often as a running process recovers: a claim also reclaims what a look does not see. */
export const claimEveryMs = 5000
/** What is due by our clock may not be due by the store's: without this minimum, the difference would make us spin. */
const lookAtLeastMs = 20

/** How long to wait before the next look: about `pollMs`, or until something is due or lapses. */
export function nextLookMs(environment: Environment, prospect: Prospect, pollMs: number): number {
  const { nextDueAt, lapseInMs } = prospect
  const dueInMs = nextDueAt == null ? Number.POSITIVE_INFINITY : nextDueAt - environment.now() + 1
  // Expired means strictly after its end. What lapsed and stays, because nobody heals here, is no reason to hurry.
  const isLapsing = lapseInMs != null && lapseInMs >= 0
  return Math.min(
    pollMs * (0.75 + 0.5 * environment.random()),
    dueInMs > 0 ? dueInMs : lookAtLeastMs,
    isLapsing ? Math.max(lookAtLeastMs, lapseInMs + 1) : Number.POSITIVE_INFINITY,
  )
}

/**
 * Whether a lease has lapsed since the last claim. Once per lapse: an item that stays put after its lease has ended is
 * not claimed more often than any other.
 */
export function hasLapsedSince(claimedAt: number, { lapseInMs }: Prospect, now: number): boolean {
  const lapsedForMs = -(lapseInMs ?? 0)
  return lapsedForMs > 0 && now - lapsedForMs >= claimedAt
}
