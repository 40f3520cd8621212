/** Retention: what is old and finished goes, a bounded piece at a time. Events have a retention of their own. */
import * as z from 'zod'
import { endableInstances, type Instance } from '../domain/instance.ts'
import type { Change, RecoveryRun, RecoveryTotal } from '../engines/engine.ts'
import { ask, operation } from './operation.ts'
import { removedRun } from './progress.ts'

const pieceMax = 200
const answersKeptMs = 24 * 60 * 60 * 1000
/** Enough to see what happened lately; the sums over all of them go on. */
const recoveriesKept = 1000
const instancesKeptMs = 7 * 24 * 60 * 60 * 1000

export const run = operation({
  name: 'retention.run',
  summary:
    'Remove finished items and runs, old answers to idempotent requests, ended instances and old recoveries.',
  effect: 'admin',
  internal: true,
  input: () =>
    z.strictObject({
      itemsMs: z.int().min(0).describe('Finished items are kept for so long; 0 = for ever.'),
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
  needs: ({ itemsMs }) => ({
    items:
      itemsMs === 0
        ? null
        : ({ select: 'closedBefore', queue: null, ageMs: itemsMs, limit: pieceMax } as const),
    // One run a piece: its items go with it.
    ended: itemsMs === 0 ? null : ({ select: 'progressEndedBefore', ageMs: itemsMs, limit: 1 } as const),
    answers: { select: 'answersBefore', ageMs: answersKeptMs, limit: pieceMax } as const,
    instances: { select: 'instancesEndedBefore', ageMs: instancesKeptMs, limit: pieceMax } as const,
    recoveries: { select: 'oldRecoveryRuns', keep: recoveriesKept, limit: pieceMax } as const,
  }),
  decide({ items: closed, ended, answers, instances, recoveries }, _input, { agent }) {
    const items = closed ?? []
    const changes: Change[] = [
      ...items.map(
        (before): Change => ({
          table: 'item',
          before,
          after: null,
          event: { kind: 'item.removed', agent, detail: { reason: 'retention', state: before.state } },
        }),
      ),
      ...answers.map((before): Change => ({ table: 'answer', before, after: null })),
    ]
    const more = [items, answers, recoveries].some(({ length }) => length === pieceMax)
    const counts = {
      items: items.length,
      answers: answers.length,
      instances: 0,
      recoveries: recoveries.length,
    }
    const [run] = ended ?? []
    if (!run && recoveries.length === 0 && instances.length === 0)
      return { changes, result: { ...counts, runs: 0, more } }
    const needs = {
      held: { select: 'heldByInstances', instances: instances.map(({ id }) => id) } as const,
      totals: {
        select: 'recoveryTotals',
        queues: [...new Set(recoveries.map(({ queue }) => queue))],
      } as const,
      page: run
        ? ({ select: 'outcomesOf', run: run.run, outcome: null, after: null, limit: pieceMax } as const)
        : null,
    }
    return ask(needs, ({ held, totals, page }) => {
      const isWhole = page?.next === null
      // What one still holds is lost without a crash, and only its row tells.
      const removed = endableInstances(instances, held, [])
      return {
        changes: [
          ...changes,
          ...removed.map((before) => removedInstance(before, agent)),
          ...foldRecoveries(recoveries, totals),
          ...(run && page ? removedRun(run, page.rows, isWhole, agent) : []),
        ],
        result: {
          ...counts,
          instances: removed.length,
          runs: isWhole ? 1 : 0,
          more: more || run !== undefined || removed.length === pieceMax,
        },
      }
    })
  },
})

function removedInstance(before: Instance, agent: string): Change {
  return { table: 'instance', before, after: null, event: { kind: 'instance.removed', agent } }
}

/** Removed one by one, kept as a sum for each queue. */
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
