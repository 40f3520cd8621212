/** What recovery would do now, what it did, and how often it failed. */
import * as z from 'zod'
import { lastSweptAt } from '../../domain/instance.ts'
import { processingLockName } from '../../domain/queue.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { type OutputOf, operation, reply, view } from '../operation.ts'
import { maxDeaths, recoveryTriggers } from './report.ts'

const counts = lazily(() => ({
  locksCleaned: z.number(),
  entriesReclaimed: z.number(),
  messagesReclaimed: z.number(),
}))

const statsView = view(() => ({
  ...counts(),
  recoveryTimestamp: z.number(),
  lastRun: z
    .object({
      at: z.number(),
      trigger: z.string(),
      by: z.string(),
      ...counts(),
      quarantined: z.number(),
    })
    .nullable(),
  totals: z.object({ ...counts(), failures: z.number() }),
  lastSweptAt: z.number().nullable(),
  /** The last recovery failure that anybody recorded. */
  lastError: z.object({ at: z.number(), trigger: z.string(), by: z.string(), error: z.string() }).nullable(),
}))
/** How often recovery ran, and what it found. */
export type RecoveryStats = OutputOf<typeof statsView>

export const stats = operation({
  name: 'recovery.stats',
  summary: 'Report what a recovery would do now, what past ones did, and failures. Changes nothing.',
  effect: 'read',
  facts: ['dead'],
  input: () => ({
    queue: fields.queue.optional(),
    dead: z
      .array(fields.text(100))
      .max(maxDeaths)
      .default([])
      .describe('Instances that the caller has found dead.'),
  }),
  output: statsView,
  needs: ({ queue, dead }) => ({
    lapsed: {
      select: 'lapsedCounts',
      queue: queue ?? null,
      name: queue === undefined ? null : processingLockName(queue),
      instances: dead,
    },
    history: { select: 'recoveryHistory', queue: queue ?? null },
    failures: { select: 'recoveryFailures', queue: queue ?? null },
    running: { select: 'runningInstances', limit: 1000 },
  }),
  decide({ lapsed, history, failures, running }, _input, context) {
    const { locksCleaned, entriesReclaimed, messagesReclaimed } = history
    const [last] = failures
    return reply({
      locksCleaned: lapsed.locks,
      entriesReclaimed: lapsed.items,
      messagesReclaimed: lapsed.deliveries,
      recoveryTimestamp: context.wall,
      lastRun: history.last,
      totals: {
        locksCleaned,
        entriesReclaimed,
        messagesReclaimed,
        failures: failures.reduce((sum, { count }) => sum + count, 0),
      },
      lastSweptAt: lastSweptAt(running),
      lastError: last ? { at: last.at, trigger: last.trigger, by: last.by, error: last.error } : null,
    })
  },
})

export const maxError = 2000

export const noteFailure = operation({
  name: 'recovery.noteFailure',
  summary: 'Record that recovery failed: how often, and the last error per trigger and queue.',
  effect: 'write',
  class: 'internal',
  input: () => ({
    trigger: z.enum(recoveryTriggers),
    queue: fields.queue.optional(),
    count: fields.whole(1, 1_000_000),
    at: fields.wallTime,
    error: fields.text(maxError),
  }),
  output: () => z.number(),
  needs: ({ queue, trigger }) => ({
    known: { select: 'recoveryFailure', queue: queue ?? '', trigger },
  }),
  decide({ known }, { queue, trigger, count, at, error }, { agent }) {
    const after = {
      queue: queue ?? '',
      trigger,
      count: (known?.count ?? 0) + count,
      at,
      by: agent,
      error,
      version: (known?.version ?? 0) + 1,
    }
    return { changes: [{ table: 'recoveryFailure', before: known, after }], result: after.count }
  },
})
