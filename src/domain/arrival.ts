/**
 * What another program left, as it arrives here: in the state it had there, and, where somebody held it, under a lease
 * that has lapsed. Nobody's word on who is still at work is taken over; recovery gives the work back as it does for
 * every lost holder, and no late one can show a token.
 */
import { type Clocks, createItem, type Failure, type Item, type NewItem, phaseOf } from './item.ts'
import { grant, noLease } from './lease.ts'
import { type Lock, plainLock } from './lock.ts'
import type { Progress, ProgressStatus } from './progress.ts'
import { stateOf, type Workflow } from './workflow.ts'

export interface ArrivingItem extends NewItem {
  readonly state: string
  /** Who held it there. */
  readonly holder: string | null
  /** Why it must not be claimed until somebody has looked; null: nothing speaks against it. */
  readonly keptBack: string | null
  readonly attempts: number
  readonly failures: number
  /** Wall time there. */
  readonly addedAt: number
  readonly startedAt: number | null
  readonly error: Failure | null
  readonly result: string | null
}

/** A held item that names no holder was lost before it came: it arrives given back. */
export function arriveItem(arriving: ArrivingItem, workflow: Workflow, at: Clocks): Item {
  const there = stateOf(workflow, arriving.state)
  const isAbandoned = there.held === true && arriving.holder === null
  const state = isAbandoned ? (there.lostTo as string) : arriving.state
  const { held, closed } = stateOf(workflow, state)
  const fresh = createItem(arriving, workflow, at.wall)
  // Times of a clock that ran ahead of ours would put it before everything that is added here.
  const addedAt = Math.min(arriving.addedAt, at.wall)
  const startedAt = Math.min(arriving.startedAt ?? addedAt, at.wall)
  const hasStarted = held === true || (closed !== undefined && arriving.startedAt !== null)
  const isKeptBack = arriving.keptBack !== null && closed === undefined
  const lease = held
    ? lapsedLease(arriving.holder as string, { now: at.now, floor: fresh.token })
    : { ...noLease, token: fresh.token }
  const arrived: Item = {
    ...fresh,
    ...lease,
    state,
    addedAt,
    startedAt: hasStarted ? startedAt : null,
    // It is kept as long as what is finished today: its own day may be long past.
    closedAt: closed ? at.wall : null,
    outcome: closed ?? null,
    waitingFor: closed ? [] : fresh.waitingFor,
    runAt: held || closed ? null : fresh.runAt,
    quarantinedAt: isKeptBack ? at.wall : null,
    quarantineReason: isKeptBack ? arriving.keptBack : null,
    attempts: arriving.attempts,
    failures: arriving.failures,
    error: arriving.error,
    result: arriving.result,
  }
  return { ...arrived, phase: phaseOf(arrived, workflow) }
}

export interface ArrivingLock {
  readonly name: string
  readonly holder: string
  readonly user: string | null
  readonly run: string | null
  readonly reason: string | null
  /** How many may hold it; null for a processing lock. */
  readonly slots: number | null
  /** Wall time there; null when nobody knows. */
  readonly acquiredAt: number | null
}

/** Null when somebody has the lock here: that grant is worth more than a lapsed one. */
export function arriveLock(
  arriving: ArrivingLock,
  held: readonly Lock[],
  at: Clocks & { readonly floor: number },
): Lock | null {
  if (held.length > 0) return null
  const { holder, acquiredAt, ...words } = arriving
  return {
    ...plainLock,
    ...lapsedLease(holder, at),
    ...words,
    slot: 0,
    item: null,
    acquiredAt: Math.min(acquiredAt ?? at.wall, at.wall),
    version: 1,
  }
}

export interface ArrivingRun {
  readonly run: string
  /** The lock under which it ran, and the token of that lock as it arrived; 0 when it did not. */
  readonly lock: string
  readonly token: number
  readonly status: ProgressStatus
  readonly total: number | null
  readonly done: number
  readonly failed: number
  readonly skipped: number
  readonly pauseReason: string | null
  /** Wall times there. */
  readonly startedAt: number
  readonly updatedAt: number
}

/** A run that was running arrives running, under a lock that has lapsed or is not there: recovery pauses it. */
export function arriveRun(arriving: ArrivingRun, at: Clocks): Progress {
  const { status } = arriving
  const startedAt = Math.min(arriving.startedAt, at.wall)
  const updatedAt = Math.min(Math.max(startedAt, arriving.updatedAt), at.wall)
  return {
    ...arriving,
    cursor: null,
    completion: 'processed',
    pauseReason: status === 'paused' || status === 'failed' ? arriving.pauseReason : null,
    startedAt,
    updatedAt,
    // Kept from today on, as finished items are.
    endedAt: status === 'completed' ? at.wall : null,
    outcomesRemovedAt: null,
    runningSince: status === 'running' ? at.now : null,
    // Its pauses are not known.
    activeMs: updatedAt - startedAt,
    version: 1,
  }
}

/** Over since a millisecond ago, so that it counts as lapsed from the moment it is written. */
function lapsedLease(holder: string, { now, floor }: { now: number; floor: number }) {
  return grant({ agent: holder, instance: null }, { leaseMs: 0, now: now - 1, previous: 0, floor })
}
