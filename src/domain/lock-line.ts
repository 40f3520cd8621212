/**
 * The line for a named lock. A waiter has a place by a lease of its own, whose token is its ticket; a free slot goes
 * to the first waiters that are alive, and a newcomer never overtakes them. Waiters ask for their turn; nobody hands
 * a lock to a process that may have died meanwhile.
 *
 * Not promised: that a waiter keeps its place when its process is silent for longer than its lease.
 */
import { HoldfastError, InvalidError } from '../errors.ts'
import {
  grant,
  type Holder,
  hasLapsed,
  isSameHolder,
  type Judging,
  type LeaseColumns,
  nextToken,
  renew,
} from './lease.ts'
import {
  type AcquireRequest,
  type Acquisition,
  firstToExpire,
  grantSlot,
  highestToken,
  type Lock,
} from './lock.ts'
import { assertQuota, type Quotas } from './quota.ts'

export interface Waiter extends LeaseColumns {
  readonly id: string
  readonly name: string
  /** Wall clock. */
  readonly joinedAt: number
  readonly version: number
}

/** A lock with who holds it and who is next, as far as a decision needs it. */
export interface LockLine {
  /** The rows of its slots. */
  readonly locks: readonly Lock[]
  /** The first waiter alive. */
  readonly next: Waiter | null
  /** The caller's own place; null when it has none. */
  readonly own: Waiter | null
  /** How many waiters are alive, and how many of them are before the caller's place. */
  readonly waiting: number
  readonly ahead: number
  /** The highest ticket in the line; 0 when it is empty. */
  readonly last: number
  readonly floor: number
}

export interface NamedRequest extends AcquireRequest {
  readonly user: string | null
  readonly run: string | null
  readonly delayMs: number
  /** The holder may enter again, and leaves as often. */
  readonly reentrant: boolean
}

export interface LockChange {
  readonly before: Lock
  readonly after: Lock
}

export type Turn =
  | Extract<Acquisition, { outcome: 'granted' }>
  | ({ readonly outcome: 'entered' } & LockChange)
  | {
      readonly outcome: 'held'
      readonly holder: string | null
      readonly since: number
      readonly expiresAt: number | null
      /** Lapsed locks that asked for a delay: it begins now. */
      readonly delayed: readonly LockChange[]
    }

/** Whose turn is it? Granted only when every slot before the caller's place in line is free. */
export function decideTurn(request: NamedRequest, line: LockLine, at: Judging & { wall: number }): Turn {
  assertSlots(
    request,
    line.locks.filter((lock) => lock.delayedSince === null && !hasLapsed(lock, at)),
  )
  const own = request.reentrant ? line.locks.find((lock) => isOwn(lock, request)) : undefined
  if (own) return enterAgain(own, request.leaseMs, at.now)
  const delayed = line.locks
    .filter((lock) => hasLapsed(lock, at) && lock.delayMs > 0 && lock.delayedSince === null)
    .map((before) => ({ before, after: delayLock(before, at.now) }))
  // As they are once every delay has begun: a lapsed slot that asked for one is not to be had.
  const locks = line.locks.map((lock) => delayed.find(({ before }) => before === lock)?.after ?? lock)
  const taken = locks.filter((lock) => !hasLapsed(lock, at))
  // A delay under another number of slots is one of all of them.
  const isKept = taken.some((lock) => lock.slots !== request.slots)
  if (!isKept && taken.length + line.ahead < request.slots) {
    const { now, wall, isDoubtful, manualGraceMs } = at
    const { before, after, ended } = grantSlot(request, locks, {
      now,
      wall,
      isDoubtful,
      manualGraceMs,
      floor: line.floor,
    })
    const { user, run, delayMs, slots } = request
    return { outcome: 'granted', before, after: { ...after, user, run, delayMs, slots }, ended }
  }
  return { outcome: 'held', ...keptOutBy(taken, isKept ? null : line.next, request.slots), delayed }
}

function isOwn(lock: Lock, request: NamedRequest): boolean {
  const { token, slots } = request
  return isSameHolder(lock, request) && (token === undefined || token === lock.token) && lock.slots === slots
}

