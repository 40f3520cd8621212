/** Verbs that inspect queues. */
import type { QueueView } from '../../operations/queue/define.ts'
import type { ItemView } from '../../operations/view.ts'
import type { Drawing } from '../drawing.ts'
import { formatDuration } from '../duration.ts'
import { verb } from '../verb.ts'
import type { View } from '../view.ts'
import { itemPairs, itemTable, withNext } from './item-text.ts'

const list = verb({
  name: 'list',
  operation: 'queue.list',
  positional: ['queue'],
  negatable: { quarantined: 'only what is not quarantined' },
  text: ({ items, next }, view) => withNext(itemTable(items, view), next, view),
})

const queues = verb({
  name: 'queues',
  operation: 'queue.listQueues',
  text: ({ queues: all }, view) =>
    view.table(
      ['queue', 'workflow', 'slots', 'attempts', 'crashes', 'paused'],
      all.map((queue) => [
        queue.name,
        queue.workflow,
        queue.slots,
        queue.maxAttempts,
        queue.maxCrashes === 0 ? 'any' : queue.maxCrashes,
        pausedSince(queue, view),
      ]),
    ),
})

function pausedSince(queue: QueueView, view: View): string {
  if (queue.pausedAt === null) return ''
  const reason = queue.pauseReason === null ? '' : `: ${queue.pauseReason}`
  return `${view.time(queue.pausedAt)} by ${queue.pausedBy ?? 'an unknown agent'}${reason}`
}

const show = verb({
  name: 'show',
  operation: 'queue.get',
  summary: 'Show an item by id or key.',
  positional: ['queue', 'ref'],
  missing: ({ queue, ref }) => `queue ${queue} has no item "${ref}"`,
  text: (item, view) => itemPairs(item as ItemView, view),
  json: (item) => ({ item }),
})

const position = verb({
  name: 'position',
  operation: 'queue.position',
  positional: ['queue', 'ref'],
  text: (position) => (position === null ? 'not in line' : String(position)),
  json: (position) => ({ position: position }),
})

const stats = verb({
  name: 'stats',
  operation: 'queue.stats',
  positional: ['queue'],
  text: (counts, view) =>
    view.pairs([
      ['exists', counts.exists ? null : 'no, nobody has used a queue of this name yet'],
      ['total', counts.total],
      ['pending', counts.pending],
      ['blocked', counts.blocked],
      ['quarantined', counts.quarantined],
      ['processing', counts.processing],
      ['completed', counts.completed],
      ['failed', counts.failed],
      ['cancelled', counts.cancelled],
      ['oldest ready', counts.oldestReadyMs === null ? null : formatDuration(counts.oldestReadyMs)],
      ['paused', counts.paused ? 'yes' : null],
      [
        'by state',
        Object.entries(counts.byState)
          .map(([state, count]) => `${state} ${count}`)
          .join(', '),
      ],
    ]),
})

const describe = verb({
  name: 'describe',
  operation: 'queue.describe',
  summary: 'Get a queue with its workflow and limits.',
  positional: ['queue'],
  missing: ({ queue }) => `there is no queue "${queue}"`,
  text: (queue, view) => describeQueue(queue as QueueView, view),
  json: (queue) => ({ queue }),
})

export function describeQueue(queue: QueueView, view: View): Drawing {
  return view.pairs([
    ['queue', queue.name],
    ['workflow', queue.workflow],
    ['slots', queue.slots],
    ['attempts', queue.maxAttempts],
    ['crashes', queue.maxCrashes === 0 ? 'any' : queue.maxCrashes],
    ['lease', queue.leaseMs === null ? null : formatDuration(queue.leaseMs)],
    ['manual lease', queue.manualLeaseMs === null ? null : formatDuration(queue.manualLeaseMs)],
    ['backoff', queue.backoff && backoffText(queue.backoff)],
    ['paused', pausedSince(queue, view)],
    ['made', view.time(queue.createdAt)],
  ])
}

function backoffText({ baseMs, factor, maxMs }: NonNullable<QueueView['backoff']>): string {
  return `${formatDuration(baseMs)}, then ${factor} times as long, up to ${formatDuration(maxMs)}`
}

const quarantine = verb({
  name: 'quarantine',
  operation: 'queue.list',
  summary: 'List quarantined items, which lost one holder after another, and why.',
  positional: ['queue'],
  fixed: { quarantined: true },
  hides: ['states', 'phase'],
  text: ({ items, next }, view) =>
    withNext(
      view.table(
        ['id', 'key', 'crashes', 'since', 'why'],
        items.map((item) => [
          item.id,
          item.key ?? '',
          item.crashes,
          view.time(item.quarantine?.at),
          item.quarantine?.reason ?? '',
        ]),
      ),
      next,
      view,
    ),
})

export const queueLookVerbs = [list, queues, show, position, stats, describe, quarantine]
