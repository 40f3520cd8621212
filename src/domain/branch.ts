/**
 * Branches of a PostgreSQL server's history. Every promotion starts one. Its timeline number does not identify it,
 * because two standbys promoted independently get the same number. So the store writes a random mark on each branch it
 * is used on. A server whose history contains a mark has everything that was committed before that mark.
 */

export interface Branch {
  readonly timeline: number
  readonly mark: string
}

/** What a primary reported about itself. */
export interface BranchFacts {
  readonly timeline: number
  /** Identifies the cluster: shared by a primary and everything that was ever copied from it. */
  readonly system: string
  /** Identifies this run of this server, whichever address led to it. */
  readonly server: string
  /** The mark of its branch; null if the store was never used on it. */
  readonly mark: string | null
  /** The most recent marks in its history, including its own. */
  readonly marks: readonly string[]
}

/**
 * `known`: it has everything we knew of, or we knew nothing. `ahead`: it was promoted later, from a server without our
 * mark. `adopted`: neither, but no other server has answered for long enough.
 */
export type Admission = 'known' | 'ahead' | 'adopted' | 'refused'

/**
 * An HA manager has decided by then. With a shorter time, processes could switch to a branch that is about to be
 * discarded.
 */
export const adoptAfterMs = 60_000

/** Whether a process that last used `known` may continue with this server, which it has refused for `refusedForMs`. */
export function admit(
  known: Branch | null,
  met: Pick<BranchFacts, 'timeline' | 'marks'>,
  refusedForMs: number,
): Admission {
  if (known === null || met.marks.includes(known.mark)) return 'known'
  if (met.timeline > known.timeline) return 'ahead'
  return refusedForMs >= adoptAfterMs ? 'adopted' : 'refused'
}

/**
 * Which of the admitted servers to use: the one on the highest timeline. If several are on it, the only one the store
 * was used on; null if that does not decide it. Then nobody may continue, because two processes would write two
 * histories. A refused server counts only if it belongs to the same cluster and the store was used on it.
 */
export function chooseServer<Facts extends BranchFacts>(
  admitted: readonly [Facts, ...Facts[]],
  refused: readonly BranchFacts[] = [],
): Facts | null {
  const timeline = Math.max(...admitted.map((each) => each.timeline))
  const highest = admitted.filter((each) => each.timeline === timeline)
  const rivals = refused.filter(
    (each) =>
      each.timeline === timeline &&
      each.mark !== null &&
      highest.some(({ system }) => system === each.system),
  )
  const used = highest.filter(({ mark }) => mark !== null)
  const [best, ...others] = (used.length > 0 ? used : highest) as [Facts, ...Facts[]]
  return [...others, ...rivals].every(({ server }) => server === best.server) ? best : null
}
