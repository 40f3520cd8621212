/** Recovery as an operation: the same command for every trigger. A dry run is the same decision, not applied. */
import * as z from 'zod'
import type { Delivery } from '../../domain/delivery.ts'
import { endableInstances, endInstance, type Instance } from '../../domain/instance.ts'
import { type Item, promoteItem } from '../../domain/item.ts'
import { isExpired, type LeaseColumns } from '../../domain/lease.ts'
import type { Lock } from '../../domain/lock.ts'
import { processingLockName } from '../../domain/queue.ts'
import {
  countRecovered,
  type Death,
  type Deaths,
  type Reclaimed,
  recoverItem,
  recoverLock,
} from '../../domain/recovery.ts'
import type { Change, Context } from '../../engines/engine.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { runNeeds } from '../lock/run.ts'
import { deliveryReclaim, lostDeliveries, takeDeliveries } from '../message/recovery.ts'
import { ask, type OutputOf, operation } from '../operation.ts'
import { endedCascade, firstOfEach, unblocked } from '../queue/finish.ts'
import { type HealedLines, healLines, lineNeeds } from './lines.ts'
import {
  describeReclaimed,
  itemReclaim,
  lockReclaim,
  lossRecords,
  processNeeds,
  rulesFor,
  runRows,
  signedBy,
} from './reclaim.ts'

/** Rows that one transaction takes: keeps it under 20 ms. */
export const maxReclaimed = 100
const maxDryRun = 10_000

/** Dead processes that one command can name: a dry run names all of them, a real run one batch. */
export const maxDeaths = maxDryRun

export const recoveryTriggers = ['claim', 'completion', 'open', 'timer', 'waiter', 'death', 'manual'] as const
export type RecoveryTrigger = (typeof recoveryTriggers)[number]

export const report = lazily(() =>
  z.object({
    locksCleaned: z.number(),
    entriesReclaimed: z.number(),
    quarantined: z.number(),
    messagesReclaimed: z.number(),
    promoted: z.number(),
    instancesEnded: z.number(),
    waitersRemoved: z.number(),
    progressPaused: z.number(),
    recoveryTimestamp: z.number(),
    ids: z.array(z.string()),
    byState: z.record(z.string(), z.number()),
    /** What was taken, from whom and why, for the log. */
    reclaimed: z.array(
      z.object({
        kind: z.enum(['item', 'lock', 'delivery']),
        id: z.string(),
        holder: z.string().nullable(),
        expiredForMs: z.number(),
        evidence: z.string(),
      }),
    ),
    /** True if there may be more than one transaction takes. */
    more: z.boolean(),
  }),
)
export type RecoveryReport = OutputOf<typeof report>

export const death = lazily(() =>
  z.strictObject({
    instance: fields.text(100),
    evidence: fields.text(1000),
    isReboot: z.boolean().default(false),
  }),
)

/** The process that heals, in a namespace that is not its own. */
export const healer = lazily(() => z.strictObject({ host: fields.text(300), pid: z.int().min(0) }))

/** `known`: what the store knows about these processes. */
export function deathsIn(
  deaths: readonly (Death & { readonly instance: string })[],
  known: readonly Instance[] = [],
): Deaths {
  const ended = new Set(known.filter(({ endedAt }) => endedAt !== null).map(({ id }) => id))
  return new Map(deaths.map(({ instance, ...how }) => [instance, { ...how, hasEnded: ended.has(instance) }]))
}

