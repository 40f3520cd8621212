/** What a holder or an operator does with an item: move, complete, fail, release, retry, cancel. */
import { AttemptsExhaustedError } from '../errors.ts'
import { type Backoff, backoffMs } from './backoff.ts'
import type { Failure } from './failure.ts'
import {
  type Clocks,
  copyOf,
  describeItem,
  describeState,
  enter,
  type Item,
  illegal,
  illegalMove,
  moveTo,
} from './item.ts'
import { assertHolder, type Claimant } from './lease.ts'
import { stateOf, type Workflow } from './workflow.ts'

/** Guards an operation by the holder. Returns whether the lease had already lapsed. */
export function assertHolds(item: Item, { agent, token }: Claimant, now: number): { late: boolean } {
  return assertHolder(item, {
    subject: describeItem(item),
    held: item.phase === 'held',
    agent,
    token,
    now,
    goneBecause:
      item.cancelRequestedAt === null ? `it is ${describeState(item, item.state)} now` : 'it was cancelled',
  })
}

/** Returns null for a move to the current state: nothing changes, and it is not an error. */
export function moveItem(item: Item, workflow: Workflow, to: string, at: Clocks): Item | null {
  const target = stateOf(workflow, to)
  if (to === item.state) return null
  const from = stateOf(workflow, item.state)
  if (!from.moves.includes(to)) throw illegal(item, to, from)
  if (target.held && !from.held) {
    throw illegalMove(item, to, 'claim it instead: a held state needs a holder')
  }
  return enter(item, to, workflow, at.wall)
}

export function completeItem(item: Item, workflow: Workflow, result: string | null, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.completeTo === undefined) throw illegal(item, 'completed', from)
  const completed = copyOf(item)
  completed.result = result
  completed.error = null
  return moveTo(from.completeTo, completed, workflow, at.wall)
}

/** A repeated completion under the same grant succeeds, because the first response may have been lost. */
export function isCompletedUnder(item: Item, token: number | undefined): boolean {
  return item.token === token && item.outcome === 'succeeded'
}

export interface FailOptions {
  readonly error: Failure
  readonly retryable: boolean
  readonly backoff: Backoff
  readonly random: number
}

/** Counts a handled failure. The last allowed failure ends in the workflow's failed state, even if it is retryable. */
export function failItem(item: Item, workflow: Workflow, options: FailOptions, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.failTo === undefined) throw illegal(item, 'failed', from)
  const failures = item.failures + 1
  const mayRepeat = options.retryable && failures < item.maxAttempts
  const to = mayRepeat ? (from.failRetryableTo ?? from.failTo) : from.failTo
  // The handler finished and its process is still alive, so this item did not kill the others.
  const cleared = { exposures: 0, suspectedAt: null }
  const failed = { ...item, ...cleared, failures, error: { ...options.error, retryable: options.retryable } }
  // An item that is claimable right after a failure has to wait first, or it would fail in a tight loop.
  if (stateOf(workflow, to).claimTo !== undefined) {
    const runAt = at.wall + backoffMs(options.backoff, failures, options.random)
    return enter({ ...failed, runAt }, to, workflow, at.wall)
  }
  return enter(failed, to, workflow, at.wall)
}

/** A deliberate release counts as neither a failure nor a crash. Legal from every held state. */
export function releaseItem(item: Item, workflow: Workflow, at: Clocks): Item {
  return enter(item, lostTo(item, workflow), workflow, at.wall)
}

export function retryItem(item: Item, workflow: Workflow, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.retryTo === undefined) {
    if (from.closed === 'failed' && item.failures >= item.maxAttempts) {
      throw new AttemptsExhaustedError({
        subject: describeItem(item),
        failures: item.failures,
        maxAttempts: item.maxAttempts,
      })
    }
    throw illegalMove(
      item,
      workflow.initial,
      `${item.state} is not retryable; only ${retryableStates(workflow).join(', ') || 'nothing in this workflow'} can be retried`,
    )
  }
  const failures = workflow.retryForgives ? 0 : item.failures
  return enter(
    { ...item, failures, error: null, runAt: null, offeredTo: null },
    from.retryTo,
    workflow,
    at.wall,
  )
}

/** The states whose items can be retried. */
export function retryableStates(workflow: Workflow): string[] {
  const states = Object.entries(workflow.states).filter(([, state]) => state.retryTo !== undefined)
  return states.map(([name]) => name)
}

export function cancelItem(item: Item, workflow: Workflow, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  const to = workflow.cancelTo
  if (to === undefined) {
    throw illegalMove(
      item,
      'cancelled',
      `nothing in the workflow ${workflow.name} can be cancelled; remove it instead`,
    )
  }
  if (!from.moves.includes(to)) throw illegal(item, to, from)
  const requested = item.phase === 'held' ? at.wall : null
  return enter({ ...item, cancelRequestedAt: requested }, to, workflow, at.wall)
}

export function lostTo(item: Item, workflow: Workflow): string {
  const state = stateOf(workflow, item.state)
  if (state.lostTo === undefined) throw illegal(item, 'given back', state)
  return state.lostTo
}
