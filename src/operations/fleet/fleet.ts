/** The whole fleet at a glance: queues, what is held and by whom, agents, runs, messages, healing, alerts. */
import * as z from 'zod'
import { type Alert, decideAlerts, type QueueEndings } from '../../domain/alert.ts'
import type { BoundedCount } from '../../domain/count.ts'
import { crashPatterns, suspectAgents } from '../../domain/crash-pattern.ts'
import type { Delivery } from '../../domain/delivery.ts'
import { describeHolding, type Holding, isLost, type Judged } from '../../domain/holding.ts'
import type { Instance } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import type { Lock } from '../../domain/lock.ts'
import { readWords, taskQueue } from '../../domain/task.ts'
import { endingOf } from '../../domain/workflow.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { DefinedQueue, QueueGlance } from '../../port/queue.ts'
import { text } from '../fields.ts'
import { lockRef } from '../lease/lease.ts'
import { crashNeeds, maxJudged, maxRunning } from '../lease/watch.ts'
import { ask, type OutputOf, operation } from '../operation.ts'
import { progressView, viewProgress } from '../run/view.ts'
import { knownWorkflow } from '../subject.ts'

/** How many held things are shown. */
const maxShown = 20
const maxHeld = 10_000
/** How many queues are looked at: those most worth a look. */
const maxQueues = 100
/** Counting stops here. */
const maxCount = 10_000
/** Processes that send messages check at least every 10 s. */
const unsentMs = 60_000
/** How many adapters are named. */
const maxUnsent = 5
/** Dead letters are counted up to this number. */
const maxLetters = 100

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

/** Counted up to 10,000, so that the cost stays the same however much there is. `queue.stats` counts everything. */
export const boundedCount = lazily(() =>
  z.object({ count: z.number(), more: z.boolean().describe('There are more; counting stopped.') }),
)

