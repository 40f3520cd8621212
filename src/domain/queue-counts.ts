/** What is in a queue: each item is counted once, by what can be done with it. */
import type { Phase } from './item.ts'
import { knownState, type Workflow } from './workflow.ts'

export interface CountedItems {
  readonly byState: Readonly<Record<string, number>>
  readonly byPhase: Readonly<Record<Phase, number>>
  /** Quarantined: never claimable, and held only if it was imported so and has not been given back yet. */
  readonly quarantinedByState: Readonly<Record<string, number>>
}

/** The other fields add up to `total`. */
export interface QueueCounts {
  readonly total: number
  readonly pending: number
  readonly blocked: number
  readonly quarantined: number
  readonly processing: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
}

export function countQueue(items: CountedItems, workflow: Workflow): QueueCounts {
  const { byState, byPhase, quarantinedByState } = items
  const sum = (counts: Readonly<Record<string, number>>, of: (state: string) => boolean = () => true) =>
    Object.entries(counts).reduce((total, [state, count]) => total + (of(state) ? count : 0), 0)
  const closed = (state: string) => knownState(workflow, state)?.closed
  /** Open, but not claimable until someone retries it. */
  const awaitsRetry = (state: string) =>
    knownState(workflow, state)?.retryTo !== undefined && closed(state) === undefined
  const isFailed = (state: string) => state !== workflow.cancelTo && closed(state) === 'failed'

  const isHeld = (state: string) => knownState(workflow, state)?.held === true

  const total = sum(byState)
  const quarantined = sum(quarantinedByState)
  const heldQuarantined = sum(quarantinedByState, isHeld)
  const forRetry = sum(byState, awaitsRetry) - sum(quarantinedByState, awaitsRetry)
  const blocked = byPhase.waiting - forRetry - (quarantined - heldQuarantined)
  const processing = byPhase.held - heldQuarantined
  const completed = sum(byState, (state) => closed(state) === 'succeeded')
  const failed = sum(byState, isFailed) + forRetry
  const cancelled = sum(byState, (state) => state === workflow.cancelTo)
  // The rest: everything claimable, in whichever line it is.
  const pending = total - blocked - quarantined - processing - completed - failed - cancelled
  return { total, pending, blocked, quarantined, processing, completed, failed, cancelled }
}
