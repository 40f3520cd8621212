/** A queue: which workflow its items follow, its limits, and whether it is paused. */
import { InvalidError } from '../errors.ts'
import { adjustBackoff, type Backoff, type GivenBackoff, retryBackoff } from './backoff.ts'
import type { Workflow } from './workflow.ts'

export interface Queue {
  readonly name: string
  /** Name of the workflow its items follow. */
  readonly workflow: string
  /** Slots of the processing lock, or null when claims need no lock. */
  readonly slots: number | null
  /** Attempts in all, the first included: once this many have failed, an item ends in its workflow's failed state. */
  readonly maxAttempts: number
  /** Crashes without progress after which an item is quarantined; 0 = never. */
  readonly maxCrashes: number
  /** Length of leases that a process renews; null: the process decides. */
  readonly leaseMs: number | null
  /** Length of leases that nobody renews; null: the default for all queues. */
  readonly manualLeaseMs: number | null
  /** How the waits between retries grow; null: the default. */
  readonly backoff: Backoff | null
  readonly pausedAt: number | null
  readonly pausedBy: string | null
  readonly pauseReason: string | null
  readonly createdAt: number
  readonly version: number
}

export interface QueueSettings {
  readonly slots?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly maxCrashes?: number | undefined
  readonly leaseMs?: number | undefined
  readonly manualLeaseMs?: number | undefined
  readonly backoff?: GivenBackoff | undefined
}

const defaultMaxAttempts = 3
const defaultMaxCrashes = 3

export function createQueue(name: string, workflow: Workflow, settings: QueueSettings, wall: number): Queue {
  return {
    name,
    workflow: workflow.name,
    slots: settings.slots ?? workflow.slots ?? null,
    maxAttempts: settings.maxAttempts ?? defaultMaxAttempts,
    maxCrashes: settings.maxCrashes ?? defaultMaxCrashes,
    leaseMs: settings.leaseMs ?? null,
    manualLeaseMs: settings.manualLeaseMs ?? null,
    backoff: backoffWith(null, settings),
    pausedAt: null,
    pausedBy: null,
    pauseReason: null,
    createdAt: wall,
    version: 1,
  }
}

/** A queue keeps its workflow for life, because its items are already in states of that workflow. */
export function assertSameWorkflow(queue: Queue, workflow: string): void {
  if (queue.workflow === workflow) return
  throw new InvalidError({
    what: `queue ${queue.name} follows workflow ${queue.workflow}, not ${workflow}`,
    next: `open it with workflow "${queue.workflow}", or choose another queue name`,
    facts: { queue: queue.name, workflow: queue.workflow, asked: workflow },
  })
}

/** The queue with changed settings, or null if nothing changes. */
export function adjustQueue(queue: Queue, settings: QueueSettings): Queue | null {
  const after = {
    ...queue,
    slots: settings.slots ?? queue.slots,
    maxAttempts: settings.maxAttempts ?? queue.maxAttempts,
    maxCrashes: settings.maxCrashes ?? queue.maxCrashes,
    leaseMs: settings.leaseMs ?? queue.leaseMs,
    manualLeaseMs: settings.manualLeaseMs ?? queue.manualLeaseMs,
    backoff: backoffWith(queue.backoff, settings),
  }
  const isSame = (Object.keys(after) as (keyof Queue)[]).every((field) => after[field] === queue[field])
  return isSame ? null : { ...after, version: queue.version + 1 }
}

/** Numbers not given stay as they are; returns the same object if nothing changes. */
function backoffWith(known: Backoff | null, { backoff }: QueueSettings): Backoff | null {
  if (backoff === undefined) return known
  const after = adjustBackoff(known ?? retryBackoff, backoff)
  const isSame =
    known?.baseMs === after.baseMs && known.factor === after.factor && known.maxMs === after.maxMs
  return isSame ? known : after
}

/** Pausing stops only new claims; held items continue. Null if it is already paused. */
export function pauseQueue(queue: Queue, by: string, reason: string | null, wall: number): Queue | null {
  if (queue.pausedAt !== null) return null
  return { ...queue, pausedAt: wall, pausedBy: by, pauseReason: reason, version: queue.version + 1 }
}

export function resumeQueue(queue: Queue): Queue | null {
  if (queue.pausedAt === null) return null
  return { ...queue, pausedAt: null, pausedBy: null, pauseReason: null, version: queue.version + 1 }
}

/** The processing lock of a queue is an ordinary lock with this name. */
export function processingLockName(queue: string): string {
  return `${processingLockPrefix}${queue}`
}

/** The queue that a lock with this name belongs to; null for any other lock. */
export function queueOfLock(name: string): string | null {
  return name.startsWith(processingLockPrefix) ? name.slice(processingLockPrefix.length) : null
}

const processingLockPrefix = 'queue:'
