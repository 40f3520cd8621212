/** Freeing the locks of tasks on request: a recovery of the queue of tasks, reported in the words of tasks. */
import * as z from 'zod'
import { taskQueue } from '../../domain/task.ts'
import * as fields from '../fields.ts'
import { maxJudged } from '../lease/watch.ts'
import { mapStep, type OutputOf, operation, view } from '../operation.ts'
import { decideRecovery, type RecoveryRequest, recoveryNeeds } from '../recovery/recovery.ts'
import { death, type RecoveryReport } from '../recovery/report.ts'

const report = view(() => ({
  cleaned: z.number(),
  taskIds: z.array(z.string()),
  locks: z.array(
    z.object({
      taskId: z.string(),
      assignee: z.string().nullable(),
      lockUntil: z.number().nullable(),
      expiredMs: z.number(),
      evidence: z.string(),
    }),
  ),
  /** True if there may be more than one transaction takes. */
  more: z.boolean(),
}))
/** What a cleanup freed. */
export type LockCleanup = OutputOf<typeof report>

const ofTasks = { trigger: 'manual', queue: taskQueue, only: 'items' } as const

export const cleanupExpiredLocks = operation({
  name: 'tasks.cleanupExpiredLocks',
  summary: 'Return tasks to Todo whose lock expired longer ago than an age; up to 100 per call.',
  effect: 'admin',
  freshIds: () => 1,
  input: () => ({
    maxAgeMs: fields
      .whole(0)
      .default(0)
      .describe('Only locks that expired longer ago than this; a valid lock is never touched.'),
    dryRun: fields.dryRun,
  }),
  output: report,
  needs: (input) => recoveryNeeds({ ...ofTasks, ...input }),
  decide: (rows, input, context) =>
    mapStep(decideRecovery(rows, { ...ofTasks, ...input }, context), (done) =>
      inTaskWords(done, input.dryRun),
    ),
})

export const cleanupDeadAgentLocks = operation({
  name: 'tasks.cleanupDeadAgentLocks',
  summary: 'Reclaim what proven-dead holders hold, and expired leases whose holder is not alive.',
  effect: 'admin',
  class: 'client',
  freshIds: () => 1,
  facts: ['alive', 'deaths'],
  input: () => ({
    deaths: z.array(death()).max(maxJudged).default([]),
    alive: z
      .array(fields.text(100))
      .max(maxJudged)
      .default([])
      .describe('Instances seen alive: their locks stay, even expired ones.'),
    dryRun: fields.dryRun,
  }),
  output: report,
  needs: (input) => recoveryNeeds(requestOf(input)),
  decide: (rows, input, context) =>
    mapStep(decideRecovery(rows, requestOf(input), context), (done) => inTaskWords(done, input.dryRun)),
})

function requestOf({
  alive,
  ...input
}: Pick<RecoveryRequest, 'deaths' | 'dryRun'> & { readonly alive: readonly string[] }): RecoveryRequest {
  return { ...ofTasks, ...input, spared: alive }
}

function inTaskWords({ reclaimed, more }: RecoveryReport, dryRun: boolean | undefined): LockCleanup {
  return {
    cleaned: reclaimed.length,
    taskIds: reclaimed.map(({ id }) => id),
    locks: reclaimed.map(({ id, holder, expiresAt, expiredForMs, evidence }) => ({
      taskId: id,
      assignee: holder,
      lockUntil: expiresAt,
      expiredMs: expiredForMs,
      evidence,
    })),
    // If nothing could be taken, asking again would not help.
    more: more && reclaimed.length > 0 && dryRun !== true,
  }
}
