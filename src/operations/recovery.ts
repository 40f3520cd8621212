/** Healing as an operation: the same command for every trigger; a dry run is the same decision, not applied. */
import * as z from 'zod'
import { endInstance } from '../domain/instance.ts'
import { type Item, promoteItem } from '../domain/item.ts'
import type { Lock } from '../domain/lock.ts'
import { processingLockName } from '../domain/queue.ts'
import {
  countRecovered,
  type ItemRules,
  type Reclaimed,
  reclaimStaleItem,
  recoverItem,
  recoverLock,
} from '../domain/recovery.ts'
import { builtInWorkflows } from '../domain/workflow.ts'
import type { Change, Context, DefinedQueue } from '../engines/engine.ts'
import * as fields from './fields.ts'
import { ask, operation } from './operation.ts'

/** Rows one transaction takes: keeps it under 20 ms. */
export const recoveryMax = 100

export const recoveryTriggers = ['claim', 'open', 'timer', 'waiter', 'death', 'manual'] as const

const report = z.object({
  locksCleaned: z.number(),
  entriesReclaimed: z.number(),
  quarantined: z.number(),
  promoted: z.number(),
  instancesEnded: z.number(),
  recoveryTimestamp: z.number(),
  ids: z.array(z.string()),
  byState: z.record(z.string(), z.number()),
  /** What was taken from whom and why, for the log. */
  reclaimed: z.array(
    z.object({
      kind: z.enum(['item', 'lock']),
      id: z.string(),
      holder: z.string().nullable(),
      expiredForMs: z.number(),
      evidence: z.string(),
    }),
  ),
  /** True when more may be left than one transaction takes. */
  more: z.boolean(),
})
export type RecoveryReport = z.output<typeof report>

const death = z.strictObject({ instance: z.string(), evidence: z.string().max(1000) })

export const run = operation({
  name: 'recovery.run',
  summary: 'Give back what lapsed or belongs to a process proven dead; promote what is due.',
  effect: 'admin',
  freshIds: () => 1,
  internal: true,
  input: z.strictObject({
    trigger: z.enum(recoveryTriggers),
    queue: fields.queue.optional(),
    deaths: z.array(death).max(recoveryMax).default([]),
    dryRun: z.boolean().default(false),
  }),
  output: report,
  needs({ queue, deaths }) {
    const instances = deaths.map(({ instance }) => instance)
    return {
      items: { select: 'lapsedItems', queue: queue ?? null, limit: recoveryMax } as const,
      locks: {
        select: 'lapsedLocks',
        name: queue === undefined ? null : processingLockName(queue),
        limit: recoveryMax,
      } as const,
      due: { select: 'dueItems', limit: recoveryMax } as const,
      orphans:
        instances.length > 0
          ? ({ select: 'itemsOfInstances', instances, limit: recoveryMax } as const)
          : null,
      orphanLocks:
        instances.length > 0
          ? ({ select: 'locksOfInstances', instances, limit: recoveryMax } as const)
          : null,
      dead: instances.length > 0 ? ({ select: 'instances', ids: instances } as const) : null,
    }
  },
  decide(rows, input, context) {
    const items = unique([...rows.items, ...(rows.orphans ?? [])], (item) => item.id).slice(0, recoveryMax)
    const locks = unique(
      [...rows.locks, ...(rows.orphanLocks ?? [])],
      (lock) => `${lock.name}#${lock.slot}`,
    ).slice(0, recoveryMax)
    const due = rows.due.filter((item) => !items.some(({ id }) => id === item.id))
    const dead = (rows.dead ?? []).filter((instance) => instance.endedAt === null)
    const nothing = items.length + locks.length + due.length + dead.length === 0
    const empty = {
      ...countRecovered([], []),
      promoted: 0,
      instancesEnded: 0,
      recoveryTimestamp: context.wall,
      ids: [],
      reclaimed: [],
      more: false,
    }
    if (nothing) return { changes: [], result: empty }

    const queues = [...new Set([...items, ...due].map((item) => item.queue))]
    return ask({ queues: { select: 'queues', names: queues } as const }, ({ queues }) => {
      const deaths = new Map(input.deaths.map(({ instance, evidence }) => [instance, evidence]))
      const takenItems = items.flatMap(
        (item) => recoverItem(item, rulesFor(item, queues), deaths, context) ?? [],
      )
      const takenLocks = locks.flatMap((lock) => recoverLock(lock, deaths, context.now) ?? [])
      const promoted = due.flatMap((item) => {
        const { workflow } = rulesFor(item, queues)
        return workflow ? [{ before: item, after: promoteItem(item, workflow) }] : []
      })
      // A dead instance is ended only when nothing of it is left, so that a second pass still finds the rest.
      const more = items.length === recoveryMax || locks.length === recoveryMax || due.length === recoveryMax
      const ended = more ? [] : dead
      const counts = countRecovered(takenItems, takenLocks)
      const result = {
        ...counts,
        ids: [...counts.ids],
        byState: { ...counts.byState },
        promoted: promoted.length,
        instancesEnded: ended.length,
        recoveryTimestamp: context.wall,
        reclaimed: describe(takenItems, takenLocks),
        more,
      }
      if (input.dryRun) return { changes: [], result }
      const changes: Change[] = [
        ...takenItems.map((taken) => itemReclaim(taken, context, input.trigger)),
        ...takenLocks.map((taken) => lockReclaim(taken, context, input.trigger)),
        ...promoted.map(
          ({ before, after }): Change => ({
            table: 'item',
            before,
            after,
            event: { kind: 'item.promoted', agent: context.agent },
          }),
        ),
        ...ended.map(
          (instance): Change => ({
            table: 'instance',
            before: instance,
            after: endInstance(instance, deaths.get(instance.id) ?? 'dead', context.wall),
            event: {
              kind: 'instance.died',
              agent: context.agent,
              detail: { evidence: deaths.get(instance.id) },
            },
          }),
        ),
      ]
      const reclaims = counts.entriesReclaimed + counts.locksCleaned > 0
      if (reclaims) changes.push(runRow(context, input.trigger, counts))
      return { changes, result, wakes: reclaims || promoted.length > 0 }
    })
  },
})

