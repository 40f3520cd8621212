/** Lets an operator reclaim work, based on its last sign of life. */
import * as z from 'zod'
import { InvalidError } from '../../errors.ts'
import * as fields from '../fields.ts'
import { mapStep, operation } from '../operation.ts'
import { decideRecovery, type RecoveryRequest, recoveryNeeds } from './recovery.ts'
import { report } from './report.ts'

export const reclaimStale = operation({
  name: 'queue.reclaimStale',
  summary:
    'For operators: reclaim held items that have shown no sign of life for a while, and lapsed locks. Up to 1,000 per call.',
  effect: 'admin',
  freshIds: () => 1,
  input: () => ({
    queue: fields.queue,
    thresholdMs: fields
      .whole(0, 1_000_000_000_000)
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
    report().pick({
      entriesReclaimed: true,
      locksCleaned: true,
      recoveryTimestamp: true,
      reclaimed: true,
    }),
  needs: (input) => recoveryNeeds(requestOf(input)),
  decide(rows, input, context) {
    if (input.force && !input.reason) {
      throw new InvalidError({
        what: '`force` takes work from processes that are alive',
        next: 'say why, with `reason`',
      })
    }
    return mapStep(
      decideRecovery(rows, requestOf(input), context),
      ({ entriesReclaimed, locksCleaned, recoveryTimestamp, reclaimed }) => ({
        entriesReclaimed,
        locksCleaned,
        recoveryTimestamp,
        reclaimed,
      }),
    )
  },
})

function requestOf(input: {
  readonly queue: string
  readonly thresholdMs: number
  readonly force?: boolean | undefined
  readonly reason?: string | undefined
  readonly dryRun?: boolean | undefined
}): RecoveryRequest {
  const { queue, thresholdMs, force = false, reason, dryRun } = input
  return { trigger: 'manual', queue, stale: { thresholdMs, force }, reason, dryRun }
}
