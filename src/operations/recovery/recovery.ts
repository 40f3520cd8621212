/**
 * Recovery: the same decision for every trigger and for every operation that reclaims something; they differ in what
 * they ask it to take. A dry run is the same decision, not applied.
 */
import * as z from 'zod'
import type { Healer } from '../../domain/healer.ts'
import { endableInstances, endInstance, type Instance } from '../../domain/instance.ts'
import { promoteItem } from '../../domain/item-waiting.ts'
import { isExpired, type LeaseColumns } from '../../domain/lease.ts'
import { processingLockName } from '../../domain/queue.ts'
import {
  type Deaths,
  type ReclaimedItem,
  reclaimStaleItem,
  recoverDelivery,
  recoverItem,
  recoverLock,
  type StaleRequest,
} from '../../domain/recovery.ts'
import { uniqueBy } from '../../domain/unique.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { Loaded } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { runNeeds } from '../lock/lock-change.ts'
import { ask, change, need, operation, reply, type Step } from '../operation.ts'
import { endedCascade, firstOfEach, unblocked } from '../queue/dependents.ts'
import {
  deliveryReclaim,
  healLines,
  itemReclaim,
  lockReclaim,
  lossRecords,
  processNeeds,
  rulesFor,
  runRows,
  signedBy,
} from './reclaim.ts'
import {
  death,
  deathsIn,
  healer,
  maxDeaths,
  maxReclaimed,
  nothingTaken,
  type ProvenDeath,
  type RecoveryReport,
  type RecoveryTrigger,
  recoveryTriggers,
  report,
  summaryOf,
} from './report.ts'

/** What a recovery is to take. */
export interface RecoveryRequest {
  readonly trigger: RecoveryTrigger
  /** Only this queue and its processing lock. */
  readonly queue?: string | undefined
  /** Recovery before a claim starts with the claimed queues; the rest of the batch may come from any queue. */
  readonly first?: readonly string[] | undefined
  readonly deaths?: readonly ProvenDeath[] | undefined
  /** Instances seen alive: what they hold stays with them, even expired. */
  readonly spared?: readonly string[] | undefined
  /** Only what lapsed longer ago than this; dead holders are reclaimed at once. */
  readonly maxAgeMs?: number | undefined
  /** Judges the items of a queue by their last sign of life instead of their lease. */
  readonly stale?: StaleRequest | undefined
  /**
   * Only due items, from nobody; only locks with their lines and runs, which many lapsed items must not delay; or only
   * items. What the dead held is taken too.
   */
  readonly only?: 'due' | 'locks' | 'items' | undefined
  readonly dryRun?: boolean | undefined
  readonly pauseReason?: string | undefined
  /** Kept with each item taken. */
  readonly reason?: string | undefined
  readonly healer?: Healer | undefined
}

export const run = operation({
  name: 'recovery.run',
  summary: 'Reclaim what has lapsed or belongs to a dead process, and promote what is due.',
  effect: 'admin',
  freshIds: () => 1,
  class: 'client',
  facts: ['trigger', 'deaths', 'healer'],
  input: () => ({
    trigger: z.enum(recoveryTriggers).default('manual'),
    queue: fields.queue.optional(),
    first: z.array(fields.queue).max(maxReclaimed).optional(),
    deaths: z.array(death()).max(maxDeaths).optional(),
    dryRun: fields.dryRun,
    maxAgeMs: fields
      .whole(0)
      .optional()
      .describe('Only what lapsed longer ago than this; dead holders are reclaimed at once.'),
    pauseReason: fields.reason.describe('Reason given to runs that are paused because they lost their lock.'),
    only: z.enum(['due', 'locks', 'items']).optional(),
    healer: healer().optional(),
  }),
  output: report,
  needs: recoveryNeeds,
  decide: decideRecovery,
})

/** Rows that one transaction takes. A dry run blocks nobody, so it may look at as much as its evidence may name. */
function limitOf({ dryRun, stale }: RecoveryRequest): number {
  if (stale) return fields.maxBatch
  return dryRun ? maxDeaths : maxReclaimed
}