function unique<Row>(rows: readonly Row[], keyOf: (row: Row) => string): Row[] {
  return [...new Map(rows.map((row) => [keyOf(row), row])).values()]
}

function rulesFor(item: Item, queues: readonly DefinedQueue[]): ItemRules {
  const defined = queues.find(({ queue }) => queue.name === item.queue)
  return {
    workflow: defined?.definition ?? builtInWorkflows[item.workflow],
    crashesMax: defined?.queue.crashesMax ?? 0,
  }
}

function itemReclaim(
  { before, after, evidence, expiredForMs }: Reclaimed<Item>,
  context: Context,
  trigger: string,
): Change {
  const kind = after?.quarantinedAt != null ? 'item.quarantined' : 'item.reclaimed'
  const detail = {
    holder: before.agent,
    from: before.state,
    token: before.token,
    evidence,
    expiredForMs,
    trigger,
  }
  return { table: 'item', before, after, event: { kind, agent: context.agent, detail } }
}

function lockReclaim(
  { before, evidence, expiredForMs }: Reclaimed<Lock>,
  context: Context,
  trigger: string,
): Change {
  const detail = { holder: before.agent, token: before.token, evidence, expiredForMs, trigger }
  return { table: 'lock', before, after: null, event: { kind: 'lock.expired', agent: context.agent, detail } }
}

function describe(
  items: readonly Reclaimed<Item>[],
  locks: readonly Reclaimed<Lock>[],
): RecoveryReport['reclaimed'] {
  return [
    ...items.map(({ before, evidence, expiredForMs }) => ({
      kind: 'item' as const,
      id: before.id,
      holder: before.agent,
      expiredForMs,
      evidence,
    })),
    ...locks.map(({ before, evidence, expiredForMs }) => ({
      kind: 'lock' as const,
      id: before.name,
      holder: before.agent,
      expiredForMs,
      evidence,
    })),
  ]
}

