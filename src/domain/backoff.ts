/** Waiting times that grow: doubling from a base up to a cap, with jitter so that a herd spreads out. */
export interface Backoff {
  readonly baseMs: number
  readonly factor: number
  readonly maxMs: number
}

/** Some of its numbers. */
export type GivenBackoff = { readonly [Field in keyof Backoff]?: number | undefined }

/** A year. Without a bound an item could be due at a time that no date can tell. */
export const maxBackoffMs = 365 * 24 * 60 * 60 * 1000

export const retryBackoff: Backoff = Object.freeze({ baseMs: 1_000, factor: 2, maxMs: 5 * 60 * 1000 })

/**
 * A backoff in which some of the numbers are others. A base above the cap raises the cap, unless a cap is given too: who
 * asks for waits of ten minutes must not silently get five.
 */
export function adjustBackoff(backoff: Backoff, given: GivenBackoff | undefined): Backoff {
  if (given === undefined) return backoff
  const { baseMs = backoff.baseMs, factor = backoff.factor, maxMs = Math.max(backoff.maxMs, baseMs) } = given
  return { baseMs, factor, maxMs }
}

/** `attempt` counts from 1. The result lies in [half, whole] of the step, so a retry is never immediate. */
export function backoffMs(backoff: Backoff, attempt: number, random: number): number {
  // The growth may be infinite, of which zero times would be no number.
  const growth = Math.min(backoff.factor ** (attempt - 1), Number.MAX_VALUE)
  const step = Math.min(backoff.maxMs, backoff.baseMs * growth)
  return Math.round(step / 2 + (step / 2) * random)
}
