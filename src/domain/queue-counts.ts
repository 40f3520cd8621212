/** What stands in a queue: each item is counted once, under what can be done with it. */
import type { Standing } from './item.ts'
import { knownState, type Workflow } from './workflow.ts'

export interface CountedItems {
  readonly byState: Readonly<Record<string, number>>
  readonly byStanding: Readonly<Record<Standing, number>>
  /** Set aside after crashes; always open, and neither claimable nor held. */
  readonly quarantinedByState: Readonly<Record<string, number>>
}

/** All but `total` add up to it. */
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

export function countQueue(
  { byState, byStanding, quarantinedByState }: CountedItems,
  workflow: Workflow,
): QueueCounts {
  const sum = (counts: Readonly<Record<string, number>>, of: (state: string) => boolean = () => true) =>
    Object.entries(counts).reduce((total, [state, count]) => total + (of(state) ? count : 0), 0)
  const closed = (state: string) => knownState(workflow, state)?.closed
  /** Open, and nobody claims it before somebody says it may be tried again. */
  const awaitsRetry = (state: string) =>
    knownState(workflow, state)?.retryTo !== undefined && closed(state) === undefined
  const isFailed = (state: string) => state !== workflow.cancelTo && closed(state) === 'badly'

  const total = sum(byState)
  const quarantined = sum(quarantinedByState)
  const forRetry = sum(byState, awaitsRetry) - sum(quarantinedByState, awaitsRetry)
  const blocked = byStanding.waiting - forRetry - quarantined
  const processing = byStanding.held
  const completed = sum(byState, (state) => closed(state) === 'well')
  const failed = sum(byState, isFailed) + forRetry
  const cancelled = sum(byState, (state) => state === workflow.cancelTo)
  // What is left: whatever can be claimed, in whichever line it stands.
  const pending = total - blocked - quarantined - processing - completed - failed - cancelled
  return { total, pending, blocked, quarantined, processing, completed, failed, cancelled }
}