export function recoveryNeeds(request: RecoveryRequest) {
  const { queue, first = [], deaths = [], only, stale } = request
  const instances = deaths.map(({ instance }) => instance)
  const name = queue === undefined ? null : processingLockName(queue)
  const limit = limitOf(request)
  const takesItems = only === undefined || only === 'items'
  const takesLocks = only === undefined || only === 'locks'
  const isDue = (only === undefined && stale === undefined) || only === 'due'
  const takesLines = takesLocks && queue === undefined
  const hasDeaths = instances.length > 0
  return need({
    waiters: takesLines ? { select: 'lapsedWaiters', limit } : null,
    orphanWaiters: takesLines && hasDeaths ? { select: 'waitersOfInstances', instances, limit } : null,
    orphanRuns: takesLines ? { select: 'orphanedRuns', limit } : null,
    ownItems: takesItems && first.length > 0 ? { select: 'lapsedItems', queues: first, limit } : null,
    items:
      takesItems && stale === undefined
        ? { select: 'lapsedItems', queues: queue === undefined ? null : [queue], limit }
        : null,
    silent:
      stale !== undefined && queue !== undefined
        ? { select: 'silentItems', queue, thresholdMs: stale.thresholdMs, limit }
        : null,
    locks: takesLocks ? { select: 'lapsedLocks', name, limit } : null,
    ownDue: isDue && first.length > 0 ? { select: 'dueItems', queues: first, limit } : null,
    due: isDue ? { select: 'dueItems', queues: null, limit } : null,
    freed: isDue ? { select: 'freedDependents', limit } : null,
    orphans: hasDeaths ? { select: 'itemsOfInstances', instances, queue: queue ?? null, limit } : null,
    orphanLocks:
      hasDeaths && only !== 'items' ? { select: 'locksOfInstances', instances, name, limit } : null,
    // Deliveries belong to no queue.
    deliveries: only === undefined && queue === undefined ? { select: 'lapsedDeliveries', limit } : null,
    orphanDeliveries:
      hasDeaths && only !== 'items' && queue === undefined
        ? { select: 'deliveriesOfInstances', instances, limit }
        : null,
    dead: hasDeaths ? { select: 'instances', ids: instances } : null,
  })
}

type Found = Loaded<ReturnType<typeof recoveryNeeds>>

