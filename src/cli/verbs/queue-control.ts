/** Verbs for operators, who may change items and queues no matter who holds them. */

import { counted } from '../../domain/count.ts'
import { inPieces, sumOf } from '../../runtime/session/input.ts'
import { verb } from '../verb.ts'
import { freedText, healingLines, healingText, linesOption, recoveryStatsText } from './healing-text.ts'
import { itemLine } from './item-text.ts'
import { describeQueue } from './queue-look.ts'

const retry = verb({
  name: 'retry',
  noun: 'item',
  operation: 'queue.retry',
  positional: ['queue', 'ref'],
  text: itemLine,
})

const cancel = verb({
  name: 'cancel',
  noun: 'item',
  operation: 'queue.cancel',
  positional: ['queue', 'ref'],
  text: itemLine,
})

const priority = verb({
  name: 'priority',
  noun: 'item',
  operation: 'queue.setPriority',
  positional: ['queue', 'ref', 'priority'],
  text: (item) => `${itemLine(item)}, priority ${item.priority}`,
})

const releaseFromQuarantine = verb({
  name: 'release-from-quarantine',
  noun: 'item',
  operation: 'queue.releaseFromQuarantine',
  positional: ['queue', 'ref'],
  text: itemLine,
})

const pause = verb({
  name: 'pause',
  operation: 'queue.pause',
  positional: ['queue'],
  text: ({ changed, queue }) => `${queue.name}  ${changed ? 'paused' : 'was already paused'}`,
})

const resume = verb({
  name: 'resume',
  operation: 'queue.resume',
  positional: ['queue'],
  text: ({ changed, queue }) => `${queue.name}  ${changed ? 'resumed' : 'was not paused'}`,
})

const define = verb({
  name: 'define',
  noun: 'queue',
  operation: 'queue.define',
  makesStore: true,
  positional: ['queue'],
  help: '  holdfast queue define merges --workflow merge',
  text: describeQueue,
})

const remove = verb({
  name: 'remove',
  operation: 'queue.remove',
  positional: ['queue', 'ref'],
  text: (removed, _view, { ref }) => (removed ? `removed ${ref}` : `there is no item "${ref}"`),
  json: (removed) => ({ removed }),
  exit: (removed) => (removed ? 0 : 3),
})

const cleanup = verb({
  name: 'cleanup',
  operation: 'queue.cleanup',
  summary: 'Remove finished items older than an age (0 = all). Events stay.',
  positional: ['queue'],
  asks: async (call) => {
    const { removed, more } = await call.execute('queue.cleanup', { ...call.input, dryRun: true })
    if (removed === 0) return null
    return `This removes ${more ? 'more than ' : ''}${counted(removed, 'finished item')}.`
  },
  async act(call) {
    const isDryRun = call.input.dryRun === true
    const execute = (piece: number) => call.execute('queue.cleanup', call.input, piece)
    const pieces = await inPieces(execute, () => isDryRun)
    return { removed: sumOf(pieces, ({ removed }) => removed), isDryRun }
  },
  text: ({ removed, isDryRun }) => `${isDryRun ? 'would remove' : 'removed'} ${removed}`,
  json: ({ removed, isDryRun }) => ({ removed, dryRun: isDryRun }),
})

const reclaimStale = verb({
  name: 'reclaim-stale',
  operation: 'queue.reclaimStale',
  positional: ['queue', 'thresholdMs'],
  options: [linesOption],
  help: 'It goes by the last sign of life, not by the lease, so it also takes manual leases that have not lapsed.\nDo not run it from cron; `holdfast recover` and `holdfast locks cleanup` are safe there.\n  holdfast queue reclaim-stale merges 300s',
  act: async (call) => healingLines(call, await call.execute('queue.reclaimStale', call.input)),
  text: (report, view, { dryRun }) =>
    healingText(
      report,
      view,
      freedText({ entriesReclaimed: report.entriesReclaimed, locksCleaned: report.locksCleaned }),
      dryRun === true,
    ),
})

const recover = verb({
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
      `${freedText({ entriesReclaimed: report.entriesReclaimed, locksCleaned: report.locksCleaned })}; made ${counted(report.promoted, 'due item')} ready`,
      dryRun === true,
    ),
})

const recoveryStats = verb({
  name: 'recovery-stats',
  operation: 'recovery.stats',
  positional: ['queue'],
  async act(call) {
    const hf = await call.open()
    const { queue } = call.input
    return queue === undefined ? hf.recovery.getRecoveryStats() : hf.queue(queue).getRecoveryStats()
  },
  text: (stats, view) => recoveryStatsText(stats, view),
})

export const queueControlVerbs = [
  retry,
  cancel,
  priority,
  releaseFromQuarantine,
  pause,
  resume,
  define,
  remove,
  cleanup,
  reclaimStale,
  recover,
  recoveryStats,
]
