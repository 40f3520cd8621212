/**
 * What another program left behind, as it is imported: in the state it had there and, if someone held it, under a lease
 * that has already lapsed. The other program's claim about who is still working is not trusted. Recovery gives the work
 * back as it does for every lost holder, and no late holder can present a token.
 */
import type { Failure } from './failure.ts'
import { type Clocks, type Item, phaseOf } from './item.ts'
import { createItem, type NewItem } from './item-creation.ts'
import { grant, noLease } from './lease.ts'
import { type Lock, plainLock } from './lock.ts'
import type { Counts, Run } from './run.ts'
import { stateOf, type Workflow } from './workflow.ts'

export interface ArrivingItem extends NewItem {
  readonly state: string
  /** Who held it in the other program. */
  readonly holder: string | null
  /** Why it must not be claimed until someone has looked at it; null if there is no reason. */
  readonly keptBack: string | null
  readonly attempts: number
  readonly failures: number
  /** Wall time in the other program. */
  readonly addedAt: number
  readonly startedAt: number | null
  readonly error: Failure | null
  readonly result: string | null
}

/** A held item without a holder was already lost, so it arrives released. */
export function arriveItem(arriving: ArrivingItem, workflow: Workflow, at: Clocks): Item {
  const there = stateOf(workflow, arriving.state)
  const isAbandoned = there.held === true && arriving.holder === null
  const state = isAbandoned ? (there.lostTo as string) : arriving.state
  const { held, closed } = stateOf(workflow, state)
  const fresh = createItem(arriving, workflow, at.wall)
  // Capped: a time from a clock ahead of ours would put it behind everything that is added here until ours catches up.
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
    // Retention treats it as finished today; its real end may be long past.
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

/** `slots` is null for a processing lock. */
export interface ArrivingLock extends Pick<Lock, 'name' | 'user' | 'run' | 'reason' | 'slots'> {
  readonly holder: string
  /** Wall time in the other program; null if unknown. */
  readonly acquiredAt: number | null
}

/** Null if someone holds the lock here: that grant takes precedence over a lapsed one. */
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
    itemToken: null,
    acquiredAt: Math.min(acquiredAt ?? at.wall, at.wall),
    version: 1,
  }
}

/** Its times are those in the other program. The token is that of its lock as imported; 0 if the lock was not. */
export type ArrivingRun = Counts &
  Pick<Run, 'run' | 'lock' | 'token' | 'status' | 'total' | 'pauseReason' | 'startedAt' | 'updatedAt'>

/** A run that was running arrives as running, under a lock that has lapsed or does not exist, so recovery pauses it. */
export function arriveRun(arriving: ArrivingRun, at: Clocks): Run {
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
    // Retention counts from today, as for finished items.
    endedAt: status === 'completed' ? at.wall : null,
    outcomesRemovedAt: null,
    runningSince: status === 'running' ? at.now : null,
    // Its pauses are unknown.
    activeMs: updatedAt - startedAt,
    version: 1,
  }
}

/** Expired a millisecond ago, so that it counts as lapsed from the moment it is written. */
function lapsedLease(holder: string, { now, floor }: { now: number; floor: number }) {
  return grant({ agent: holder, instance: null }, { leaseMs: 0, now: now - 1, previous: 0, floor })
}
