/** Retention: what is old and finished goes, a bounded piece at a time. Events have a retention of their own. */
import * as z from 'zod'
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
    total: { select: 'recoveryTotal' } as const,
  }),
  decide({ items: closed, ended, answers, instances, recoveries, total }, _input, { agent }) {
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
      ...instances.map(
        (before): Change => ({
          table: 'instance',
          before,
          after: null,
          event: { kind: 'instance.removed', agent },
        }),
      ),
      ...foldRecoveries(recoveries, total),
    ]
    const more = [items, answers, instances, recoveries].some(({ length }) => length === pieceMax)
    const counts = {
      items: items.length,
      answers: answers.length,
      instances: instances.length,
      recoveries: recoveries.length,
    }
    const [run] = ended ?? []
    if (!run) return { changes, result: { ...counts, runs: 0, more } }
    return ask(
      { page: { select: 'outcomesOf', run: run.run, outcome: null, after: null, limit: pieceMax } as const },
      ({ page }) => ({
        changes: [...changes, ...removedRun(run, page.rows, page.next === null, agent)],
        result: { ...counts, runs: page.next === null ? 1 : 0, more: true },
      }),
    )
  },
})

/** Removed one by one, kept as a sum. */
function foldRecoveries(runs: readonly RecoveryRun[], before: RecoveryTotal | null): Change[] {
  if (runs.length === 0) return []
  const sum = (field: 'locksCleaned' | 'entriesReclaimed' | 'messagesReclaimed') =>
    runs.reduce((total, run) => total + run[field], before?.[field] ?? 0)
  const after = {
    locksCleaned: sum('locksCleaned'),
    entriesReclaimed: sum('entriesReclaimed'),
    messagesReclaimed: sum('messagesReclaimed'),
    version: (before?.version ?? 0) + 1,
  }
  return [
    ...runs.map((run): Change => ({ table: 'recoveryRun', before: run, after: null })),
    { table: 'recoveryTotal', before, after },
  ]
}
