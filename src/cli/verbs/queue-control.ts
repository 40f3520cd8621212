/** Verbs for operators, who may change items and queues no matter who holds them. */

import { counted } from '../../domain/count.ts'
import { inPieces, sumOf } from '../../runtime/session/input.ts'
import { lines } from '../drawing.ts'
import { verb } from '../verb.ts'
import { freedText, healingLines, healingText, linesOption, recoveryDetails } from './healing-text.ts'
import { itemLine } from './item-text.ts'
import { queueDetails } from './queue-look.ts'
import { manyRequests } from './wait.ts'

/** A queue has no messages. */
function freedInQueue({ entriesReclaimed, locksCleaned }: Parameters<typeof freedText>[0]): string {
  return freedText({ entriesReclaimed, locksCleaned })
}

export const queueControlVerbs = [
  verb({ operation: 'queue.retry' }),
  verb({
    name: 'retry-failed',
    operation: 'queue.retry',
    summary: 'Retry every failed item that can be retried.',
    positional: ['queue'],
    optional: ['ref'],
    hides: ['ref', 'expectedVersion'],
    options: [{ flags: '--dry-run', description: 'count what would be retried, without changing anything' }],
    async act(call) {
      const dryRun = call.options.dryRun === true
      if (call.idempotencyKey !== undefined) {
        const next = 'leave out --idempotency-key: a repeated command retries only what is still failed'
        throw manyRequests('retry-failed', next)
      }
      const hf = await call.open()
      return {
        ...(await hf.queue(call.input.queue).retryFailed({ reason: call.input.reason, dryRun })),
        dryRun,
      }
    },
    text: ({ retried, refused, refusals, dryRun }) =>
      lines([
        `${dryRun ? 'would retry' : 'retried'} ${counted(retried, 'item')}`,
        ...refusals.map(({ error }) => `refused: ${error}`),
        ...(refused > refusals.length ? [`refused ${refused - refusals.length} more`] : []),
      ]),
  }),
  verb({ operation: 'queue.cancel' }),
  verb({
    name: 'priority',
    operation: 'queue.setPriority',
    text: (item) => `${itemLine(item)}, priority ${item.priority}`,
  }),
  verb({
    operation: 'queue.releaseFromQuarantine',
  }),
  verb({
    operation: 'queue.pause',
    text: ({ changed, queue }) => `${queue.name}  ${changed ? 'paused' : 'was already paused'}`,
  }),
  verb({
    operation: 'queue.resume',
    positional: ['queue'],
    text: ({ changed, queue }) => `${queue.name}  ${changed ? 'resumed' : 'was not paused'}`,
  }),
  verb({
    noun: 'queue',
    operation: 'queue.define',
    makesStore: 'always',
    help: '  holdfast queue define merges --workflow merge',
    details: queueDetails,
  }),
  verb({
    noun: 'removed',
    operation: 'queue.remove',
    says: { yes: 'removed <ref>', no: 'there is no item "<ref>"', exit: 'NOT_FOUND' },
  }),
  verb({
    operation: 'queue.cleanup',
    summary: 'Remove finished items older than an age (0 = all). Events stay.',
    positional: ['queue'],
    asks: async (call) => {
      const { removed, more } = await call.preview('queue.cleanup', call.input)
      if (removed === 0) return null
      return `This removes ${more ? 'more than ' : ''}${counted(removed, 'finished item')}.`
    },
    async act(call) {
      const dryRun = call.input.dryRun === true
      const execute = (piece: number) => call.execute('queue.cleanup', call.input, piece)
      const pieces = await inPieces(execute, () => dryRun)
      return { removed: sumOf(pieces, ({ removed }) => removed), dryRun }
    },
    text: ({ removed, dryRun }) => `${dryRun ? 'would remove' : 'removed'} ${removed}`,
  }),
  verb({
    operation: 'queue.reclaimStale',
    positional: ['queue', 'thresholdMs'],
    options: [linesOption],
    help: 'It goes by the last sign of life, not by the lease, so it also takes manual leases that have not lapsed.\nDo not run it from cron; `holdfast recover` and `holdfast locks cleanup` are safe there.\n  holdfast queue reclaim-stale merges 300s',
    act: async (call) => healingLines(call, await call.execute('queue.reclaimStale', call.input)),
    text: (report, view, { dryRun }) => healingText(report, view, freedInQueue(report), dryRun === true),
  }),
  verb({
    name: 'recover',
    operation: 'recovery.run',
    summary: 'Reclaim what lapsed in one queue, and what dead holders held there.',
    positional: ['queue'],
    requires: ['queue'],
    hides: ['first', 'only', 'pauseReason', 'maxAgeMs'],
    options: [linesOption],
    async act(call) {
      const hf = await call.open()
      const queue = hf.queue(call.input.queue as string)
      return healingLines(call, await queue.detectAndRecoverStale({ dryRun: call.input.dryRun === true }))
    },
    text: (report, view, { dryRun }) =>
      healingText(
        report,
        view,
        `${freedInQueue(report)}; made ${counted(report.promoted, 'due item')} ready`,
        dryRun === true,
      ),
  }),
  verb({
    name: 'recovery-stats',
    operation: 'recovery.stats',
    positional: ['queue'],
    async act(call) {
      const hf = await call.open()
      const { queue } = call.input
      return queue === undefined ? hf.recovery.getRecoveryStats() : hf.queue(queue).getRecoveryStats()
    },
    details: recoveryDetails,
  }),
]
