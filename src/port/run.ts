/** Runs and the outcomes of their items: how a command names them. */
import type { Outcome, Run } from '../domain/run.ts'
import type { Page } from './page.ts'

export interface RunSelectors {
  runsByName: [{ runs: readonly string[] }, readonly Run[]]
  /** Runs by name, after the given one. */
  runPage: [{ status: string | null; after: string | null; limit: number }, Page<Run>]
  /** Runs marked as running whose lock is gone. */
  orphanedRuns: [{ limit: number }, readonly Run[]]
  /** `isTrimmed`: runs whose item outcomes are no longer kept; otherwise, runs whose outcomes are. */
  runsEndedBefore: [{ before: number; isTrimmed: boolean; limit: number }, readonly Run[]]
  /** A trimmed run that still has outcomes, if there is one among this many that ended last. */
  runsHalfTrimmed: [{ newest: number }, readonly Run[]]
  outcomesById: [{ ids: readonly string[] }, readonly Outcome[]]
  outcomesOf: [{ run: string; outcome: string | null; after: string | null; limit: number }, Page<Outcome>]
}
