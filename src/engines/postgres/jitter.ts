/** How long to wait before the next attempt. */
import type { Environment } from '../../environment.ts'

/** Doubles with each attempt, up to a bound, and is never the same for two processes. */
export function jittered(
  { first, max }: { first: number; max: number },
  attempt: number,
  environment: Environment,
): number {
  return Math.min(max, first * 2 ** (attempt - 1)) * (0.5 + environment.random())
}
