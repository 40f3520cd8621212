/** What recovery takes from lost holders: the changes, their events, and the record of the run. */
import { builtInWorkflow } from '../../domain/built-in-workflows.ts'
import type { Delivery } from '../../domain/delivery.ts'
import type { Healer } from '../../domain/healer.ts'
import { type Process, recordedLoss, recordLoss } from '../../domain/instance.ts'
import type { Item } from '../../domain/item.ts'
import { holderOf, type Lock } from '../../domain/lock.ts'
import type { Waiter } from '../../domain/lock-line.ts'
import { queueOfLock } from '../../domain/queue.ts'
import {
  countRecovered,
  type Deaths,
  evidenceOfLoss,
  type ItemRules,
  type Reclaimed,
  type ReclaimedItem,
} from '../../domain/recovery.ts'
import type { Run } from '../../domain/run.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { delayedLock } from '../lock/lock.ts'
import { pausedRun, pausedRuns } from '../lock/lock-change.ts'
import { change } from '../operation.ts'
import type { Taken } from './report.ts'

/** Rows needed to decide who is to blame for the loss of these items: the processes that held them. */
export function processNeeds(items: readonly Item[]) {
  const instances = new Set(items.flatMap(({ instance }) => instance ?? []))
  const processes = { select: 'processes', instances: [...instances] } as const
  return { processes: instances.size === 0 ? null : processes }
}

export function rulesFor(
  item: Item,
  queues: readonly DefinedQueue[],
  processes: readonly Process[] | null = null,
): ItemRules {
  const defined = queues.find(({ queue }) => queue.name === item.queue)
  const process = processOf(item, processes)
  return {
    workflow: defined?.definition ?? builtInWorkflow(item.workflow),
    maxCrashes: defined?.queue.maxCrashes ?? 0,
    held: process ? (recordedLoss(process, item) ?? process) : null,
    hasEnded: process !== undefined && hasEnded(item, process),
  }
}

/** Checks the item's own instance: a process that opened a store twice may have closed only one of its handles. */
function hasEnded({ instance }: Item, { instances }: Process): boolean {
  return instances.some(({ id, endedAt }) => id === instance && endedAt !== null)
}

function processOf({ instance }: Item, processes: readonly Process[] | null): Process | undefined {
  return processes?.find(({ instances }) => instances.some(({ id }) => id === instance))
}

/** Records what each process held when it was first found lost, if some of that is left to be reclaimed later. */
export function lossRecords(
  taken: readonly ReclaimedItem[],
  processes: readonly Process[] | null,
  context: Context,
): Change[] {
  return (processes ?? []).flatMap((process) => {
    const lost = taken.filter(
      ({ before }) => processOf(before, processes) === process && !hasEnded(before, process),
    )
    if (lost.length === 0) return []
    const isRecorded = lost.every(({ before }) => recordedLoss(process, before) !== null)
    if (isRecorded || lost.length === process.items) return []
    const { items, suspects } = process
    const detail = { evidence: lost[0]?.evidence, items, suspects }
    return process.instances
      .filter(({ endedAt }) => endedAt === null)
      .map((before): Change => {
        const after = recordLoss(before, process, context.now)
        return change('instance', before, after, 'instance.lost', context, detail)
      })
  })
}

export function itemReclaim(taken: ReclaimedItem, context: Context, trigger: string): Change {
  const { before, after, evidence, expiredForMs, blame } = taken
  const kind = after?.quarantinedAt != null ? 'item.quarantined' : 'item.reclaimed'
  const { agent: holder, state: from, token } = before
  const detail = { holder, from, token, evidence, expiredForMs, blame, trigger }
  return change('item', before, after, kind, context, detail)
}

export function lockReclaim(taken: Reclaimed<Lock>, context: Context, trigger: string): Change {
  const { before, after, evidence, expiredForMs } = taken
  if (after) return delayedLock(before, after, evidence, context, { expiredForMs, trigger })
  const detail = { holder: holderOf(before), token: before.token, evidence, expiredForMs, trigger }
  return change('lock', before, null, 'lock.expired', context, detail)
}

