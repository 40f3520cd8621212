/** What in the fleet needs attention. */
import * as z from 'zod'
import { type Alert, decideAlerts, type QueueEndings } from '../../domain/alert.ts'
import { crashPatterns, suspectAgents } from '../../domain/crash-pattern.ts'
import { isOrphaned } from '../../domain/holding.ts'
import { hasLapsed, leaseStatus } from '../../domain/lease.ts'
import type { Context } from '../../port/command.ts'
import type { DefinedQueue, QueueGlance } from '../../port/queue.ts'
import type { Loaded } from '../../port/selector.ts'
import { leasedThings } from '../lease/lease.ts'
import { crashNeeds } from '../lease/watch.ts'
import { need, view } from '../operation.ts'
import { type HeldView, heldNeeds } from './held.ts'
import { endings, type QueueRow, watchedNeed } from './queue-row.ts'

export const alertView = view(() => ({
  code: z.string(),
  level: z.enum(['notice', 'warning']),
  what: z.string(),
  next: z.string(),
}))

/** Processes that send messages check at least every 10 s. */
const unsentMs = 60_000
/** How many adapters are named. */
const maxUnsent = 5
/** Dead letters are counted up to this number. */
const maxLetters = 100
/** How many runs are shown. */
const maxRuns = 20

/** The rows from which the whole fleet is judged. */
export const fleetNeeds = need({
  ...heldNeeds,
  ...crashNeeds,
  queues: watchedNeed,
  runs: { select: 'runPage', status: 'running', after: null, limit: maxRuns },
  pending: { select: 'openMessageCount', sender: null },
  letters: { select: 'messages', phase: 'dead', sender: null, after: null, limit: maxLetters },
  unsent: { select: 'overdueDeliveries', overdueMs: unsentMs, limit: maxUnsent },
  history: { select: 'recoveryHistory', queue: null },
  lapsed: { select: 'lapsedCounts', queue: null, name: null, instances: [] },
})
export type FleetRows = Loaded<typeof fleetNeeds>

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

interface AlertRows {
  readonly held: readonly HeldView[]
  readonly queues: readonly QueueRow[]
  readonly glances: readonly QueueGlance[]
  readonly swept: number | null
  readonly rows: FleetRows
  readonly context: Context
}

export function alertsFor({ held, queues, glances, swept, rows, context }: AlertRows): Alert[] {
  const { now } = context
  // Only what a recovery would take now: it leaves manual leases that the store still spares to their holders.
  const lapsed = leasedThings({ ...rows, items: rows.items.map(({ item }) => item) })
    .filter(({ kind, row }) => hasLapsed(row, kind === 'delivery' ? { now } : context))
    .map(({ row }) => row)
  // Only leases that were renewed at least once: a claim for somebody else's process simply runs out.
  const late = held.filter(
    ({ holder }) =>
      holder.kind === 'bound' &&
      holder.status === 'near' &&
      (holder.renewedAt ?? 0) > (holder.grantedAt ?? 0),
  )
  return decideAlerts({
    stale: lapsed.filter((row) => leaseStatus(row, now) === 'stale').length,
    lapsed: lapsed.length,
    lapsedForMs: Math.max(0, ...lapsed.map(({ expiresAt }) => now - (expiresAt ?? now))),
    sweptAgoMs: swept === null ? null : context.wall - swept,
    orphaned: held.filter(({ holder }) => isOrphaned(holder)).length,
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
    unsent: rows.unsent.map(({ adapter, dueAt }) => ({ adapter, overdueMs: now - dueAt })),
    waiting: queues
      .filter(({ paused }) => !paused)
      .map(({ name, oldestReadyMs }) => ({ queue: name, oldestReadyMs: oldestReadyMs ?? 0 })),
  })
}
