/** One queue of the fleet: how much is ready, held, waiting and closed, and how it ended. */
import * as z from 'zod'
import { endingOf } from '../../domain/workflow.ts'
import type { Context } from '../../port/command.ts'
import type { DefinedQueue, QueueGlance } from '../../port/queue.ts'
import { need, type OutputOf, view } from '../operation.ts'
import { knownWorkflow } from '../subject.ts'
import { countHeld, type HeldRows } from './held.ts'

/** How many queues are looked at: those most worth a look. */
const maxQueues = 100
const maxCount = 10_000

/** Counted up to 10,000, so that the cost stays the same however much there is. `queue.stats` counts everything. */
export const boundedCount = view(() => ({
  count: z.number(),
  more: z.boolean().describe('There are more; counting stopped.'),
}))

export const queueRow = view(() => ({
  name: z.string(),
  workflow: z.string(),
  ready: boundedCount(),
  held: boundedCount(),
  waiting: boundedCount(),
  quarantined: boundedCount(),
  closed: boundedCount(),
  /** How the closed items that were counted ended; the newest are counted. */
  succeeded: boundedCount(),
  failed: boundedCount(),
  cancelled: boundedCount(),
  oldestReadyMs: z.number().nullable(),
  paused: z.boolean(),
}))
export type QueueRow = OutputOf<typeof queueRow>

export const watchedNeed = { select: 'watchedQueues', limit: maxQueues } as const

function namesOf(queues: readonly DefinedQueue[]): string[] {
  return queues.map(({ queue }) => queue.name)
}

export function glancesOf(queues: readonly DefinedQueue[]) {
  return need({ glances: { select: 'queueGlances', queues: namesOf(queues), limit: maxCount } })
}

export function readyCountsOf(queues: readonly DefinedQueue[]) {
  return need({ ready: { select: 'readyCounts', queues: namesOf(queues), limit: maxCount } })
}

export function queueRows(
  rows: { readonly queues: { readonly queues: readonly DefinedQueue[] }; readonly items: HeldRows['items'] },
  glances: readonly QueueGlance[],
  context: Context,
): QueueRow[] {
  const held = countHeld(rows.items)
  const byName = new Map(glances.map((glance) => [glance.queue, glance]))
  return rows.queues.queues
    .flatMap((defined) => {
      const { queue } = defined
      const glance = byName.get(queue.name)
      if (glance === undefined) return []
      const { ready, waiting, quarantined, closed, closedByState, oldestReadyAt } = glance
      const ended = endings(defined, closedByState)
      return {
        name: queue.name,
        workflow: queue.workflow,
        ready,
        held: held(queue.name),
        waiting,
        quarantined,
        closed,
        succeeded: { count: ended.succeeded, more: closed.more },
        failed: { count: ended.failed, more: closed.more },
        cancelled: { count: ended.cancelled, more: closed.more },
        oldestReadyMs: oldestReadyAt === null ? null : Math.max(0, context.wall - oldestReadyAt),
        paused: queue.pausedAt !== null,
      }
    })
    .sort((left, right) => (left.name < right.name ? -1 : 1))
}

/** How items in these states ended. */
export function endings(defined: DefinedQueue, byState: ReadonlyMap<string, number>) {
  const workflow = knownWorkflow(defined)
  const total = { succeeded: 0, failed: 0, cancelled: 0 }
  for (const [state, count] of byState) {
    const ending = workflow && endingOf(workflow, state)
    if (ending !== null) total[ending] += count
  }
  return total
}
