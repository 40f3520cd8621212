/** Reading a queue: get, list, position, stats. Reads never enter a write transaction. */
import * as z from 'zod'
import { builtInWorkflow } from '../../domain/built-in-workflows.ts'
import { retryableStates } from '../../domain/item-end.ts'
import { decideLines, type ItemLines } from '../../domain/item-lines.ts'
import { countQueue } from '../../domain/queue-counts.ts'
import type { Workflow } from '../../domain/workflow.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import * as fields from '../fields.ts'
import { ask, need, operation, reply } from '../operation.ts'
import { asFreed, closedBlockers, knownWorkflow, requireItem, workflowOf } from '../subject.ts'
import { itemView, queueExists, viewItem } from '../view.ts'
import { itemNeeds } from './finish.ts'
import { lineBefore } from './line.ts'

export const get = operation({
  name: 'queue.get',
  summary: 'Get an item by id or key; null when there is none.',
  effect: 'read',
  input: () => ({ queue: fields.queue, ref: fields.ref }),
  output: () => itemView().nullable(),
  needs: (input) => ({ ...itemNeeds(input), closed: closedBlockers }),
  decide({ item, defined, closed }, _input, { now }) {
    return reply(item ? viewItem(asFreed(item, defined, closed), now) : null)
  },
})

export const list = operation({
  name: 'queue.list',
  summary: 'List the items of a queue in claim order.',
  effect: 'read',
  input: () => ({
    queue: fields.queue,
    states: z.array(fields.text(100)).max(50).optional().describe('Only these states.'),
    phase: z
      .enum(['ready', 'suspect', 'waiting', 'held', 'closed'])
      .optional()
      .describe('Only those in this phase.'),
    quarantined: z.boolean().optional().describe('Only quarantined items.'),
    retryable: z.boolean().optional().describe('Only items that failed and can be retried.'),
    limit: fields.limit,
    after: fields.after,
  }),
  output: () => z.object({ items: z.array(itemView()), next: z.string().nullable() }),
  needs: ({ queue }) => ({ defined: { select: 'queue', name: queue }, closed: closedBlockers }),
  decide(
    { defined, closed },
    { queue, states: asked = null, phase = null, quarantined = null, retryable, limit, after },
    { now },
  ) {
    const states = retryable ? retryableAmong(asked, defined) : asked
    const wanted = { states, phase, quarantined }
    const lines = withFreed(decideLines(wanted, defined && knownWorkflow(defined)), closed)
    const filter = { queue, ...lines, states, quarantined, filter: null }
    const needs = need({ page: { select: 'items', ...filter, ...fields.paging({ limit, after }) } })
    return ask(needs, ({ page }) => {
      const items = page.rows
        .map((item) => asFreed(item, defined, closed))
        .filter((item) => phase === null || item.phase === phase)
      return reply({ items: items.map((item) => viewItem(item, now)), next: page.next })
    })
  },
})

function retryableAmong(asked: readonly string[] | null, defined: DefinedQueue | null): readonly string[] {
  const workflow = defined && knownWorkflow(defined)
  const retryable = workflow === null ? [] : retryableStates(workflow)
  return asked === null ? retryable : retryable.filter((state) => asked.includes(state))
}

/** An item whose blockers have all finished belongs in line, even if its row has yet to be freed. */
function withFreed({ lines, ...rest }: ItemLines, closed: readonly string[]) {
  const isInLine = lines.includes('ready') || lines.includes('suspect')
  if (closed.length === 0 || !isInLine || lines.includes('waiting')) return { ...rest, lines, freedBy: null }
  return { ...rest, lines: [...lines, 'waiting'] as const, freedBy: closed }
}

export const position = operation({
  name: 'queue.position',
  summary: '1-based position of an item among those that can be claimed, or why it cannot be.',
  effect: 'read',
  input: () => ({ queue: fields.queue, ref: fields.ref }),
  output: () => z.number().nullable(),
  needs: (input) => ({ ...itemNeeds(input), closed: closedBlockers }),
  decide({ item: found, defined, closed }, input) {
    const item = asFreed(requireItem(found, input.queue, input.ref), defined, closed)
    if (item.phase !== 'ready') return reply(null)
    return ask({ line: lineBefore(item) }, ({ line }) => reply(line.ahead + 1))
  },
})

export const stats = operation({
  name: 'queue.stats',
  summary: 'Count items per state, and say how long the oldest has waited.',
  effect: 'read',
  input: () => ({ queue: fields.queue }),
  output: () =>
    z.object({
      total: z.number().describe('Every item, once; the next seven add up to it.'),
      pending: z.number().describe('Can be claimed now.'),
      blocked: z.number().describe('Delayed, or waiting for others.'),
      quarantined: z.number().describe('Quarantined after crashes.'),
      processing: z.number(),
      completed: z.number(),
      failed: z.number().describe('Failed for good, or until somebody retries it.'),
      cancelled: z.number(),
      byState: z.record(z.string(), z.number()),
      oldestReadyMs: z.number().nullable(),
      paused: z.boolean(),
      exists: queueExists(),
    }),
  needs: ({ queue }) => ({
    defined: { select: 'queue', name: queue },
    counts: { select: 'counts', queue },
  }),
  decide({ defined, counts }, _input, context) {
    // Before the first item is added, readers see an empty queue, just as claims do.
    const workflow = defined ? workflowOf(defined) : (builtInWorkflow('job') as Workflow)
    return reply({
      ...countQueue(counts, workflow),
      byState: counts.byState,
      oldestReadyMs: counts.oldestReadyAt === null ? null : Math.max(0, context.wall - counts.oldestReadyAt),
      paused: defined !== null && defined.queue.pausedAt !== null,
      exists: defined !== null,
    })
  },
})
