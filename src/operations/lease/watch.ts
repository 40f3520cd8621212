/** Reports on what is held: stale, near expiry, orphaned, suspect. */
import * as z from 'zod'
import { crashPatterns, patternWindowMs, suspectAgents } from '../../domain/crash-pattern.ts'
import type { StoredEvent } from '../../domain/event.ts'
import type { Instance } from '../../domain/instance.ts'
import type { LeaseColumns } from '../../domain/lease.ts'
import { type Look, watchLease } from '../../domain/lease-watch.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { ask, need, type OutputOf, operation, reply, view } from '../operation.ts'
import { death, maxDeaths } from '../recovery/report.ts'
import { newestEvents, requireItem } from '../subject.ts'
import { ref } from '../task/view.ts'
import { type Leased, leasedThings } from './lease.ts'

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

/** A lease as seen from outside. */
const watchedLease = lazily(() => ({
  assignee: z.string().nullable(),
  assignedAt: z.number().nullable(),
  lockUntil: z.number().nullable(),
  token: z.number(),
  isExpired: z.boolean(),
  isNear: z.boolean(),
  isStale: z.boolean(),
  isOrphaned: z.boolean(),
  isSuspect: z.boolean(),
  remainingMs: z.number(),
  expiredMs: z.number(),
  elapsedMs: z.number(),
}))

const staleLocks = view(() => ({
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
      ...watchedLease(),
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
}))
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
  input: () => ({
    queue: fields.queue.optional().describe('Only items of this queue.'),
    nearMs: fields
      .whole(0)
      .optional()
      .describe('Expires within this time; default 5 min, or a third of a shorter lease.'),
    staleMs: fields.whole(0).optional().describe('Stale when expired for longer than this; default 5 min.'),
    deaths: deaths(),
  }),
  output: staleLocks,
  needs: ({ queue }) => ({
    items: { select: 'heldItems', queue: queue ?? null, limit: maxWatched },
    locks: queue === undefined ? { select: 'heldLocks', limit: maxWatched } : null,
    deliveries: queue === undefined ? { select: 'heldDeliveries', limit: maxWatched } : null,
    ...crashNeeds,
  }),
  decide({ items, locks, deliveries, losses, ends }, input, context) {
    const things = leasedThings({ items: items.map(({ item }) => item), locks, deliveries })
    const changes = new Map<LeaseColumns, number | null>(items.map((each) => [each.item, each.changedAt]))
    const ids = [...new Set(things.flatMap(({ row }) => row.instance ?? []))]
    return ask({ holders: { select: 'instances', ids } }, ({ holders }) => {
      const isDead = deadAmong(holders, input.deaths)
      const seen = things
        .map((thing) => {
          const changedAt = changes.get(thing.row) ?? null
          const lease = watched(thing.row, {
            now: context.now,
            unchangedForMs: changedAt === null ? null : Math.max(0, context.wall - changedAt),
            holderIsDead: isDead(thing.row),
            thresholds: { nearMs: input.nearMs, staleMs: input.staleMs },
          })
          return { kind: shownKind(thing), id: thing.id, title: titleOf(thing), ...lease }
        })
        .sort((left, right) => (left.lockUntil ?? 0) - (right.lockUntil ?? 0))
      const count = (is: (lock: StaleLocks['locks'][number]) => boolean) => seen.filter(is).length
      return reply({
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
      })
    })
  },
})

/** A task is an item, but not to those who read about it. */
export function shownKind({ kind, queue }: Leased): 'task' | Leased['kind'] {
  return queue === taskQueue ? 'task' : kind
}

function titleOf({ kind, row }: Leased): string {
  if (kind === 'lock') return row.name
  if (kind === 'delivery') return row.recipient
  return row.queue === taskQueue ? readWords({ ...row, payload: null }).title : (row.key ?? row.id)
}

/** Whether the holder of a row has ended or was proven dead. */
function deadAmong(holders: readonly Instance[], deaths: readonly { readonly instance: string }[]) {
  const ended = holders.filter(({ endedAt }) => endedAt !== null).map(({ id }) => id)
  const dead = new Set([...ended, ...deaths.map(({ instance }) => instance)])
  return ({ instance }: LeaseColumns) => instance !== null && dead.has(instance)
}

function watched(row: LeaseColumns, look: Look) {
  const { agent, grantedAt, expiresAt, token } = row
  return { assignee: agent, assignedAt: grantedAt, lockUntil: expiresAt, token, ...watchLease(row, look) }
}

const lockStatus = view(() => ({ taskId: z.string(), ...watchedLease() }))
/** What is known about one held lock. */
export type LockStatus = OutputOf<typeof lockStatus>

export const getLockStatus = operation({
  name: 'tasks.getLockStatus',
  summary: 'Get the lock of a task, unless it is free: holder, since when, until when.',
  effect: 'read',
  facts: ['deaths'],
  input: () => ({ ref: ref(), deaths: deaths() }),
  output: () => lockStatus().nullable(),
  needs: (input) => ({ item: { select: 'item', queue: taskQueue, ref: input.ref } }),
  decide({ item: found }, input, context) {
    const item = requireItem(found, taskQueue, input.ref)
    if (item.phase !== 'held') return reply(null)
    const ids = item.instance === null ? [] : [item.instance]
    const needs = need({
      holders: { select: 'instances', ids },
      recent: newestEvents({ subject: 'item', id: item.id }, 10),
    })
    return ask(needs, ({ holders, recent }) => {
      const lease = watched(item, {
        now: context.now,
        unchangedForMs: unchangedFor(recent, context.wall),
        holderIsDead: deadAmong(holders, input.deaths)(item),
        thresholds: {},
      })
      return reply({ taskId: item.id, ...lease })
    })
  },
})

/** Remarks change nothing, so they are not a sign of life. */
function unchangedFor(recent: readonly StoredEvent[], wall: number): number | null {
  const changes = recent.filter(({ version }) => version !== null)
  return changes.length === 0 ? null : Math.max(0, wall - Math.max(...changes.map(({ at }) => at)))
}
