/** Runs and the outcomes of their items: how a command names them. */
import type { Outcome, Progress } from '../domain/progress.ts'
import type { Page } from './page.ts'

export interface RunSelectors {
  progressOf: [{ runs: readonly string[] }, readonly Progress[]]
  /** Runs by name, after the given one. */
  progressPage: [{ status: string | null; after: string | null; limit: number }, Page<Progress>]
  /** Runs marked as running whose lock is gone. */
  orphanedProgress: [{ limit: number }, readonly Progress[]]
  /** `isTrimmed`: runs whose item outcomes are no longer kept; otherwise, runs whose outcomes are. */
  progressEndedBefore: [{ before: number; isTrimmed: boolean; limit: number }, readonly Progress[]]
  /** A trimmed run that still has outcomes, if there is one among this many that ended last. */
  progressHalfTrimmed: [{ newest: number }, readonly Progress[]]
  outcomesById: [{ ids: readonly string[] }, readonly Outcome[]]
  outcomesOf: [{ run: string; outcome: string | null; after: string | null; limit: number }, Page<Outcome>]
}