export function decideRecovery(
  rows: Found,
  request: RecoveryRequest,
  context: Context,
): Step<RecoveryReport> {
  const limit = limitOf(request)
  const { items, locks, deliveries, waiters, due } = lostIn(rows, request, context)
  const { dependents, finished, more: moreCascades } = rows.freed ?? noCascades
  const orphans = rows.orphanRuns ?? []
  const dead = (rows.dead ?? []).filter((instance) => instance.endedAt === null)
  const found = [items, locks, waiters, orphans, deliveries, due, dead, dependents, finished]
  if (found.every((each) => each.length === 0))
    return reply(summaryOf({ ...nothingTaken, more: false }, context))

  const names = [...new Set([...items, ...due].map((item) => item.queue))]
  const needs = need({
    queues: { select: 'queues', names },
    ...processNeeds(items),
    ...runNeeds(locks),
    held: { select: 'heldByInstances', instances: dead.map(({ id }) => id) },
  })
  return ask(needs, ({ queues, processes, runs, held }) => {
    const { trigger, dryRun, stale } = request
    const deaths = deathsIn(request.deaths ?? [], rows.dead ?? [])
    const takenItems = items.flatMap((item): ReclaimedItem[] => {
      const rules = rulesFor(item, queues, processes)
      const taken = stale
        ? reclaimStaleItem(item, rules, stale, context)
        : recoverItem(item, rules, deaths, context)
      return taken === null ? [] : [taken]
    })
    // An operator who asks for what is stale asks for locks that have merely expired too.
    const sparing = stale ? {} : context
    const takenLocks = locks.flatMap((lock) => recoverLock(lock, deaths, context.now, sparing) ?? [])
    const lines = healLines({ waiters, locks: takenLocks, runs, orphans }, deaths, request, context)
    const takenDeliveries = deliveries.flatMap((each) => recoverDelivery(each, deaths, context.now) ?? [])
    const promoted = due.flatMap((item) => {
      const { workflow } = rulesFor(item, queues)
      return workflow ? [{ before: item, after: promoteItem(item, workflow) }] : []
    })
    const changed = new Set([...takenItems, ...promoted].map(({ before }) => before.id))
    const freed = firstOfEach(dependents).filter(({ item }) => !changed.has(item.id))
    const more =
      [items, locks, deliveries, due, waiters, orphans].some(({ length }) => length >= limit) ||
      freed.length < dependents.length ||
      // Leave cascades to the process that is working on them: waiting for them here would be a busy loop.
      (moreCascades && !dryRun && freed.length + finished.length > 0)
    // End an instance only if nothing of it is left, so that the next pass still finds the rest: rows that somebody
    // else had locked were skipped here, and what an ended instance holds counts as lost without a crash.
    const taken = [...takenItems, ...takenLocks, ...takenDeliveries].map(({ before }) => before)
    const ended = endableInstances(dead, held, [...taken, ...lines.left])
    const isEnded = (row: Change['before']) =>
      ended.some(({ id }) => row !== null && 'id' in row && row.id === id)
    const took = { items: takenItems, locks: takenLocks, deliveries: takenDeliveries }
    const result = summaryOf(
      { ...took, lines, promoted: promoted.length, ended: ended.length, more },
      context,
    )
    if (dryRun) return reply(result)
    const changes: Change[] = [
      ...takenItems.map((each) => withReason(itemReclaim(each, context, trigger), request.reason)),
      ...lossRecords(takenItems, processes, context).filter(({ before }) => !isEnded(before)),
      ...takenLocks.map((each) => lockReclaim(each, context, trigger)),
      ...lines.changes,
      ...takenDeliveries.map((each) => deliveryReclaim(each, context, trigger)),
      ...promoted.map(({ before, after }): Change => change('item', before, after, 'item.promoted', context)),
      ...freed.flatMap(({ blocker, ...dependent }) => unblocked(dependent, blocker, context)),
      ...finished.map(endedCascade),
      ...ended.map((instance) => diedOf(instance, deaths, context)),
      ...runRows(context, trigger, took),
    ]
    return { changes: signedBy(request.healer, changes), result }
  })
}

/** The rows to look at, each once, at most as many as one transaction takes. */
function lostIn(rows: Found, request: RecoveryRequest, context: Context) {
  const limit = limitOf(request)
  const { maxAgeMs = 0, spared = [] } = request
  const old = <Row extends LeaseColumns>(lapsed: readonly Row[] | null): Row[] =>
    (lapsed ?? []).filter(
      (row) =>
        isExpired(row, context.now - maxAgeMs) && !(row.instance !== null && spared.includes(row.instance)),
    )
  const unique = <Row extends { readonly id: string }>(found: readonly Row[]) =>
    uniqueBy(found, ({ id }) => id).slice(0, limit)
  const lapsed = [...old(rows.ownItems), ...old(rows.items)]
  const items = unique([...lapsed, ...(rows.silent ?? []), ...(rows.orphans ?? [])])
  const due = unique([...(rows.ownDue ?? []), ...(rows.due ?? [])])
  return {
    items,
    locks: uniqueBy([...old(rows.locks), ...(rows.orphanLocks ?? [])], lockRef).slice(0, limit),
    deliveries: unique([...old(rows.deliveries), ...(rows.orphanDeliveries ?? [])]),
    waiters: uniqueBy([...old(rows.waiters), ...(rows.orphanWaiters ?? [])], ({ id }) => id),
    due: due.filter((item) => !items.some(({ id }) => id === item.id)),
  }
}

const noCascades = { dependents: [], finished: [], more: false } as const

function diedOf(before: Instance, deaths: Deaths, context: Context): Change {
  const evidence = deaths.get(before.id)?.evidence
  const after = endInstance(before, evidence ?? 'dead', context.wall)
  return change('instance', before, after, 'instance.died', context, { evidence })
}

function withReason(change: Change, reason: string | undefined): Change {
  if (reason === undefined || !change.event) return change
  return { ...change, event: { ...change.event, detail: { ...change.event.detail, reason } } } as Change
}
