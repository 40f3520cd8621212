/** Retention: removes what is old and finished, one bounded batch at a time. Events have their own retention. */
import * as z from 'zod'
import { endableInstances } from '../../domain/instance.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { RecoveryRun, RecoveryTotal } from '../../port/recovery.ts'
import { ask, change, need, operation } from '../operation.ts'
import { trimmedRun } from '../run/control.ts'
import { beforeOf, isPast, type Past, past } from './horizon.ts'

const maxPerPiece = 200
/** Enough to see what happened lately. The totals keep counting all of them. */
const recoveriesKept = 1000
/** Runs are trimmed in the order they ended, so one that is half trimmed is among the last. */
const trimmedLast = 100

export const run = operation({
  name: 'retention.run',
  summary:
    'Remove finished items and runs, old answers to idempotent requests, ended instances and old recoveries.',
  effect: 'admin',
  class: 'internal',
  input: () => ({
    items: past()
      .nullable()
      .describe('Remove items, and items of completed runs, that ended before this; null: none.'),
    runs: past().nullable().describe('Remove completed runs that ended before this; null: none.'),
    answers: past().nullable().describe('The same for answers.'),
    instances: past().nullable().describe('The same for instances.'),
  }),
  output: () =>
    z.object({
      items: z.number(),
      answers: z.number(),
      instances: z.number(),
      runs: z.number(),
      recoveries: z.number(),
      more: z.boolean(),
    }),
  needs: ({ items, runs, answers, instances }) => ({
    items: items && { select: 'closedBefore', queue: null, before: beforeOf(items), limit: maxPerPiece },
    // One run per batch, because its items go with it.
    whole: items && { select: 'runsEndedBefore', before: beforeOf(items), isTrimmed: false, limit: 1 },
    halfTrimmed: items && { select: 'runsHalfTrimmed', newest: trimmedLast },
    trimmed: runs && {
      select: 'runsEndedBefore',
      before: beforeOf(runs),
      isTrimmed: true,
      limit: maxPerPiece,
    },
    answers: answers && { select: 'answersBefore', before: beforeOf(answers), limit: maxPerPiece },
    instances: instances && {
      select: 'instancesEndedBefore',
      before: beforeOf(instances),
      limit: maxPerPiece,
    },
    recoveries: { select: 'oldRecoveryRuns', keep: recoveriesKept, limit: maxPerPiece },
  }),
  decide({ recoveries, ...ended }, input, context) {
    const items = pastOf(ended.items, input.items, context)
    const answers = pastOf(ended.answers, input.answers, context)
    const instances = pastOf(ended.instances, input.instances, context)
    const runs = pastOf(ended.trimmed, input.runs, context)
    const changes: Change[] = [
      ...items.map((before) => {
        const detail = { reason: 'retention', state: before.state }
        return change('item', before, null, 'item.removed', context, detail)
      }),
      ...answers.map((before): Change => ({ table: 'answer', before, after: null })),
      ...runs.map((run) => change('run', run, null, 'run.removed', context)),
    ]
    const more = [items, answers, runs, recoveries].some(({ length }) => length === maxPerPiece)
    const counts = {
      items: items.length,
      answers: answers.length,
      runs: runs.length,
      instances: 0,
      recoveries: recoveries.length,
    }
    const [halfTrimmed] = pastOf(ended.halfTrimmed, input.items, context)
    const [whole] = pastOf(ended.whole, input.items, context)
    const run = halfTrimmed ?? whole
    if (!run && recoveries.length === 0 && instances.length === 0)
      return { changes, result: { ...counts, more } }
    const queues = new Set(recoveries.map(({ queue }) => queue))
    const needs = need({
      held: { select: 'heldByInstances', instances: instances.map(({ id }) => id) },
      totals: { select: 'recoveryTotals', queues: [...queues] },
      page: run
        ? { select: 'outcomesOf', run: run.run, outcome: null, after: null, limit: maxPerPiece }
        : null,
    })
    return ask(needs, ({ held, totals, page }) => {
      // Keep an instance that still holds something: only its row says that this was lost without a crash.
      const removed = endableInstances(instances, held, [])
      return {
        changes: [
          ...changes,
          ...removed.map((before) => change('instance', before, null, 'instance.removed', context)),
          ...foldRecoveries(recoveries, totals),
          ...(run && page ? trimmedRun(run, page.rows, context) : []),
        ],
        result: {
          ...counts,
          instances: removed.length,
          more: more || run !== undefined || (instances.length === maxPerPiece && removed.length > 0),
        },
      }
    })
  },
})

/** Nothing, if the date that made them seem old has been corrected. */
function pastOf<Row>(rows: readonly Row[] | null, past: Past | null, context: Context): readonly Row[] {
  return rows !== null && past !== null && isPast(past, context) ? rows : []
}

/** Removes the runs one by one and keeps a total per queue. */
function foldRecoveries(runs: readonly RecoveryRun[], totals: readonly RecoveryTotal[]): Change[] {
  const queues = [...new Set(runs.map(({ queue }) => queue))]
  return [
    ...runs.map((run): Change => ({ table: 'recoveryRun', before: run, after: null })),
    ...queues.map((queue): Change => {
      const before = totals.find((total) => total.queue === queue) ?? null
      const own = runs.filter((run) => run.queue === queue)
      const sum = (field: 'locksCleaned' | 'entriesReclaimed' | 'messagesReclaimed') =>
        own.reduce((total, run) => total + run[field], before?.[field] ?? 0)
      const after = {
        queue,
        locksCleaned: sum('locksCleaned'),
        entriesReclaimed: sum('entriesReclaimed'),
        messagesReclaimed: sum('messagesReclaimed'),
        version: (before?.version ?? 0) + 1,
      }
      return { table: 'recoveryTotal', before, after }
    }),
  ]
}