/** Who keeps the caller out: the holder whose lease ends first or, when a slot is free, the next in line. */
function keptOutBy(taken: readonly Lock[], next: Waiter | null, slots: number) {
  if (taken.length < slots && next)
    return { holder: next.agent, since: next.joinedAt, expiresAt: next.expiresAt }
  const { agent, delayedSince, acquiredAt, expiresAt } = firstToExpire(taken)
  return { holder: delayedSince === null ? agent : null, since: acquiredAt, expiresAt }
}

/** Somebody who believes a lock is exclusive must not get in beside two others. */
function assertSlots({ name, slots }: NamedRequest, live: readonly Lock[]): void {
  const other = live.find((lock) => lock.slots !== slots)
  if (!other) return
  throw new InvalidError({
    what: `lock ${name} is held with ${other.slots} slots, and ${slots} were asked for`,
    next: 'ask for the same number of slots everywhere',
    facts: { name, slots: other.slots, asked: slots },
  })
}

const depthMax = 1000

function enterAgain(before: Lock, leaseMs: number, now: number): Extract<Turn, { outcome: 'entered' }> {
  if (before.depth >= depthMax) {
    throw new InvalidError({
      what: `lock ${before.name} was entered ${depthMax} times by its holder`,
      next: 'release it as often as it is acquired',
    })
  }
  const after = { ...renew(before, now, leaseMs), depth: before.depth + 1, version: before.version + 1 }
  return { outcome: 'entered', before, after }
}

/** One step out; null when that was the last and the lock is free. */
export function leaveLock(lock: Lock): Lock | null {
  return lock.depth > 1 ? { ...lock, depth: lock.depth - 1, version: lock.version + 1 } : null
}

/** The lock's holder was lost: free at once, or after the delay it had asked for. */
export function loseLock(lock: Lock, now: number): Lock | null {
  return lock.delayMs > 0 && lock.delayedSince === null ? delayLock(lock, now) : null
}

/** Keeps everybody out for the delay; under a new token, so that the lost holder is refused at once. */
function delayLock(lock: Lock, now: number): Lock {
  return {
    ...lock,
    instance: null,
    token: nextToken(lock.token, 0, now),
    expiresAt: now + lock.delayMs,
    delayedSince: now,
    version: lock.version + 1,
  }
}

/** The lock goes to another agent, as a manual lease under a new token: the former holder is refused. */
export function transferLock(
  lock: Lock,
  slots: readonly Lock[],
  to: { agent: string; leaseMs: number; reason: string },
  at: { now: number; wall: number },
): Lock {
  const holder = { agent: to.agent, instance: null }
  return {
    ...lock,
    ...grant(holder, { leaseMs: to.leaseMs, now: at.now, previous: highestToken(slots), floor: 0 }),
    reason: to.reason,
    depth: 1,
    acquiredAt: at.wall,
    version: lock.version + 1,
  }
}

export const waitersMax = 1000
/** A frozen process at the head of the line holds up the others for no longer than this. */
const waiterLeaseMs = 5_000

export function joinLine(
  request: Holder & { id: string; name: string; quotas?: Quotas | undefined },
  line: LockLine & { readonly places?: number | null },
  at: { now: number; wall: number },
): Waiter {
  if (line.waiting >= waitersMax) {
    throw new HoldfastError('BUSY', {
      what: `${line.waiting} already wait for lock ${request.name}, its limit`,
      next: 'try again later',
      facts: { name: request.name, waiting: line.waiting, waitersMax },
    })
  }
  const { id, name, agent, instance, quotas } = request
  assertQuota('lockPlaces', agent, line.places ?? 0, quotas)
  const lease = { leaseMs: waiterLeaseMs, now: at.now, previous: line.last, floor: line.floor }
  return { ...grant({ agent, instance }, lease), id, name, joinedAt: at.wall, version: 1 }
}

/** Whether a waiter should show again that it lives. */
export function isWaiterDue(waiter: Waiter, now: number): boolean {
  return (waiter.expiresAt ?? 0) - now < (waiterLeaseMs * 2) / 3
}
