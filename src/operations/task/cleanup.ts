/** Freeing the locks of tasks on request: those that expired, and those that dead holders left behind. */
import * as z from 'zod'
import type { Item } from '../../domain/item.ts'
import { isExpired } from '../../domain/lease.ts'
import { type Deaths, type ReclaimedItem, recoverItem } from '../../domain/recovery.ts'
import { taskQueue } from '../../domain/task.ts'
import type { Change, Context, DefinedQueue } from '../../engines/engine.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { maxJudged } from '../lease/watch.ts'
import { ask, type OutputOf, operation, type Step } from '../operation.ts'
import { itemReclaim, lossRecords, processNeeds, rulesFor, runRows } from '../recovery/reclaim.ts'
import { death, deathsIn, maxReclaimed } from '../recovery/recovery.ts'

const report = lazily(() =>
  z.object({
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
  }),
)
export type LockCleanup = OutputOf<typeof report>

const dryRun = lazily(() => z.boolean().default(false).describe('Report what would be done, and do nothing.'))

export const cleanupExpiredLocks = operation({
  name: 'tasks.cleanupExpiredLocks',
  summary: 'Return tasks to Todo whose lock expired longer ago than an age; up to 100 per call.',
  effect: 'admin',
  freshIds: () => 1,
  input: () =>
    z.strictObject({
      maxAgeMs: z
        .int()
        .min(0)
        .default(0)
        .describe('Only locks that expired longer ago than this; a valid lock is never touched.'),
      dryRun: dryRun(),
    }),
  output: report,
  needs: () => ({
    defined: { select: 'queue', name: taskQueue } as const,
    lapsed: { select: 'lapsedItems', queues: [taskQueue], limit: maxReclaimed } as const,
  }),
  decide({ defined, lapsed }, input, context) {
    const old = lapsed.filter((item) => isExpired(item, context.now - input.maxAgeMs))
    return free(old, defined, new Map(), input, context, old.length === maxReclaimed)
  },
})

export const cleanupDeadAgentLocks = operation({
  name: 'tasks.cleanupDeadAgentLocks',
  summary: 'Reclaim what proven-dead holders hold, and expired leases whose holder is not alive.',
  effect: 'admin',
  class: 'client',
  freshIds: () => 1,
  facts: ['alive', 'deaths'],
  input: () =>
    z.strictObject({
      deaths: z.array(death()).max(maxJudged).default([]),
      alive: z
        .array(fields.text(100))
        .max(maxJudged)
        .default([])
        .describe('Instances seen alive: their locks stay, even expired ones.'),
      dryRun: dryRun(),
    }),
  output: report,
  needs: ({ deaths }) => ({
    defined: { select: 'queue', name: taskQueue } as const,
    lapsed: { select: 'lapsedItems', queues: [taskQueue], limit: maxReclaimed } as const,
    orphans: {
      select: 'itemsOfInstances',
      instances: deaths.map(({ instance }) => instance),
      queue: taskQueue,
      limit: maxReclaimed,
    } as const,
  }),
  decide({ defined, lapsed, orphans }, input, context) {
    const deaths = deathsIn(input.deaths)
    const left = lapsed.filter(({ instance }) => instance === null || !input.alive.includes(instance))
    const items = [...new Map([...orphans, ...left].map((item) => [item.id, item])).values()]
    const more = orphans.length === maxReclaimed || lapsed.length === maxReclaimed
    return free(items.slice(0, maxReclaimed), defined, deaths, input, context, more)
  },
})

/** Every row was read in this transaction, so leases renewed or granted again in the meantime are left alone. */
function free(
  items: readonly Item[],
  defined: DefinedQueue | null,
  deaths: Deaths,
  { dryRun: isTrial }: { dryRun: boolean },
  context: Context,
  more: boolean,
): Step<LockCleanup> {
  const queues = defined ? [defined] : []
  return ask(processNeeds(items), ({ processes }) => {
    const taken = items.flatMap(
      (item) => recoverItem(item, rulesFor(item, queues, processes), deaths, context) ?? [],
    )
    // If nothing could be taken, asking again would not help.
    const result = { ...summary(taken), more: more && taken.length > 0 && !isTrial }
    if (isTrial || taken.length === 0) return { changes: [], result }
    const changes: Change[] = [
      ...taken.map((each) => itemReclaim(each, context, 'manual')),
      ...lossRecords(taken, processes, context),
      ...runRows(context, 'manual', { items: taken, locks: [], deliveries: [] }),
    ]
    return { changes, result }
  })
}

function summary(taken: readonly ReclaimedItem[]): Omit<LockCleanup, 'more'> {
  return {
    cleaned: taken.length,
    taskIds: taken.map(({ before }) => before.id),
    locks: taken.map(({ before, evidence, expiredForMs }) => ({
      taskId: before.id,
      assignee: before.agent,
      lockUntil: before.expiresAt,
      expiredMs: expiredForMs,
      evidence,
    })),
  }
}
