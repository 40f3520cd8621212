/** How long to rest before the next attempt. */
import type { Environment } from '../../environment.ts'

/** Twice as long each time, up to a bound, and never the same for two. */
export function jittered(
  { first, max }: { first: number; max: number },
  attempt: number,
  environment: Environment,
): number {
  return Math.min(max, first * 2 ** (attempt - 1)) * (0.5 + environment.random())
}
