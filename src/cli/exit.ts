/** Exit codes of outcomes that are normal but not success. Those of errors are in `error-codes.ts`. */
import { errorCodes } from '../error-codes.ts'

/** Nothing to do; for use in shell loops. */
const nothingToDo = 6
/** A check found more than its threshold. */
export const aboveThreshold = 11

const outcomeCodes: Readonly<Record<string, number>> = {
  offered: errorCodes.HELD.exit,
  held: errorCodes.HELD.exit,
  blocked: errorCodes.HELD.exit,
  quarantined: errorCodes.HELD.exit,
  refused: errorCodes.HELD.exit,
  full: errorCodes.HELD.exit,
  closed: errorCodes.ILLEGAL_MOVE.exit,
  cancelled: errorCodes.ILLEGAL_MOVE.exit,
  not_recipient: errorCodes.HELD.exit,
  not_found: errorCodes.NOT_FOUND.exit,
  rate_limited: errorCodes.RATE_LIMITED.exit,
  empty: nothingToDo,
  paused: errorCodes.PAUSED.exit,
}

/** The same with and without `--json`. */
export function exitCodeOf(answer: unknown): number {
  const outcome = (answer as { outcome?: unknown } | null)?.outcome
  return (typeof outcome === 'string' ? outcomeCodes[outcome] : undefined) ?? 0
}

/** For the generated reference, in order. */
export const exitCodes: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'done, or nothing was wrong'],
  [1, 'unexpected, or not allowed'],
  [2, 'the command line is wrong'],
  [3, 'nothing has that name'],
  [4, 'someone else holds it, or it is not in the state or at the version you expected'],
  [5, 'the lease is lost: stop working on it'],
  [6, 'nothing to do'],
  [7, 'busy or timed out: try again'],
  [8, 'tests failed, or files conflict'],
  [9, 'paused'],
  [10, 'the store is not safe to use, or `doctor` found a problem'],
  [11, 'a check found more than its threshold'],
]
