/** Runs and the outcomes of their items: how a command names them. */
import type { Outcome, Progress } from '../domain/progress.ts'
import type { Page } from './page.ts'

export interface RunSelectors {
  runsByName: [{ runs: readonly string[] }, readonly Progress[]]
  /** Runs by name, after the given one. */
  runPage: [{ status: string | null; after: string | null; limit: number }, Page<Progress>]
  /** Runs marked as running whose lock is gone. */
  orphanedRuns: [{ limit: number }, readonly Progress[]]
  /** `isTrimmed`: runs whose item outcomes are no longer kept; otherwise, runs whose outcomes are. */
  runsEndedBefore: [{ before: number; isTrimmed: boolean; limit: number }, readonly Progress[]]
  /** A trimmed run that still has outcomes, if there is one among this many that ended last. */
  runsHalfTrimmed: [{ newest: number }, readonly Progress[]]
  outcomesById: [{ ids: readonly string[] }, readonly Outcome[]]
  outcomesOf: [{ run: string; outcome: string | null; after: string | null; limit: number }, Page<Outcome>]
}
