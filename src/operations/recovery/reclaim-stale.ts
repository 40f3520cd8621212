/** Lets an operator reclaim work, based on its last sign of life. */
import * as z from 'zod'
import { processingLockName } from '../../domain/queue.ts'
import { reclaimStaleItem, recoverLock } from '../../domain/recovery.ts'
import type { Change } from '../../engines/engine.ts'
import { InvalidError } from '../../errors.ts'
import * as fields from '../fields.ts'
import { ask, operation } from '../operation.ts'
import {
  describeReclaimed,
  itemReclaim,
  lockReclaim,
  lossRecords,
  processNeeds,
  rulesFor,
} from './reclaim.ts'
import { maxReclaimed, report } from './recovery.ts'

export const reclaimStale = operation({
  name: 'queue.reclaimStale',
  summary:
    "An operator's tool: take held items that gave no sign of life for a time, and lapsed locks. Up to 1,000 a call.",
  effect: 'admin',
  input: () =>
    z.strictObject({
      queue: fields.queue,
      thresholdMs: z
        .int()
        .min(0)
        .max(1_000_000_000_000)
        .default(300_000)
        .describe('Only what has been silent for this long, ms; 0 = everything held. Default 300 s.'),
      force: z
        .boolean()
        .optional()
        .describe('Also take it from processes that are alive and renewing; needs a reason.'),
      reason: fields.reason,
      dryRun: fields.dryRun,
    }),
  output: () =>
    z.object({
      entriesReclaimed: z.number(),
      locksCleaned: z.number(),
      recoveryTimestamp: z.number(),
      reclaimed: report().shape.reclaimed,
    }),
  needs: ({ queue, thresholdMs }) => ({
    defined: { select: 'queue', name: queue } as const,
    silent: { select: 'silentItems', queue, thresholdMs, limit: fields.maxBatch } as const,
    locks: { select: 'lapsedLocks', name: processingLockName(queue), limit: maxReclaimed } as const,
  }),
  decide({ defined, silent, locks }, input, context) {
    if (input.force && !input.reason) {
      throw new InvalidError({
        what: 'reclaimStale with force takes work from live processes',
        next: 'say why: give a reason',
      })
    }
    const request = { thresholdMs: input.thresholdMs, force: input.force ?? false }
    const queues = defined ? [defined] : []
    return ask(processNeeds(silent), ({ processes }) => {
      const taken = silent.flatMap(
        (item) => reclaimStaleItem(item, rulesFor(item, queues, processes), request, context) ?? [],
      )
      const cleaned = locks.flatMap((lock) => recoverLock(lock, new Map(), context.now) ?? [])
      const result = {
        entriesReclaimed: taken.length,
        locksCleaned: cleaned.length,
        recoveryTimestamp: context.wall,
        reclaimed: describeReclaimed(taken, cleaned, []),
      }
      if (input.dryRun) return { changes: [], result }
      return {
        changes: [
          ...taken.map((each) => withReason(itemReclaim(each, context, 'manual'), input.reason)),
          ...lossRecords(taken, processes, context),
          ...cleaned.map((each) => lockReclaim(each, context, 'manual')),
        ],
        result,
      }
    })
  },
})

function withReason(change: Change, reason: string | undefined): Change {
  if (reason === undefined || !change.event) return change
  return { ...change, event: { ...change.event, detail: { ...change.event.detail, reason } } } as Change
}
