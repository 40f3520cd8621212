/** Verbs that inspect queues. */
import type { QueueView } from '../../operations/queue/define.ts'
import { formatDuration } from '../duration.ts'
import type { Column, Detail } from '../layout.ts'
import { verb } from '../verb.ts'
import type { View } from '../view.ts'
import { itemColumns, itemDetails } from './item-text.ts'

/** What a table of queues and the details of one have in common. */
const limits = [
  ['queue', 'name'],
  'workflow',
  'slots',
  ['attempts', 'maxAttempts'],
  ['crashes', ({ maxCrashes }) => (maxCrashes === 0 ? 'any' : maxCrashes)],
] as const satisfies readonly Column<QueueView>[]

function pausedSince(queue: QueueView, view: View): string {
  if (queue.pausedAt === null) return ''
  const reason = queue.pauseReason === null ? '' : `: ${queue.pauseReason}`
  return `${view.time(queue.pausedAt)} by ${queue.pausedBy ?? 'an unknown agent'}${reason}`
}

export const queueDetails: readonly Detail<QueueView>[] = [
  ...limits,
  ['lease', 'leaseMs'],
  ['manual lease', 'manualLeaseMs'],
  ['backoff', ({ backoff }) => backoff && backoffText(backoff)],
  ['paused', pausedSince],
  ['made', 'createdAt'],
]

function backoffText({ baseMs, factor, maxMs }: NonNullable<QueueView['backoff']>): string {
  return `${formatDuration(baseMs)}, then ${factor} times as long, up to ${formatDuration(maxMs)}`
}

export const queueLookVerbs = [
  verb({
    operation: 'queue.list',
    negatable: { quarantined: 'only what is not quarantined' },
    columns: itemColumns,
  }),
  verb({
    name: 'queues',
    operation: 'queue.listQueues',
    columns: [...limits, ['paused', pausedSince]],
  }),
  verb({
    name: 'show',
    operation: 'queue.get',
    summary: 'Show an item by id or key.',
    missing: ({ queue, ref }) => `queue ${queue} has no item "${ref}"`,
    details: itemDetails,
  }),
  verb({
    noun: 'position',
    operation: 'queue.position',
    text: (position) => (position === null ? 'not in line' : String(position)),
  }),
  verb({
    operation: 'queue.stats',
    details: [
      ['exists', ({ exists }) => (exists ? null : 'no, nobody has used a queue of this name yet')],
      'total',
      'pending',
      'blocked',
      'quarantined',
      'processing',
      'completed',
      'failed',
      'cancelled',
      ['oldest ready', 'oldestReadyMs'],
      'paused',
      [
        'by state',
        ({ byState }) =>
          Object.entries(byState)
            .map(([state, count]) => `${state} ${count}`)
            .join(', '),
      ],
    ],
  }),
  verb({
    noun: 'queue',
    operation: 'queue.describe',
    summary: 'Get a queue with its workflow and limits.',
    missing: ({ queue }) => `there is no queue "${queue}"`,
    details: queueDetails,
  }),
  verb({
    name: 'quarantine',
    operation: 'queue.list',
    summary: 'List quarantined items, which lost one holder after another, and why.',
    fixed: { quarantined: true },
    hides: ['states', 'phase', 'retryable'],
    columns: [
      'id',
      'key',
      'crashes',
      ['since', ({ quarantine }, view) => view.time(quarantine?.at)],
      ['why', ({ quarantine }) => quarantine?.reason],
    ],
  }),
]
