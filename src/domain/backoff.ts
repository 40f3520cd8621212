/** Growing waits: doubling from a base up to a cap, with jitter so that a herd spreads out. */
export interface Backoff {
  readonly baseMs: number
  readonly factor: number
  readonly maxMs: number
}

export type GivenBackoff = { readonly [Field in keyof Backoff]?: number | undefined }

/** A year. Without a bound, an item could be due at a time that no date can represent. */
export const maxBackoffMs = 365 * 24 * 60 * 60 * 1000

export const retryBackoff: Backoff = Object.freeze({ baseMs: 1_000, factor: 2, maxMs: 5 * 60 * 1000 })

/**
 * A backoff with some numbers replaced. A base above the cap raises the cap, unless a cap is given too: a caller that
 * asks for waits of ten minutes must not silently get five.
 */
export function adjustBackoff(backoff: Backoff, given: GivenBackoff | undefined): Backoff {
  if (given === undefined) return backoff
  const { baseMs = backoff.baseMs, factor = backoff.factor, maxMs = Math.max(backoff.maxMs, baseMs) } = given
  return { baseMs, factor, maxMs }
}

/** `attempt` counts from 1. The result is between half of the step and all of it, so a retry is never immediate. */
export function backoffMs(backoff: Backoff, attempt: number, random: number): number {
  // The growth may overflow to Infinity, and zero times that would be NaN.
  const growth = Math.min(backoff.factor ** (attempt - 1), Number.MAX_VALUE)
  const step = Math.min(backoff.maxMs, backoff.baseMs * growth)
  return Math.round(step / 2 + (step / 2) * random)
}
