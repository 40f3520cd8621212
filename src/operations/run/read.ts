/** How far along runs are, and what is left to do. */
import * as z from 'zod'
import { outcomeId } from '../../domain/run.ts'
import type { Decision } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { ask, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import { maxOutcomes, requireRun, runName, runOf } from './control.ts'
import { runView, viewRun } from './view.ts'

export const get = operation({
  name: 'runs.get',
  summary: 'Get the progress of a run; null when there is none.',
  effect: 'read',
  input: () => ({ run: runName() }),
  output: () => runView().nullable(),
  needs: runOf,
  decide: ({ known }, _input, { now }) => reply(known[0] ? viewRun(known[0], now) : null),
})

export const list = operation({
  name: 'runs.list',
  summary: 'List runs by name, optionally of one status.',
  effect: 'read',
  input: () => ({
    status: z.enum(['running', 'paused', 'completed', 'failed']).optional().describe('Only these.'),
    limit: fields.limit,
    after: fields.after,
  }),
  output: () => z.object({ runs: z.array(runView()), next: z.string().nullable() }),
  needs: ({ status, ...page }) => ({
    page: { select: 'runPage', status: status ?? null, ...fields.paging(page) },
  }),
  decide: ({ page }, _input, { now }) =>
    reply({ runs: page.rows.map((run) => viewRun(run, now)), next: page.next }),
})

const outcomeView = view(() => ({
  key: z.string(),
  outcome: z.enum(['done', 'failed', 'skipped']),
  error: z.string().nullable(),
  at: z.number(),
}))

export const outcomes = operation({
  name: 'runs.outcomes',
  summary: 'List the outcome of each item of a run, by key.',
  effect: 'read',
  input: () => ({
    run: runName(),
    outcome: outcomeView().shape.outcome.optional().describe('Only those with this outcome.'),
    limit: fields.limit,
    after: fields.after,
  }),
  output: () => z.object({ outcomes: z.array(outcomeView()), next: z.string().nullable() }),
  needs: ({ run, outcome, ...page }) => ({
    page: { select: 'outcomesOf', run, outcome: outcome ?? null, ...fields.paging(page) },
  }),
  decide: ({ page }) =>
    reply({
      outcomes: page.rows.map(({ key, outcome, error, at }) => ({ key, outcome, error, at })),
      next: page.next,
    }),
})

export const remaining = operation({
  name: 'runs.remaining',
  summary: 'List which of these items of a run are still to be done.',
  effect: 'read',
  input: () => ({
    run: runName(),
    keys: z.array(fields.name).max(maxOutcomes).describe('The keys to check.'),
  }),
  output: () => z.array(z.string()),
  needs: ({ run, keys }) => ({
    ...runOf({ run }),
    outcomes: { select: 'outcomesById', ids: keys.map((key) => outcomeId(run, key)) },
  }),
  decide({ known, outcomes }, { run, keys }) {
    const { completion, outcomesRemovedAt } = requireRun(known, run)
    // The run was completed and its items are no longer known. The caller must not do them all again.
    if (outcomesRemovedAt !== null) return reply([])
    // If no item may fail, a failed one is still to be done.
    const settled = new Set(
      outcomes
        .filter(({ outcome }) => outcome !== 'failed' || completion === 'processed')
        .map(({ key }) => key),
    )
    return reply([...new Set(keys)].filter((key) => !settled.has(key)))
  },
})

const stopAnswer = view(() => ({ stop: z.boolean(), reason: z.string().nullable() }))
/** Whether a run should start no further item, and why. */
export type StopAnswer = OutputOf<typeof stopAnswer>

export const shouldStop = operation({
  name: 'runs.shouldStop',
  summary: 'Say whether the runner must stop: its lock is lost, or the run is not running.',
  effect: 'read',
  input: () => ({ run: runName(), token: fields.token }),
  output: stopAnswer,
  needs: runOf,
  decide({ known }, { run, token }): Step<StopAnswer> {
    const [progress] = known
    if (!progress) return stop(`there is no run ${run}`)
    if (progress.status !== 'running') return stop(progress.pauseReason ?? `it is ${progress.status}`)
    return ask({ locks: { select: 'lock', name: progress.lock } }, ({ locks }): Decision<StopAnswer> => {
      const isOurs = token === progress.token && locks.some((lock) => lock.token === token)
      return isOurs ? reply({ stop: false, reason: null }) : stop('its lock was lost')
    })
  },
})

function stop(reason: string) {
  return reply({ stop: true, reason })
}
