/** What healing would do now, and what it did. */
import * as z from 'zod'
import { processingLockName } from '../domain/queue.ts'
import * as fields from './fields.ts'
import { operation } from './operation.ts'

export const stats = operation({
  name: 'recovery.stats',
  summary: 'What a recovery would do now, and what past ones did; changes nothing.',
  effect: 'read',
  input: () => z.strictObject({ queue: fields.queue.optional() }),
  output: () =>
    z.object({
      locksCleaned: z.number(),
      entriesReclaimed: z.number(),
      messagesReclaimed: z.number(),
      recoveryTimestamp: z.number(),
      lastRun: z
        .object({
          at: z.number(),
          trigger: z.string(),
          by: z.string(),
          locksCleaned: z.number(),
          entriesReclaimed: z.number(),
          quarantined: z.number(),
          messagesReclaimed: z.number(),
        })
        .nullable(),
      totals: z.object({
        locksCleaned: z.number(),
        entriesReclaimed: z.number(),
        messagesReclaimed: z.number(),
      }),
      lastSweptAt: z.number().nullable(),
    }),
  needs: ({ queue }) => ({
    lapsed: {
      select: 'lapsedCounts',
      queue: queue ?? null,
      name: queue === undefined ? null : processingLockName(queue),
    } as const,
    history: { select: 'recoveryHistory' } as const,
    running: { select: 'runningInstances', limit: 1000 } as const,
  }),
  decide({ lapsed, history, running }, _input, context) {
    const swept = running.flatMap((instance) => instance.sweptAt ?? [])
    return {
      changes: [],
      result: {
        locksCleaned: lapsed.locks,
        entriesReclaimed: lapsed.items,
        messagesReclaimed: lapsed.deliveries,
        recoveryTimestamp: context.wall,
        lastRun: history.last,
        totals: {
          locksCleaned: history.locksCleaned,
          entriesReclaimed: history.entriesReclaimed,
          messagesReclaimed: history.messagesReclaimed,
        },
        lastSweptAt: swept.length === 0 ? null : Math.max(...swept),
      },
    }
  },
})
