/**
 * Whether a process that has just opened a store may judge leases by the server's clock. It has nothing to compare that
 * clock with yet. Processes that have run for a while do, and leave a mark whenever the server's clock agreed with
 * their own. If the clock jumped, the mark looks old or lies in the future.
 */

/** The longest any process doubts a clock: by then every live holder has renewed by the clock as it is now. */
export const doubtfulForMs = 10_000
/** Marks are left every second. An older one may date from before a jump. */
const freshMs = 3_000
/** A jump smaller than this expires no lease of the usual length that is renewed on time. */
const recentMs = 15_000
/** This long after a jump, every holder that can reach the server has noticed it and renewed. */
const glanceMs = 2_000
/** Smaller backward corrections of a clock are harmless. */
const maxAheadMs = 2_000
/** Processes whose connections are not visible count as running for this long after they last left a mark. */
const unseenForMs = 600_000

/** All times are on the server's clock. */
export interface ClockCheck {
  readonly now: number
  /** When a running process last found the clock right; 0: never. */
  readonly checkedAt: number
  /** The same for processes behind a pooler. */
  readonly checkedBehindPoolerAt: number
  /** When a process first found the mark too old, and which mark that was. */
  readonly unchecked: { readonly since: number; readonly checkedAt: number } | null
  /** A process that renews leases is connected. */
  readonly isAnyoneThere: boolean
  /** The server has just started: processes that were connected may be about to come back. */
  readonly isServerNew: boolean
}

/** How long to doubt the clock after opening the store, in ms. If nobody renews, nobody can be robbed. */
export function decideDoubtMs(check: ClockCheck): number {
  if (!mayHaveCompany(check)) return 0
  const { now, checkedAt, unchecked } = check
  const ageMs = now - checkedAt
  const isMark = ageMs >= -maxAheadMs
  if (isMark && ageMs < freshMs) return 0
  if (isMark && ageMs < recentMs) return glanceMs
  // Counts from when the old mark was first seen. Otherwise short-lived processes could never take anything while a
  // frozen process is connected.
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