function runRow(
  context: Context,
  trigger: string,
  counts: { locksCleaned: number; entriesReclaimed: number; quarantined: number },
): Change {
  const { locksCleaned, entriesReclaimed, quarantined } = counts
  const row = {
    id: context.ids[0] as string,
    at: context.wall,
    trigger,
    by: context.agent,
    locksCleaned,
    entriesReclaimed,
    quarantined,
  }
  return { table: 'recoveryRun', before: null, after: row }
}

export const stats = operation({
  name: 'recovery.stats',
  summary: 'What a recovery would do now, and what past ones did; changes nothing.',
  effect: 'read',
  input: z.strictObject({ queue: fields.queue.optional() }),
  output: z.object({
    locksCleaned: z.number(),
    entriesReclaimed: z.number(),
    recoveryTimestamp: z.number(),
    lastRun: z
      .object({
        at: z.number(),
        trigger: z.string(),
        by: z.string(),
        locksCleaned: z.number(),
        entriesReclaimed: z.number(),
        quarantined: z.number(),
      })
      .nullable(),
    totals: z.object({ locksCleaned: z.number(), entriesReclaimed: z.number() }),
    lastSweptAt: z.number().nullable(),
  }),
  needs: ({ queue }) => ({
    lapsed: {
      select: 'lapsedCounts',
      queue: queue ?? null,
      name: queue === undefined ? null : processingLockName(queue),
    } as const,
    history: { select: 'recoveryHistory' } as const,
    running: { select: 'runningInstances', limit: 1000 } as const,
  }),
  decide({ lapsed, history, running }, _input, context) {
    const swept = running.flatMap((instance) => instance.sweptAt ?? [])
    return {
      changes: [],
      result: {
        locksCleaned: lapsed.locks,
        entriesReclaimed: lapsed.items,
        recoveryTimestamp: context.wall,
        lastRun: history.last,
        totals: { locksCleaned: history.locksCleaned, entriesReclaimed: history.entriesReclaimed },
        lastSweptAt: swept.length === 0 ? null : Math.max(...swept),
      },
    }
  },
})

export const reclaimStale = operation({
  name: 'queue.reclaimStale',
  summary:
    "An operator's tool: take held items that gave no sign of life for a time, and lapsed locks. Up to 1,000 a call.",
  effect: 'admin',
  input: z.strictObject({
    queue: fields.queue,
    thresholdMs: z.int().min(0).max(1_000_000_000_000),
    force: z
      .boolean()
      .optional()
      .describe('Also from processes that are alive and renewing; needs a reason.'),
    reason: fields.reason,
  }),
  output: z.number(),
  needs: ({ queue, thresholdMs }) => ({
    defined: { select: 'queue', name: queue } as const,
    silent: { select: 'silentItems', queue, thresholdMs, limit: fields.batchMax } as const,
    locks: { select: 'lapsedLocks', name: processingLockName(queue), limit: recoveryMax } as const,
  }),
  decide({ defined, silent, locks }, input, context) {
    const rules = {
      workflow: defined?.definition ?? builtInWorkflows[defined?.queue.workflow ?? ''],
      crashesMax: defined?.queue.crashesMax ?? 0,
    }
    const request = { thresholdMs: input.thresholdMs, force: input.force ?? false }
    const taken = silent.flatMap((item) => reclaimStaleItem(item, rules, request, context) ?? [])
    const cleaned = locks.flatMap((lock) => recoverLock(lock, new Map(), context.now) ?? [])
    return {
      changes: [
        ...taken.map((each) => withReason(itemReclaim(each, context, 'manual'), input.reason)),
        ...cleaned.map((each) => lockReclaim(each, context, 'manual')),
      ],
      result: taken.length,
      wakes: taken.length + cleaned.length > 0,
    }
  },
})

function withReason(change: Change, reason: string | undefined): Change {
  if (reason === undefined || !change.event) return change
  return { ...change, event: { ...change.event, detail: { ...change.event.detail, reason } } } as Change
}