const alertView = lazily(() =>
  z.object({
    code: z.string(),
    level: z.enum(['notice', 'warning']),
    what: z.string(),
    next: z.string(),
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

const statusView = lazily(() =>
  z.object({
    at: z.number(),
    queues: z
      .array(
        z.object({
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
        }),
      )
      .describe('By name; if there are many, the hundred that most need attention.'),
    moreQueues: z.boolean().describe('There are more queues than shown.'),
    held: z.object({
      total: z.number(),
      expired: z.number(),
      stale: z.number(),
      /** Soonest expiry first. */
      shown: z.array(heldView()),
    }),
    agents: z.array(
      z.object({
        agent: z.string(),
        processes: z.number(),
        alive: z.number(),
        dead: z.number(),
        holds: z.number(),
        beatAt: z.number().nullable(),
        crashes: z.number(),
        suspect: z.boolean(),
      }),
    ),
    runs: z.array(progressView()),
    messages: z.object({ pending: z.number(), dead: z.number() }),
    recovery: z.object({
      /** What a recovery run would free now. */
      due: z.number(),
      lastRunAt: z.number().nullable(),
      lastSweptAt: z.number().nullable(),
    }),
    alerts: z.array(alertView()),
  }),
)
/** The whole fleet at a glance. */
export type FleetStatus = OutputOf<typeof statusView>
type HeldView = OutputOf<typeof heldView>

export const heldNeeds = {
  items: { select: 'heldItems', queue: null, limit: maxHeld } as const,
  locks: { select: 'heldLocks', limit: maxHeld } as const,
  deliveries: { select: 'heldDeliveries', limit: maxHeld } as const,
  running: { select: 'runningInstances', limit: maxRunning } as const,
}

export const watchedNeed = { select: 'watchedQueues', limit: maxQueues } as const

export const fleetNeeds = {
  ...heldNeeds,
  ...crashNeeds,
  queues: watchedNeed,
  runs: { select: 'runPage', status: 'running', after: null, limit: maxShown } as const,
  pending: { select: 'openMessageCount', sender: null } as const,
  letters: { select: 'messages', phase: 'dead', sender: null, after: null, limit: maxLetters } as const,
  unsent: { select: 'overdueDeliveries', overdueMs: unsentMs, limit: maxUnsent } as const,
  history: { select: 'recoveryHistory', queue: null } as const,
  lapsed: { select: 'lapsedCounts', queue: null, name: null, instances: [] } as const,
}

function namesOf(queues: readonly DefinedQueue[]): string[] {
  return queues.map(({ queue }) => queue.name)
}

export function glancesOf(queues: readonly DefinedQueue[]) {
  return { glances: { select: 'queueGlances', queues: namesOf(queues), limit: maxCount } as const }
}

export function readyCountsOf(queues: readonly DefinedQueue[]) {
  return { ready: { select: 'readyCounts', queues: namesOf(queues), limit: maxCount } as const }
}

/** How many items of each queue are held, as far as they were loaded. */
export function countHeld(items: HeldRows['items']): (queue: string) => BoundedCount {
  const counts = new Map<string, number>()
  for (const { item } of items) counts.set(item.queue, (counts.get(item.queue) ?? 0) + 1)
  return (queue) => ({ count: counts.get(queue) ?? 0, more: items.length === maxHeld })
}

export const status = operation({
  name: 'fleet.status',
  summary: 'Show the whole fleet: queues, who holds what, agents, runs, messages, alerts.',
  effect: 'read',
  facts: ['judged'],
  input: () => z.strictObject({ judged: judged() }),
  output: statusView,
  needs: () => fleetNeeds,
  decide(rows, input, context) {
    return ask(glancesOf(rows.queues.queues), ({ glances }) => {
      const held = heldThings(rows, { instances: rows.running, judged: input.judged }, context.now)
      const queues = queueRows(rows, glances, context)
      const swept = sweptAt(rows.running)
      return {
        changes: [],
        result: {
          at: context.wall,
          queues,
          moreQueues: rows.queues.more,
          held: {
            total: held.length,
            expired: held.filter(({ holder }) => isOver(holder)).length,
            stale: held.filter(({ holder }) => holder.status === 'stale').length,
            shown: held.slice(0, maxShown),
          },
          agents: agentRows(rows, held, input.judged),
          runs: rows.runs.rows.map((run) => viewProgress(run, context.now)),
          messages: { pending: rows.pending, dead: rows.letters.rows.length },
          recovery: {
            due: dueNow(rows.lapsed, held),
            lastRunAt: rows.history.last?.at ?? null,
            lastSweptAt: swept,
          },
          alerts: alertsFor({ held, queues, glances, swept, rows, context }),
        },
      }
    })
  },
})

/** Lapsed leases, plus those that dead holders have and that have not lapsed yet. */
function dueNow(lapsed: Lapsed, held: readonly HeldView[]): number {
  const orphans = held.filter(({ holder }) => isLost(holder) && !isOver(holder)).length
  return lapsed.items + lapsed.locks + lapsed.deliveries + orphans
}

interface Lapsed {
  readonly items: number
  readonly locks: number
  readonly deliveries: number
}

/** When any running process last looked for things to heal. */
export function sweptAt(running: readonly Instance[]): number | null {
  const times = running.flatMap((instance) => instance.sweptAt ?? [])
  return times.length === 0 ? null : Math.max(...times)
}

function isOver({ status: state }: Holding): boolean {
  return state === 'expired' || state === 'stale'
}

type HeldRows = {
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

export function queueRows(
  rows: { readonly queues: { readonly queues: readonly DefinedQueue[] }; readonly items: HeldRows['items'] },
  glances: readonly QueueGlance[],
  context: Context,
): FleetStatus['queues'] {
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
function endings(
  defined: DefinedQueue,
  byState: ReadonlyMap<string, number>,
): { succeeded: number; failed: number; cancelled: number } {
  const workflow = knownWorkflow(defined)
  const total = { succeeded: 0, failed: 0, cancelled: 0 }
  for (const [state, count] of byState) {
    const ending = workflow && endingOf(workflow, state)
    if (ending !== null) total[ending] += count
  }
  return total
}

/** How each queue has fared lately. */
function lateEndings(queues: readonly DefinedQueue[], glances: readonly QueueGlance[]): QueueEndings[] {
  const byName = new Map(queues.map((defined) => [defined.queue.name, defined]))
  return glances.flatMap(({ queue, newestClosed }) => {
    const defined = byName.get(queue)
    if (defined === undefined) return []
    const { succeeded, failed } = endings(defined, newestClosed)
    const [mostly] = [...newestClosed]
      .filter(([state]) => endings(defined, new Map([[state, 1]])).failed > 0)
      .sort(([, left], [, right]) => right - left)
    return { queue, succeeded, failed, failedState: mostly?.[0] ?? null }
  })
}

type CrashRows = Parameters<typeof suspectAgents>[0]

/** Every agent that has a process here, holds something, or lost something in the last hour. */
function agentRows(
  rows: {
    readonly running: readonly Instance[]
    readonly losses: readonly { readonly agent: string }[]
    readonly ends: CrashRows
  },
  held: readonly HeldView[],
  seen: readonly Judged[],
): FleetStatus['agents'] {
  const suspects = new Set(suspectAgents(rows.ends))
  const names = new Set([
    ...rows.running.map(({ agent }) => agent),
    ...held.flatMap(({ holder }) => holder.agent ?? []),
    ...rows.losses.map(({ agent }) => agent),
  ])
  return [...names].sort().map((agent) => {
    const processes = rows.running.filter((each) => each.agent === agent)
    const count = (liveness: Judged['liveness']) =>
      processes.filter(({ id }) => seen.some((each) => each.instance === id && each.liveness === liveness))
        .length
    return {
      agent,
      processes: processes.length,
      alive: count('alive'),
      dead: count('dead'),
      holds: held.filter(({ holder }) => holder.agent === agent).length,
      beatAt: processes.length === 0 ? null : Math.max(...processes.map(({ beatAt }) => beatAt)),
      crashes: rows.losses.filter((loss) => loss.agent === agent).length,
      suspect: suspects.has(agent),
    }
  })
}

interface AlertRows {
  readonly held: readonly HeldView[]
  readonly queues: FleetStatus['queues']
  readonly glances: readonly QueueGlance[]
  readonly swept: number | null
  readonly rows: {
    readonly queues: { readonly queues: readonly DefinedQueue[] }
    readonly losses: Parameters<typeof crashPatterns>[0]
    readonly ends: CrashRows
    readonly letters: { readonly rows: readonly unknown[] }
    readonly unsent: readonly { readonly adapter: string; readonly dueAt: number }[]
  }
  readonly context: Context
}

export function alertsFor({ held, queues, glances, swept, rows, context }: AlertRows): Alert[] {
  const over = held.filter(({ holder }) => isOver(holder))
  // Only leases that were renewed at least once: a claim for somebody else's process simply runs out.
  const late = held.filter(
    ({ holder }) =>
      holder.kind === 'bound' &&
      holder.status === 'near' &&
      (holder.renewedAt ?? 0) > (holder.grantedAt ?? 0),
  )
  return decideAlerts({
    stale: held.filter(({ holder }) => holder.status === 'stale').length,
    lapsed: over.length,
    lapsedForMs: Math.max(0, ...over.map(({ holder }) => -holder.remainingMs)),
    sweptAgoMs: swept === null ? null : context.wall - swept,
    orphaned: held.filter(({ holder }) => holder.kind === 'bound' && holder.liveness === 'dead').length,
    unrenewed: late.map(({ title, holder }) => ({
      title,
      holder: holder.agent,
      remainingMs: holder.remainingMs,
    })),
    patterns: crashPatterns(rows.losses, context.wall),
    suspects: suspectAgents(rows.ends),
    quarantined: queues
      .filter(({ quarantined }) => quarantined.count > 0)
      .map(({ name, quarantined }) => ({ queue: name, count: quarantined.count })),
    endings: lateEndings(rows.queues.queues, glances),
    deadLetters: rows.letters.rows.length,
    unsent: rows.unsent.map(({ adapter, dueAt }) => ({ adapter, overdueMs: context.now - dueAt })),
    waiting: queues
      .filter(({ paused }) => !paused)
      .map(({ name, oldestReadyMs }) => ({ queue: name, oldestReadyMs: oldestReadyMs ?? 0 })),
  })
}
