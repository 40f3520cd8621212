/**
 * Which process looks for dead holders: one for all that can judge the same processes. It leaves a record that it renews
 * with every look; the others watch the record and the process behind it, and need no store for that. Two processes may
 * both take themselves for it for a moment. That costs a look and does no harm, since each thing is given back once.
 */

export interface ProberRecord {
  /** Of its caretaker: a process may have a store open several times. */
  readonly id: string
  readonly pid: number
  readonly startTime: string | null
  /** Its last look, in awake time of the machine: one clock for all who read it. */
  readonly beatAt: number
}

/** `prober`: looks for all. `watcher`: leaves it to the one that does. */
export type ProbingRole = 'prober' | 'watcher'

/** One look may be late and the next lost with a busy machine; after that, somebody else had better look. */
const maxLooksMissed = 3

/**
 * `record`: what is known of the prober. `isAble`: false when its process is dead or stopped. Everybody goes by their own
 * `probeEveryMs`, so the one that wants to look most often does.
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
