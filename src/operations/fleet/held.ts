/** Everything that is held, by whom, and for how much longer. */
import * as z from 'zod'
import type { BoundedCount } from '../../domain/count.ts'
import type { Delivery } from '../../domain/delivery.ts'
import { describeHolding, type Holding, type Judged } from '../../domain/holding.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import { text } from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { maxJudged, maxRunning } from '../lease/watch.ts'
import type { OutputOf } from '../operation.ts'

const maxHeld = 10_000

/** What the caller's machine knows about processes; the store itself cannot see any. */
export const judged = lazily(() =>
  z
    .array(
      z.strictObject({
        instance: text(100),
        liveness: z.enum(['alive', 'dead', 'unknown']),
        evidence: text(1000),
        isStopped: z.boolean().optional(),
      }),
    )
    .max(maxJudged)
    .default([])
    .describe('What this machine knows about running processes.'),
)

export const holdingView = lazily(() =>
  z.object({
    agent: z.string().nullable(),
    kind: z.enum(['manual', 'bound']),
    liveness: z.enum(['alive', 'dead', 'unknown']),
    evidence: z.string(),
    token: z.number(),
    grantedAt: z.number().nullable(),
    renewedAt: z.number().nullable(),
    expiresAt: z.number().nullable(),
    remainingMs: z.number(),
    status: z.enum(['live', 'near', 'expired', 'stale']),
  }),
)

export const heldView = lazily(() =>
  z.object({
    kind: z.enum(['task', 'item', 'lock', 'delivery']),
    id: z.string(),
    title: z.string(),
    queue: z.string().nullable(),
    state: z.string().nullable(),
    holder: holdingView(),
  }),
)

export type HeldView = OutputOf<typeof heldView>

export const heldNeeds = {
  items: { select: 'heldItems', queue: null, limit: maxHeld } as const,
  locks: { select: 'heldLocks', limit: maxHeld } as const,
  deliveries: { select: 'heldDeliveries', limit: maxHeld } as const,
  running: { select: 'runningInstances', limit: maxRunning } as const,
}

/** How many items of each queue are held, as far as they were loaded. */
export function countHeld(items: HeldRows['items']): (queue: string) => BoundedCount {
  const counts = new Map<string, number>()
  for (const { item } of items) counts.set(item.queue, (counts.get(item.queue) ?? 0) + 1)
  return (queue) => ({ count: counts.get(queue) ?? 0, more: items.length === maxHeld })
}

export function isOver({ status: state }: Holding): boolean {
  return state === 'expired' || state === 'stale'
}

export type HeldRows = {
  readonly items: readonly { readonly item: Item }[]
  readonly locks: readonly Lock[]
  readonly deliveries: readonly Delivery[]
}

/** Everything held, soonest expiry first. */
export function heldThings(
  rows: HeldRows,
  processes: { readonly instances: readonly Instance[]; readonly judged: readonly Judged[] },
  now: number,
): HeldView[] {
  const holder = (row: Item | Lock | Delivery) => describeHolding(row, processes, now)
  const things: HeldView[] = [
    ...rows.items.map(({ item }) => ({
      kind: item.queue === taskQueue ? ('task' as const) : ('item' as const),
      id: item.id,
      title: titleOf(item),
      queue: item.queue,
      state: item.state,
      holder: holder(item),
    })),
    ...rows.locks.map((lock) => ({
      kind: 'lock' as const,
      id: lockRef(lock),
      title: lock.patterns === null ? lock.name : lock.patterns.join(' '),
      queue: null,
      state: null,
      holder: holder(lock),
    })),
    ...rows.deliveries.map((delivery) => ({
      kind: 'delivery' as const,
      id: delivery.id,
      title: delivery.recipient,
      queue: null,
      state: delivery.state,
      holder: holder(delivery),
    })),
  ]
  return things.sort((left, right) => left.holder.remainingMs - right.holder.remainingMs)
}

/** Key or id; for a task, also its title. */
export function titleOf(item: Item): string {
  if (item.queue !== taskQueue) return item.key ?? item.id
  const { title } = readWords({ ...item, payload: null })
  return item.key === null ? title : `${item.key} ${title}`
}