export const run = operation({
  name: 'recovery.run',
  summary: 'Reclaim what has lapsed or belongs to a dead process, and promote what is due.',
  effect: 'admin',
  freshIds: () => 1,
  class: 'client',
  facts: ['trigger', 'deaths', 'healer'],
  input: () =>
    z.strictObject({
      trigger: z.enum(recoveryTriggers).default('manual'),
      queue: fields.queue.optional(),
      /** Recovery before a claim starts with the claimed queues; the rest of the batch may come from any queue. */
      first: z.array(fields.queue).max(maxReclaimed).default([]),
      deaths: z.array(death()).max(maxDeaths).default([]),
      dryRun: z.boolean().default(false).describe('Report what would be done, and do nothing.'),
      maxAgeMs: z
        .int()
        .min(0)
        .default(0)
        .describe('Only what lapsed longer ago than this; dead holders are reclaimed at once.'),
      pauseReason: fields.reason.describe(
        'Reason given to runs that are paused because they lost their lock.',
      ),
      /** Only puts due items in line; takes nothing from anybody. */
      promoteOnly: z.boolean().default(false),
      /** Only locks with their lines and runs, and what the dead held: many lapsed items must not delay these. */
      locksOnly: z.boolean().default(false),
      healer: healer().optional(),
    }),
  output: report,
  needs({ queue, first, deaths, dryRun, promoteOnly, locksOnly }) {
    const instances = deaths.map(({ instance }) => instance)
    const name = queue === undefined ? null : processingLockName(queue)
    // A dry run blocks nobody, so it may look at everything.
    const limit = dryRun ? maxDryRun : maxReclaimed
    const lines = lineNeeds(instances, limit)
    const all = !promoteOnly && queue === undefined
    return {
      waiters: all ? lines.waiters : null,
      orphanWaiters: all ? lines.orphanWaiters : null,
      orphanRuns: all ? lines.orphanRuns : null,
      ownItems:
        promoteOnly || first.length === 0 ? null : ({ select: 'lapsedItems', queues: first, limit } as const),
      items:
        promoteOnly || locksOnly
          ? null
          : ({ select: 'lapsedItems', queues: queue === undefined ? null : [queue], limit } as const),
      locks: promoteOnly ? null : ({ select: 'lapsedLocks', name, limit } as const),
      ownDue: first.length === 0 ? null : ({ select: 'dueItems', queues: first, limit } as const),
      due: locksOnly ? null : ({ select: 'dueItems', queues: null, limit } as const),
      freed: locksOnly ? null : ({ select: 'freedDependents', limit } as const),
      orphans:
        instances.length > 0
          ? ({ select: 'itemsOfInstances', instances, queue: queue ?? null, limit } as const)
          : null,
      orphanLocks:
        instances.length > 0 ? ({ select: 'locksOfInstances', instances, name, limit } as const) : null,
      // Deliveries belong to no queue.
      deliveries:
        promoteOnly || locksOnly || queue !== undefined
          ? null
          : ({ select: 'lapsedDeliveries', limit } as const),
      orphanDeliveries:
        instances.length > 0 && queue === undefined
          ? ({ select: 'deliveriesOfInstances', instances, limit } as const)
          : null,
      dead: instances.length > 0 ? ({ select: 'instances', ids: instances } as const) : null,
    }
  },
  decide(rows, input, context) {
    const limit = input.dryRun ? maxDryRun : maxReclaimed
    const old = <Row extends LeaseColumns>(lapsed: readonly Row[] | null): Row[] =>
      (lapsed ?? []).filter((row) => isExpired(row, context.now - input.maxAgeMs))
    const items = unique(
      [...old(rows.ownItems), ...old(rows.items), ...(rows.orphans ?? [])],
      (item) => item.id,
    ).slice(0, limit)
    const locks = unique([...old(rows.locks), ...(rows.orphanLocks ?? [])], lockRef).slice(0, limit)
    const deliveries = lostDeliveries({ lapsed: old(rows.deliveries), orphans: rows.orphanDeliveries }, limit)
    const { dependents, finished, more: moreCascades } = rows.freed ?? noCascades
    const due = unique([...(rows.ownDue ?? []), ...(rows.due ?? [])], ({ id }) => id)
      .slice(0, limit)
      .filter((item) => !items.some(({ id }) => id === item.id))
    const waiters = unique([...old(rows.waiters), ...(rows.orphanWaiters ?? [])], ({ id }) => id)
    const orphans = rows.orphanRuns ?? []
    const dead = (rows.dead ?? []).filter((instance) => instance.endedAt === null)
    if (
      items.length +
        locks.length +
        waiters.length +
        orphans.length +
        deliveries.length +
        due.length +
        dead.length +
        dependents.length +
        finished.length ===
      0
    ) {
      const nothing = { changes: [], left: [], waitersRemoved: 0, progressPaused: 0 }
      return { changes: [], result: summary([], [], [], nothing, 0, 0, false, context) }
    }

    const names = [...new Set([...items, ...due].map((item) => item.queue))]
    const needs = {
      queues: { select: 'queues', names } as const,
      ...processNeeds(items),
      ...runNeeds(locks),
      held: { select: 'heldByInstances', instances: dead.map(({ id }) => id) } as const,
    }
    return ask(needs, ({ queues, processes, runs, held }) => {
      const deaths = deathsIn(input.deaths, rows.dead ?? [])
      const takenItems = items.flatMap(
        (item) => recoverItem(item, rulesFor(item, queues, processes), deaths, context) ?? [],
      )
      const takenLocks = locks.flatMap((lock) => recoverLock(lock, deaths, context.now, context) ?? [])
      const lines = healLines({ waiters, locks: takenLocks, runs, orphans }, deaths, input, context)
      const takenDeliveries = takeDeliveries(deliveries, deaths, context.now)
      const promoted = due.flatMap((item) => {
        const { workflow } = rulesFor(item, queues)
        return workflow ? [{ before: item, after: promoteItem(item, workflow) }] : []
      })
      const changed = new Set([...takenItems, ...promoted].map(({ before }) => before.id))
      const freed = firstOfEach(dependents).filter(({ item }) => !changed.has(item.id))
      const more =
        items.length === limit ||
        locks.length === limit ||
        deliveries.length === limit ||
        due.length === limit ||
        waiters.length >= limit ||
        orphans.length === limit ||
        freed.length < dependents.length ||
        // Leave cascades to the process that is working on them: waiting for them here would be a busy loop.
        (moreCascades && !input.dryRun && freed.length + finished.length > 0)
      // End an instance only if nothing of it is left, so that the next pass still finds the rest: rows that somebody
      // else had locked were skipped here, and what an ended instance holds counts as lost without a crash.
      const taken = [...takenItems, ...takenLocks, ...takenDeliveries].map(({ before }) => before)
      const ended = endableInstances(dead, held, [...taken, ...lines.left])
      const isEnded = (row: Change['before']) =>
        ended.some(({ id }) => row !== null && 'id' in row && row.id === id)
      const result = summary(
        takenItems,
        takenLocks,
        takenDeliveries,
        lines,
        promoted.length,
        ended.length,
        more,
        context,
      )
      if (input.dryRun) return { changes: [], result }
      const changes: Change[] = [
        ...takenItems.map((taken) => itemReclaim(taken, context, input.trigger)),
        ...lossRecords(takenItems, processes, context).filter(({ before }) => !isEnded(before)),
        ...takenLocks.map((taken) => lockReclaim(taken, context, input.trigger)),
        ...lines.changes,
        ...takenDeliveries.map((taken) => deliveryReclaim(taken, context, input.trigger)),
        ...promoted.map(
          ({ before, after }): Change => ({
            table: 'item',
            before,
            after,
            event: { kind: 'item.promoted', agent: context.agent },
          }),
        ),
        ...freed.flatMap(({ blocker, ...dependent }) => unblocked(dependent, blocker, context)),
        ...finished.map(endedCascade),
        ...ended.map(
          (instance): Change => ({
            table: 'instance',
            before: instance,
            after: endInstance(instance, deaths.get(instance.id)?.evidence ?? 'dead', context.wall),
            event: {
              kind: 'instance.died',
              agent: context.agent,
              detail: { evidence: deaths.get(instance.id)?.evidence },
            },
          }),
        ),
      ]
      const took = { items: takenItems, locks: takenLocks, deliveries: takenDeliveries }
      changes.push(...runRows(context, input.trigger, took))
      return {
        changes: signedBy(input.healer, changes),
        result,
      }
    })
  },
})

const noCascades = { dependents: [], finished: [], more: false } as const

function summary(
  items: readonly Reclaimed<Item>[],
  locks: readonly Reclaimed<Lock>[],
  deliveries: readonly Reclaimed<Delivery>[],
  { waitersRemoved, progressPaused }: HealedLines,
  promoted: number,
  instancesEnded: number,
  more: boolean,
  context: Context,
): RecoveryReport {
  const counts = countRecovered(items, locks)
  return {
    ...counts,
    ids: [...counts.ids],
    byState: { ...counts.byState },
    messagesReclaimed: deliveries.length,
    promoted,
    instancesEnded,
    waitersRemoved,
    progressPaused,
    recoveryTimestamp: context.wall,
    reclaimed: describeReclaimed(items, locks, deliveries),
    more,
  }
}

function unique<Row>(rows: readonly Row[], keyOf: (row: Row) => string): Row[] {
  return [...new Map(rows.map((row) => [keyOf(row), row])).values()]
}
