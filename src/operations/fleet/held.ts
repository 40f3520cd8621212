/** Everything that is held, by whom, and for how much longer. */
import * as z from 'zod'
import type { BoundedCount } from '../../domain/count.ts'
import { describeHolding, type Processes } from '../../domain/holding.ts'
import type { Item } from '../../domain/item.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import type { Loaded } from '../../port/selector.ts'
import { text } from '../fields.ts'
import { type Leased, leasedThings } from '../lease/lease.ts'
import { maxJudged, maxRunning, shownKind } from '../lease/watch.ts'
import { need, type OutputOf, view } from '../operation.ts'

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

export const holdingView = view(() => ({
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
}))

export const heldView = view(() => ({
  kind: z.enum(['task', 'item', 'lock', 'delivery']),
  id: z.string(),
  title: z.string(),
  queue: z.string().nullable(),
  state: z.string().nullable(),
  holder: holdingView(),
}))

export type HeldView = OutputOf<typeof heldView>

export const heldNeeds = need({
  items: { select: 'heldItems', queue: null, limit: maxHeld },
  locks: { select: 'heldLocks', limit: maxHeld },
  deliveries: { select: 'heldDeliveries', limit: maxHeld },
  running: { select: 'runningInstances', limit: maxRunning },
})

/** How many items of each queue are held, as far as they were loaded. */
export function countHeld(items: HeldRows['items']): (queue: string) => BoundedCount {
  const counts = new Map<string, number>()
  for (const { item } of items) counts.set(item.queue, (counts.get(item.queue) ?? 0) + 1)
  return (queue) => ({ count: counts.get(queue) ?? 0, more: items.length === maxHeld })
}

export type HeldRows = Omit<Loaded<typeof heldNeeds>, 'running'>

/** Everything held, soonest expiry first. */
export function heldThings(rows: HeldRows, processes: Processes, now: number): HeldView[] {
  const things = leasedThings({ ...rows, items: rows.items.map(({ item }) => item) })
  return things
    .map((thing) => ({
      kind: shownKind(thing),
      id: thing.id,
      title: titleOfHeld(thing),
      queue: thing.queue,
      state: thing.kind === 'lock' ? null : thing.row.state,
      holder: describeHolding(thing.row, processes, now),
    }))
    .sort((left, right) => left.holder.remainingMs - right.holder.remainingMs)
}

function titleOfHeld({ kind, row }: Leased): string {
  if (kind === 'item') return titleOf(row)
  return kind === 'delivery' ? row.recipient : (row.patterns?.join(' ') ?? row.name)
}

/** Key or id; for a task, also its title. */
export function titleOf(item: Item): string {
  if (item.queue !== taskQueue) return item.key ?? item.id
  const { title } = readWords({ ...item, payload: null })
  return item.key === null ? title : `${item.key} ${title}`
}
