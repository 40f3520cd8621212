/** Locks, reservations and the waiters in line: how a command names them. */

import type { Lock } from '../domain/lock.ts'
import type { LineHead, LockLine, Waiter } from '../domain/lock-line.ts'
import type { OfInstances } from './instance.ts'
import type { Page } from './page.ts'

export interface LockSelectors {
  /** Every slot of every lock, soonest expiry first. */
  heldLocks: [{ limit: number }, readonly Lock[]]
  nearLocks: [{ ids: readonly string[] | null; limit: number }, readonly Lock[]]
  lapsedLocks: [{ name: string | null; limit: number }, readonly Lock[]]
  locksOfInstances: [OfInstances & { name: string | null }, readonly Lock[]]
  /** The rows of a lock's slots. */
  lock: [{ name: string }, readonly Lock[]]
  /** A lock with its line, counted up to the limit, and the caller's own position in it. */
  lockLine: [{ name: string; waiter: string | null; limit: number }, LockLine]
  /** A lock, the first in line, and how many are ahead of the caller, counted up to `maxAhead`. */
  lockHead: [{ name: string; waiter: string; limit: number; maxAhead: number }, LineHead]
  /** Locks, each with the first waiter in its line. */
  lockHeads: [{ names: readonly string[] }, readonly Pick<LineHead, 'locks' | 'first'>[]]
  /** How many lock lines an agent is waiting in, counted up to the limit. */
  waitersOfAgent: [{ agent: string; limit: number }, number]
  /** Locks by name and slot, after the given one; includes lapsed ones. */
  locks: [{ agent: string | null; prefix: string; after: string | null; limit: number }, Page<Lock>]
  /** Named locks and reservations of an agent, without processing locks. */
  namedLocksOf: [{ agent: string; limit: number }, readonly Lock[]]
  isAnyLocked: [Record<never, never>, boolean]
  /** Locks that reserve paths and have not lapsed. */
  reservations: [{ limit: number }, readonly Lock[]]
  /** Waiters in line; rows that others are working on are skipped, unless `waits`. */
  waitersById: [{ ids: readonly string[]; waits?: true }, readonly Waiter[]]
  lapsedWaiters: [{ limit: number }, readonly Waiter[]]
  waitersOfInstances: [OfInstances, readonly Waiter[]]
  locksByRef: [{ refs: readonly string[] }, readonly Lock[]]
}
