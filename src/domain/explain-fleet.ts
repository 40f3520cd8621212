/** Why a queue hands out nothing, and what is known about an agent. */
import { type BoundedCount, boundedText, counted } from './count.ts'
import { formatDuration } from './duration.ts'
import { type Explanation, explanation, healNow, nextInLine } from './explain.ts'
import type { Holding, Judged } from './holding.ts'
import type { Queue } from './queue.ts'

/** A holder of a queue's processing lock, and how long its lapsed lease is still spared. */
export interface LockHolder {
  readonly holder: Holding
  readonly sparedMs: number
}

export interface QueueFacts {
  readonly queue: Queue
  readonly ready: BoundedCount
  readonly waiting: BoundedCount
  readonly held: BoundedCount
  readonly quarantined: BoundedCount
  /** Since it was added, which may be long before it became ready. */
  readonly oldestReadyMs: number | null
  /** The delay of an item is over, and nothing has put it in line yet. */
  readonly isDue: boolean
  readonly lockHolders: readonly LockHolder[]
}

export function explainQueue(facts: QueueFacts): Explanation {
  const { queue, ready, waiting, held, quarantined, oldestReadyMs, isDue, lockHolders } = facts
  const evidence = [
    `${boundedText(ready)} ready, ${boundedText(held)} held, ${boundedText(waiting)} waiting${quarantined.count === 0 ? '' : `, ${boundedText(quarantined)} of them quarantined`}`,
    ...(oldestReadyMs === null ? [] : [`the oldest was added ${formatDuration(oldestReadyMs)} ago`]),
  ]
  if (queue.pausedAt !== null) return explainPaused(queue, 'it', evidence)
  if (ready.count === 0 && !isDue)
    return explanation('waiting', 'nothing in it can be claimed now', { evidence })
  const locked = explainLocked(queue, lockHolders, 'its processing lock', evidence)
  if (locked !== null) return locked
  if (ready.count === 0)
    return explanation('waiting', 'something in it is due', { evidence, next: [nextInLine] })
  return explanation('ready', `${boundedText(ready)} can be claimed now`, { evidence })
}

/** Nothing of a paused queue can be claimed. */
export function explainPaused(queue: Queue, subject: string, evidence: readonly string[]): Explanation {
  const reason = queue.pauseReason === null ? '' : `: ${queue.pauseReason}`
  return explanation('stuck', `${subject} was paused by ${queue.pausedBy}${reason}`, {
    evidence,
    can: [{ operation: 'queue.resume', input: { queue: queue.name }, because: 'allows claims again' }],
  })
}

/** Null while a slot of its processing lock is free, or if it has none. */
export function explainLocked(
  { slots }: Queue,
  lockHolders: readonly LockHolder[],
  lock: string,
  evidence: readonly string[],
): Explanation | null {
  const [first] = lockHolders
  if (slots === null || lockHolders.length < slots || !first) return null
  const { holder, sparedMs } = first
  return explanation('waiting', `${lock} is held by ${holder.agent}`, {
    holder,
    evidence,
    next: [
      {
        what: 'the processing lock lapses, unless it is renewed',
        inMs: Math.max(holder.remainingMs, sparedMs),
      },
    ],
  })
}

export interface AgentFacts {
  readonly processes: readonly (Judged & { readonly pid: number; readonly hostName: string })[]
  /** How many leases it holds, how many of them have lapsed, and how many of the others are of a dead process. */
  readonly holds: number
  readonly lapsed: number
  readonly orphaned: number
  /** Leases it lost in the last hour. */
  readonly crashes: number
  readonly isSuspect: boolean
}

export function explainAgent(facts: AgentFacts): Explanation {
  const { processes, holds, lapsed, orphaned, crashes, isSuspect } = facts
  const evidence = [
    ...processes.map(({ pid, hostName, evidence: seen }) => `process ${pid} of ${hostName}: ${seen}`),
    `holds ${counted(holds, 'lease')}${lapsed === 0 ? '' : `, ${lapsed} of them lapsed`}${orphaned === 0 ? '' : `, ${orphaned} of them of a dead process`}`,
    ...(crashes === 0 ? [] : [`lost ${counted(crashes, 'lease')} in the last hour`]),
    ...(isSuspect ? ['its last three grants all ended as crashes'] : []),
  ]
  const can = lapsed + orphaned > 0 || processes.some(({ liveness }) => liveness === 'dead') ? [healNow] : []
  if (processes.some(({ liveness }) => liveness === 'alive')) {
    return explanation(isSuspect ? 'stuck' : 'held', 'one of its processes is alive', { evidence, can })
  }
  if (processes.length === 0) {
    return holds === 0
      ? explanation('gone', 'it has no running process and holds nothing', { evidence })
      : explanation('held', 'it has no running process; its leases are manual', { evidence, can })
  }
  const isDead = processes.every(({ liveness }) => liveness === 'dead')
  return isDead
    ? explanation('stuck', 'all its processes are dead', {
        evidence,
        next: [{ what: 'the next recovery frees what they held', inMs: 0 }],
        can,
      })
    : explanation('held', 'nobody here can tell whether it is alive', { evidence, can })
}
