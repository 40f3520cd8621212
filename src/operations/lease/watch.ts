/** Reports on what is held: stale, near expiry, orphaned, suspect. */
import * as z from 'zod'
import { crashPatterns, patternWindowMs, suspectAgents } from '../../domain/crash-pattern.ts'
import type { StoredEvent } from '../../domain/event.ts'
import type { Item } from '../../domain/item.ts'
import type { LeaseColumns } from '../../domain/lease.ts'
import { watchLease } from '../../domain/lease-watch.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, type OutputOf, operation } from '../operation.ts'
import { death, maxDeaths } from '../recovery/report.ts'
import { requireItem } from '../subject.ts'
import { ref } from '../task/view.ts'
import { lockRef } from './lease.ts'

/** A report blocks nobody, so it may look at this many. Beyond that, use metrics. */
const maxWatched = 10_000
const maxLosses = 10_000
/** Events searched to find how each agent's last grants ended. */
const eventWindow = 10_000
/** Processes that one call may report as dead or alive. */
export const maxJudged = maxDeaths
/** Running processes that one report looks at. */
export const maxRunning = 500

const deaths = lazily(() => z.array(death()).max(maxJudged).default([]).describe('Processes proven dead.'))

const watched = lazily(() => ({
  isExpired: z.boolean(),
  isNear: z.boolean(),
  isStale: z.boolean(),
  isOrphaned: z.boolean(),
  isSuspect: z.boolean(),
  remainingMs: z.number(),
  expiredMs: z.number(),
  elapsedMs: z.number(),
}))
const holder = lazily(() => ({
  assignee: z.string().nullable(),
  assignedAt: z.number().nullable(),
  lockUntil: z.number().nullable(),
  token: z.number(),
}))

const staleLocks = lazily(() =>
  z.object({
    total: z.number(),
    expiredCount: z.number(),
    nearExpiryCount: z.number(),
    staleCount: z.number(),
    orphanedCount: z.number(),
    suspectCount: z.number(),
    locks: z.array(
      z.object({
        kind: z.enum(['task', 'item', 'lock', 'delivery']),
        id: z.string(),
        title: z
          .string()
          .describe('Title of the task, key of the item, name of the lock, recipient of the delivery.'),
        ...holder(),
        ...watched(),
      }),
    ),
    more: z.boolean().describe('True when more is held than one report shows.'),
    crashPatterns: z.array(
      z.object({
        agent: z.string(),
        crashes: z.number(),
        firstAt: z.number(),
        lastAt: z.number(),
        ids: z.array(z.string()),
      }),
    ),
    suspectAgents: z.array(z.string()).describe('Agents whose last three claims all ended in a crash.'),
  }),
)
/** How many leases have expired or lost their holder, and which. */
export type StaleLocks = OutputOf<typeof staleLocks>

export const crashNeeds = {
  losses: { select: 'losses', sinceMs: patternWindowMs, limit: maxLosses } as const,
  ends: { select: 'grantEnds', window: eventWindow } as const,
}

