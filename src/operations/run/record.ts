/** Recording the progress of a run: counts, and outcomes of single items. */
import * as z from 'zod'
import { countOutcomes, type Outcome, outcomeId, recordRun } from '../../domain/run.ts'
import { InvalidError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, change, type OutputOf, operation, type Step, view } from '../operation.ts'
import {
  assertGrant,
  count,
  cursor,
  maxOutcomes,
  requireRun,
  runName,
  runOf,
  runWrite,
  total,
} from './control.ts'
import { runView, viewRun } from './view.ts'

const outcome = lazily(() =>
  z.strictObject({
    key: fields.name.describe('The item; its latest outcome counts, once.'),
    outcome: z.enum(['done', 'failed', 'skipped']),
    error: fields.text(10_000).optional(),
  }),
)

/** A call that forgot its options must not look as if it had recorded something. */
function assertSomething(what: object): void {
  if (Object.values(what).some((value) => value !== undefined)) return
  throw new InvalidError({
    what: 'runs.record: there is nothing to record',
    next: 'give done, failed, skipped, total, cursor or outcomes',
  })
}

const recorded = view(() => ({
  progress: runView(),
  /** True for the one record that completed the run. */
  isLast: z.boolean(),
}))
/** The progress after a record, and whether it completed the run. */
export type RecordedRun = OutputOf<typeof recorded>

export const record = operation({
  name: 'runs.record',
  summary: 'Add to the counts of a run, under the token of its lock. A paused run stays paused.',
  ...runWrite,
  input: () => ({
    run: runName(),
    token: fields.token,
    done: count().optional().describe('How many more are done.'),
    failed: count().optional().describe('How many more failed.'),
    skipped: count().optional().describe('How many more were skipped.'),
    total: total(),
    cursor: cursor(),
    outcomes: z.array(outcome()).max(maxOutcomes).optional().describe('Outcomes of single items.'),
  }),
  output: recorded,
  needs: ({ run, outcomes }) => ({
    ...runOf({ run }),
    outcomes: {
      select: 'outcomesById',
      ids: (outcomes ?? []).map(({ key }) => outcomeId(run, key)),
    },
  }),
  decide({ known, outcomes }, input, context): Step<RecordedRun> {
    const { run, token, ...what } = input
    assertSomething(what)
    const before = requireRun(known, run)
    return ask({ locks: { select: 'lock', name: before.lock } }, ({ locks }) => {
      assertGrant(before, locks, token, context)
      const earlier = new Map(outcomes.map((each) => [each.id, each]))
      const news = newOutcomes(input, earlier, context.wall)
      const counted = countOutcomes(news, earlier)
      const after = recordRun(
        before,
        {
          done: counted.done + (input.done ?? 0),
          failed: counted.failed + (input.failed ?? 0),
          skipped: counted.skipped + (input.skipped ?? 0),
          cursor: input.cursor,
          total: input.total,
        },
        context,
      )
      const isLast = before.status === 'running' && after.status === 'completed'
      return {
        changes: [
          change('run', before, after, isLast ? 'run.completed' : 'run.recorded', context),
          ...news.map((row) =>
            change('outcome', earlier.get(row.id) ?? null, row, 'outcome.recorded', context),
          ),
        ],
        result: { progress: viewRun(after, context.now), isLast },
      }
    })
  },
})

/** The outcomes that say something new. If a key occurs several times, the last one counts. */
function newOutcomes(
  input: { run: string; outcomes?: readonly OutputOf<typeof outcome>[] | undefined },
  earlier: ReadonlyMap<string, Outcome>,
  wall: number,
): Outcome[] {
  const given = new Map((input.outcomes ?? []).map((each) => [outcomeId(input.run, each.key), each]))
  return [...given].flatMap(([id, { key, outcome, error }]) => {
    const before = earlier.get(id)
    if (before?.outcome === outcome) return []
    const version = (before?.version ?? 0) + 1
    return [{ id, run: input.run, key, outcome, error: error ?? null, at: wall, version }]
  })
}
