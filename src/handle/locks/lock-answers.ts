/** What the calls of locks return. */
import type { NamedAcquireOutcome } from '../../operations/lock/lock.ts'
import type { ReserveOutcome } from '../../operations/lock/reservation.ts'
import type { RunView } from '../../operations/run/view.ts'
import type { LockView } from '../../operations/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'

/** A lock that was acquired. */
export interface GrantedLock<Held extends Lease | null = Lease | null> {
  /** It is yours. */
  readonly outcome: 'acquired'
  /** The lock, with its token. */
  readonly lock: LockView
  /** Null for a manual lock, which nobody renews. */
  readonly lease: Held
  /** The holder whose lapsed lock this was; null when the lock was free. */
  readonly recoveredFrom: { readonly holder: string | null; readonly token: number } | null
}

/** The outcome of acquiring a lock: it is yours, or who holds it. */
export type AcquiredLock<Held extends Lease | null = Lease | null> =
  | GrantedLock<Held>
  | Extract<NamedAcquireOutcome, { outcome: 'held' }>

/** The outcome of reserving paths: they are yours, or who holds a reservation that overlaps. */
export type ReservedPaths<Held extends Lease | null = Lease | null> =
  | { readonly outcome: 'acquired'; readonly lock: LockView; readonly lease: Held }
  | Extract<ReserveOutcome, { outcome: 'held' }>

/** What work under a lock returned, or who holds the lock. */
export type LockedWork<Result> =
  | { readonly outcome: 'finished'; readonly result: Result }
  | Extract<NamedAcquireOutcome, { outcome: 'held' }>

/** How a batch ended, or who holds its lock. */
export type BatchReport =
  | { readonly outcome: 'completed' | 'paused' | 'failed' | 'running'; readonly progress: RunView }
  | Extract<NamedAcquireOutcome, { outcome: 'held' }>

/** What recovery at startup did. */
export interface StartupReport {
  /** Locks that had lapsed or whose process was dead. */
  readonly locksReleased: number
  /** Runs that were paused because their lock was freed. */
  readonly runsPaused: number
  /** Waiters whose process was gone. */
  readonly waitersRemoved: number
  /** Locks that other agents, or other processes of this agent, hold and keep; at most 500. */
  readonly kept: readonly LockView[]
}
