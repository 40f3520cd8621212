/** A clean exit from the fleet: the process gives back what it still holds, one batch at a time, and then ends. */
import * as z from 'zod'
import { type Delivery, giveBackDelivery } from '../../domain/delivery.ts'
import { endInstance, type Instance } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import { releaseItem } from '../../domain/item-end.ts'
import type { Lock } from '../../domain/lock.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import { knownState } from '../../domain/workflow.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import * as fields from '../fields.ts'
import { pausedRuns, runNeeds } from '../lock/lock-change.ts'
import { ask, change, need, operation, reply } from '../operation.ts'
import { rulesFor } from '../recovery/reclaim.ts'

/** Rows that one transaction gives back. */
const maxReleased = 100

interface Holdings {
  readonly items: readonly Item[]
  readonly locks: readonly Lock[]
  readonly waiters: readonly Waiter[]
  readonly deliveries: readonly Delivery[]
}

export const end = operation({
  name: 'instance.end',
  summary: 'End a process cleanly and release what it holds.',
  effect: 'write',
  class: 'client',
  input: () => ({ id: fields.text(100).min(1), reason: fields.text(200) }),
  output: () =>
    z.object({
      released: z.number(),
      /** There may be more to give back. Call again; the instance ends with the last batch. */
      more: z.boolean(),
    }),
  needs({ id }, { agent }) {
    // Waits for rows that others are working on: if skipped, they would stay held until their leases lapse.
    // Only its own: a claim that another agent bound to this instance is lost with it, not given back by it.
    const all = { instances: [id], agent, limit: maxReleased, waits: true } as const
    return {
      found: { select: 'instances', ids: [id] },
      items: { select: 'itemsOfInstances', ...all, queue: null },
      locks: { select: 'locksOfInstances', ...all, name: null },
      waiters: { select: 'waitersOfInstances', ...all },
      deliveries: { select: 'deliveriesOfInstances', ...all },
    }
  },
  decide({ found: [instance], ...rows }, { reason }, context) {
    const isStranger = instance !== undefined && instance.agent !== context.agent
    if (isStranger) return reply({ released: 0, more: false })
    const held = firstPiece(rows)
    const queues = new Set(held.items.map(({ queue }) => queue))
    const needs = need({ queues: { select: 'queues', names: [...queues] }, ...runNeeds(held.locks) })
    return ask(needs, ({ queues, runs }) => {
      const changes = givenBack(held, queues, reason, context)
      const released = changes.length
      // If nothing could be given back, calling again would not help either.
      const more = released > 0 && !isAll(held, rows)
      const ended = more || instance === undefined ? [] : endings(instance, reason, context)
      return {
        changes: [...changes, ...pausedRuns(runs, held.locks, () => reason, context), ...ended],
        result: { released, more },
      }
    })
  },
})

/** Whether the batch is everything there was, and all of it was loaded. */
function isAll(piece: Holdings, rows: Holdings): boolean {
  const kinds = ['items', 'locks', 'waiters', 'deliveries'] as const
  return kinds.every((kind) => piece[kind].length === rows[kind].length && rows[kind].length < maxReleased)
}

function firstPiece(rows: Holdings): Holdings {
  let left = maxReleased
  const take = <Row>(all: readonly Row[]): Row[] => {
    const taken = all.slice(0, left)
    left -= taken.length
    return taken
  }
  return {
    items: take(rows.items),
    locks: take(rows.locks),
    waiters: take(rows.waiters),
    deliveries: take(rows.deliveries),
  }
}

function givenBack(
  held: Holdings,
  queues: readonly DefinedQueue[],
  reason: string,
  context: Context,
): Change[] {
  const detail = { reason }
  return [
    ...held.items.flatMap((before): Change[] => {
      const { workflow } = rulesFor(before, queues)
      // Left to recovery, which quarantines an item whose state is not a held state of its workflow.
      if (!workflow || !knownState(workflow, before.state)?.held) return []
      const after = releaseItem(before, workflow, context)
      return [change('item', before, after, 'item.released', context, detail)]
    }),
    ...held.locks.map((before) => change('lock', before, null, 'lock.released', context, detail)),
    ...held.waiters.map((before) =>
      change('waiter', before, null, 'waiter.left', context, { because: reason }),
    ),
    ...held.deliveries.map((before) => {
      const after = giveBackDelivery(before, context.now)
      return change('delivery', before, after, 'delivery.released', context, detail)
    }),
  ]
}

function endings(before: Instance, reason: string, context: Context): Change[] {
  if (before.endedAt !== null) return []
  const after = endInstance(before, reason, context.wall)
  return [change('instance', before, after, 'instance.ended', context)]
}
