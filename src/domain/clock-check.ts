/**
 * Whether a process that has just opened a store may judge leases by the server's clock. It has seen nothing yet to
 * compare that clock with; processes that have run for a while have, and leave a mark when the clock agreed with their
 * own. A clock that jumped makes the mark look old, or puts it ahead.
 */

/** The longest any process doubts a clock: by then every holder that lives has renewed by the clock as it is. */
export const doubtfulForMs = 10_000
/** Marks are left every second. An older one may be one from before a jump. */
const freshMs = 3_000
/** A jump by less than this ends no lease of the usual length that is renewed in time. */
const recentMs = 15_000
/** So long after a jump every holder that can reach the server has seen it and renewed. */
const glanceMs = 2_000
/** Clocks are set back by less without anybody minding. */
const maxAheadMs = 2_000
/** Processes whose connections cannot be seen count as running for so long after they last left a mark. */
const unseenForMs = 600_000

/** All times are on the server's clock. */
export interface ClockCheck {
  readonly now: number
  /** When a process that runs last found the clock right; 0: never. */
  readonly checkedAt: number
  /** The same, of processes behind a pooler. */
  readonly checkedBehindPoolerAt: number
  /** When a process first found that mark old, and which mark that was. */
  readonly unchecked: { readonly since: number; readonly checkedAt: number } | null
  /** A process that renews leases is connected. */
  readonly isAnyoneThere: boolean
  /** The server has been started a moment ago: those who were connected may be about to come back. */
  readonly isServerNew: boolean
}

/** How long the clock is doubted from the opening of the store on, ms. Where nobody renews, nobody can be robbed. */
export function decideDoubtMs(check: ClockCheck): number {
  if (!mayHaveCompany(check)) return 0
  const { now, checkedAt, unchecked } = check
  const ageMs = now - checkedAt
  const isMark = ageMs >= -maxAheadMs
  if (isMark && ageMs < freshMs) return 0
  if (isMark && ageMs < recentMs) return glanceMs
  // Processes that end at once would else take nothing for ever, beside one that is frozen.
  const isKnown = unchecked !== null && unchecked.checkedAt === checkedAt && unchecked.since <= now
  return isKnown ? Math.max(0, doubtfulForMs - (now - unchecked.since)) : doubtfulForMs
}

function mayHaveCompany({
  checkedAt,
  checkedBehindPoolerAt,
  isAnyoneThere,
  isServerNew,
}: ClockCheck): boolean {
  if (isAnyoneThere || (isServerNew && checkedAt > 0)) return true
  return checkedBehindPoolerAt > 0 && checkedBehindPoolerAt >= checkedAt - unseenForMs
}
