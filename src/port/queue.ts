/** Queues and their workflows: rows, counts, and how a command names them. */
import type { BoundedCount } from '../domain/count.ts'
import type { Queue } from '../domain/queue.ts'
import type { CountedItems } from '../domain/queue-counts.ts'
import type { Workflow } from '../domain/workflow.ts'

export interface DefinedQueue {
  readonly queue: Queue
  readonly definition: Workflow | null
}

export interface WorkflowRow {
  readonly name: string
  readonly definition: Workflow
  readonly version: number
}

export interface QueueCounts extends CountedItems {
  readonly oldestReadyAt: number | null
}

/** A queue at a glance, read from indexes: it costs the same however long the queue is. */
export interface QueueGlance {
  readonly queue: string
  /** Includes suspects. */
  readonly ready: BoundedCount
  readonly waiting: BoundedCount
  readonly quarantined: BoundedCount
  readonly closed: BoundedCount
  /** States of the newest closed items, over as many as were counted. */
  readonly closedByState: ReadonlyMap<string, number>
  /** States of the newest closed items, at most `maxNewestClosed` of them. */
  readonly newestClosed: ReadonlyMap<string, number>
  readonly oldestReadyAt: number | null
}

export interface QueueSelectors {
  /** How many ready items are ahead of this position, and how many there are in all, each counted up to `limit`. */
  line: [
    { queue: string; priority: number; addedAt: number | null; id: string | null; limit: number },
    { ahead: number; total: number },
  ]
  /** Exact counts over every item: linear in the length of the queue. */
  counts: [{ queue: string }, QueueCounts]
  /** Each counted up to `limit`. */
  queueGlances: [{ queues: readonly string[]; limit: number }, readonly QueueGlance[]]
  readyCounts: [
    { queues: readonly string[]; limit: number },
    readonly { readonly queue: string; readonly ready: BoundedCount }[],
  ]
  /**
   * The queues most worth a look: with quarantined items, failing, paused, with the longest waits (among a thousand),
   * with held items; then by name.
   */
  watchedQueues: [{ limit: number }, { readonly queues: readonly DefinedQueue[]; readonly more: boolean }]
  /** A queue with the definition of its workflow, unless that is built in. */
  queue: [{ name: string }, DefinedQueue | null]
  queues: [{ names: readonly string[] | null }, readonly DefinedQueue[]]
  workflow: [{ name: string }, WorkflowRow | null]
}