/** What a recovery run did: one row for each queue it took something from, and one for what belongs to no queue. */
export function runRows(context: Context, trigger: string, { items, locks, deliveries }: Taken): Change[] {
  const itemQueues = items.map(({ before }) => before.queue)
  const lockQueues = locks.map(({ before }) => queueOfLock(before.name) ?? '')
  const queues = new Set([...itemQueues, ...lockQueues, ...deliveries.map(() => '')])
  return [...queues].flatMap((queue): Change[] => {
    const { locksCleaned, entriesReclaimed, quarantined } = countRecovered(
      items.filter((_, index) => itemQueues[index] === queue),
      locks.filter((_, index) => lockQueues[index] === queue),
    )
    const messagesReclaimed = queue === '' ? deliveries.length : 0
    if (locksCleaned + entriesReclaimed + messagesReclaimed === 0) return []
    const after = {
      id: context.ids[0] as string,
      queue,
      at: context.wall,
      trigger,
      by: context.agent,
      locksCleaned,
      entriesReclaimed,
      quarantined,
      messagesReclaimed,
    }
    return [{ table: 'recoveryRun', before: null, after }]
  })
}

/** Adds the process that did it to the detail of each event, because all that heal for others act under one name. */
export function signedBy(healer: Healer | undefined, changes: readonly Change[]): readonly Change[] {
  if (healer === undefined) return changes
  return changes.map((change): Change => {
    const { event } = change
    return event
      ? { ...change, event: { ...event, detail: { ...event.detail, healer: { ...healer } } } }
      : change
  })
}

export function deliveryReclaim(taken: Reclaimed<Delivery>, context: Context, trigger: string): Change {
  const { before, after, evidence, expiredForMs } = taken
  const detail = { holder: before.agent, token: before.token, evidence, expiredForMs, trigger }
  return change('delivery', before, after, 'delivery.reclaimed', context, detail)
}

/** What recovery does around locks: lost waiters leave the line, and runs whose lock ended are paused. */
export interface HealedLines {
  readonly changes: readonly Change[]
  /** The waiters that left. */
  readonly left: readonly Waiter[]
  readonly waitersRemoved: number
  readonly runsPaused: number
}

export function healLines(
  lost: {
    readonly waiters: readonly Waiter[]
    readonly locks: readonly Reclaimed<Lock>[]
    /** The runs of these locks. */
    readonly runs: readonly Run[]
    /** Runs that already had no lock. */
    readonly orphans: readonly Run[]
  },
  deaths: Deaths,
  { trigger, pauseReason = 'its lock was lost' }: { trigger: string; pauseReason?: string | undefined },
  context: Context,
): HealedLines {
  const reasonFor = (evidence: string) => `${pauseReason}: ${evidence}`
  const gone = lost.waiters.flatMap((waiter): { waiter: Waiter; change: Change }[] => {
    const evidence = evidenceOfLoss(waiter, deaths, context.now)
    if (evidence === null) return []
    const detail = { because: 'it was lost', holder: waiter.agent, evidence, trigger }
    return [{ waiter, change: change('waiter', waiter, null, 'waiter.left', context, detail) }]
  })
  const evidenceFor = (lock: Lock) => lost.locks.find(({ before }) => before === lock)?.evidence
  const ended = lost.locks.map(({ before }) => before)
  const paused = [
    ...pausedRuns(lost.runs, ended, (lock) => reasonFor(String(evidenceFor(lock))), context),
    ...lost.orphans.map((run) => pausedRun(run, reasonFor('nobody holds its lock'), context)),
  ]
  return {
    changes: [...gone.map(({ change }) => change), ...paused],
    left: gone.map(({ waiter }) => waiter),
    waitersRemoved: gone.length,
    runsPaused: paused.length,
  }
}
