/**
 * Which process looks for dead holders: one for all processes that can judge the same holders. It keeps a record that
 * it renews with every look. The others watch that record and the process behind it, which takes no store access. Two
 * processes may briefly both take the role. That costs one extra look and does no harm, since each thing is given back
 * only once.
 */

export interface ProberRecord {
  /** Id of its caretaker, because a process may have a store open several times. */
  readonly id: string
  readonly pid: number
  readonly startTime: string | null
  /** Its last look, in awake time of the machine: the same clock for every reader. */
  readonly beatAt: number
}

/** `prober`: looks on behalf of all. `watcher`: leaves it to the prober. */
export type ProbingRole = 'prober' | 'watcher'

/** On a busy machine one look may be late and the next may be missed; after that, another process should take over. */
const maxLooksMissed = 3

/**
 * `record`: what is known about the prober. `isAble`: false if its process is dead or stopped. Each process applies its
 * own `probeEveryMs`, so the one with the shortest interval becomes the prober.
 */
export function decideProber(
  record: ProberRecord | null,
  given: {
    readonly self: string
    readonly isAble: boolean
    readonly now: number
    readonly probeEveryMs: number
  },
): ProbingRole {
  const { self, isAble, now, probeEveryMs } = given
  if (record === null || record.id === self || !isAble) return 'prober'
  return Math.abs(now - record.beatAt) > maxLooksMissed * probeEveryMs ? 'prober' : 'watcher'
}