export const detectStaleLocks = operation({
  name: 'recovery.detectStaleLocks',
  summary: 'Report everything held, soonest expiry first, and what looks wrong. Changes nothing.',
  effect: 'read',
  facts: ['deaths'],
  input: () =>
    z.strictObject({
      queue: fields.queue.optional().describe('Only items of this queue.'),
      nearMs: z
        .int()
        .min(0)
        .optional()
        .describe('Expires within this time; default 5 min, or a third of a shorter lease.'),
      staleMs: z.int().min(0).optional().describe('Stale when expired for longer than this; default 5 min.'),
      deaths: deaths(),
    }),
  output: staleLocks,
  needs: ({ queue }) => ({
    items: { select: 'heldItems', queue: queue ?? null, limit: maxWatched } as const,
    locks: queue === undefined ? ({ select: 'heldLocks', limit: maxWatched } as const) : null,
    deliveries: queue === undefined ? ({ select: 'heldDeliveries', limit: maxWatched } as const) : null,
    ...crashNeeds,
  }),
  decide({ items, locks, deliveries, losses, ends }, input, context) {
    const rows = [...items.map(({ item }) => item), ...(locks ?? []), ...(deliveries ?? [])]
    const ids = [...new Set(rows.flatMap(({ instance }) => instance ?? []))]
    return ask({ holders: { select: 'instances', ids } as const }, ({ holders }) => {
      const ended = holders.filter(({ endedAt }) => endedAt !== null).map(({ id }) => id)
      const dead = new Set([...ended, ...input.deaths.map(({ instance }) => instance)])
      const look = (row: LeaseColumns, changedAt: number | null) => ({
        assignee: row.agent,
        assignedAt: row.grantedAt,
        lockUntil: row.expiresAt,
        token: row.token,
        ...watchLease(row, {
          now: context.now,
          unchangedForMs: changedAt === null ? null : Math.max(0, context.wall - changedAt),
          holderIsDead: row.instance !== null && dead.has(row.instance),
          thresholds: { nearMs: input.nearMs, staleMs: input.staleMs },
        }),
      })
      const seen = [
        ...items.map(({ item, changedAt }) => ({ ...nameOf(item), ...look(item, changedAt) })),
        ...(locks ?? []).map((lock) => ({
          kind: 'lock' as const,
          id: lockRef(lock),
          title: lock.name,
          ...look(lock, null),
        })),
        ...(deliveries ?? []).map((delivery) => ({
          kind: 'delivery' as const,
          id: delivery.id,
          title: delivery.recipient,
          ...look(delivery, null),
        })),
      ].sort((left, right) => (left.lockUntil ?? 0) - (right.lockUntil ?? 0))
      const count = (is: (lock: StaleLocks['locks'][number]) => boolean) => seen.filter(is).length
      return {
        changes: [],
        result: {
          total: seen.length,
          expiredCount: count(({ isExpired }) => isExpired),
          nearExpiryCount: count(({ isNear }) => isNear),
          staleCount: count(({ isStale }) => isStale),
          orphanedCount: count(({ isOrphaned }) => isOrphaned),
          suspectCount: count(({ isSuspect }) => isSuspect),
          locks: seen,
          more: [items, locks, deliveries].some((rows) => rows?.length === maxWatched),
          crashPatterns: crashPatterns(losses, context.wall).map((each) => ({ ...each, ids: [...each.ids] })),
          suspectAgents: suspectAgents(ends),
        },
      }
    })
  },
})

function nameOf(item: Item): Pick<StaleLocks['locks'][number], 'kind' | 'id' | 'title'> {
  if (item.queue !== taskQueue) return { kind: 'item', id: item.id, title: item.key ?? item.id }
  return { kind: 'task', id: item.id, title: readWords({ ...item, payload: null }).title }
}

const lockStatus = lazily(() => z.object({ taskId: z.string(), ...holder(), ...watched() }))
/** What is known about one held lock. */
export type LockStatus = OutputOf<typeof lockStatus>

export const getLockStatus = operation({
  name: 'tasks.getLockStatus',
  summary: 'Get the lock of a task, unless it is free: holder, since when, until when.',
  effect: 'read',
  facts: ['deaths'],
  input: () => z.strictObject({ ref: ref(), deaths: deaths() }),
  output: () => lockStatus().nullable(),
  needs: (input) => ({ item: { select: 'item', queue: taskQueue, ref: input.ref } as const }),
  decide({ item: found }, input, context) {
    const item = requireItem(found, taskQueue, input.ref)
    if (item.phase !== 'held') return { changes: [], result: null }
    const ids = item.instance === null ? [] : [item.instance]
    const more = {
      holders: { select: 'instances', ids } as const,
      recent: {
        select: 'events',
        since: 0,
        limit: 10,
        of: { subject: 'item', id: item.id },
        newest: true,
      } as const,
    }
    return ask(more, ({ holders, recent }) => ({
      changes: [],
      result: {
        taskId: item.id,
        assignee: item.agent,
        assignedAt: item.grantedAt,
        lockUntil: item.expiresAt,
        token: item.token,
        ...watchLease(item, {
          now: context.now,
          unchangedForMs: unchangedFor(recent, context.wall),
          holderIsDead: holders.some(
            ({ id, endedAt }) => endedAt !== null || input.deaths.some(({ instance }) => instance === id),
          ),
          thresholds: {},
        }),
      },
    }))
  },
})

/** Remarks change nothing, so they are not a sign of life. */
function unchangedFor(recent: readonly StoredEvent[], wall: number): number | null {
  const changes = recent.filter(({ version }) => version !== null)
  return changes.length === 0 ? null : Math.max(0, wall - Math.max(...changes.map(({ at }) => at)))
}
