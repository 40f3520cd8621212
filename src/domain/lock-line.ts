/**
 * The line for a named lock. Each waiter holds its position under its own lease, whose token is its ticket. A free slot
 * goes to the first live waiters, and a newcomer never overtakes them. Waiters ask for the lock themselves; it is never
 * handed to a process that may have died in the meantime.
 *
 * Not promised: that a waiter keeps its position if its process is silent for longer than its lease.
 */
import { HoldfastError, InvalidError } from '../errors.ts'
import {
  grant,
  type Holder,
  hasLapsed,
  isExpired,
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

/** A lock, its holders and the next waiter, as far as a decision needs them. */
export interface LockLine {
  /** The rows of its slots. */
  readonly locks: readonly Lock[]
  /** The first live waiter. */
  readonly next: Waiter | null
  /** The caller's own position; null if it is not in line. */
  readonly own: Waiter | null
  /**
   * How many live waiters there are, and how many of them are ahead of the caller; counted only as far as requested.
   */
  readonly waiting: number
  readonly ahead: number
  /** The highest ticket in the line; 0 when it is empty. */
  readonly last: number
  readonly floor: number
}

/** The front of a line, read once on behalf of all waiters of a process. */
export interface LineHead {
  /** The rows of its slots. */
  readonly locks: readonly Lock[]
  /** The first live waiters, as many as were requested. */
  readonly first: readonly Waiter[]
  /** The caller's own first waiter, live or lapsed; null if it has none. */
  readonly own: Waiter | null
  /** How many live waiters are ahead of it, counted up to `maxAhead`. */
  readonly ahead: number
}

export interface LineLook {
  /** Ids of the waiters that can now have the lock. */
  readonly called: readonly string[]
  /** Which of the caller's other waiters should ask for the lock too: none, the first, or all of them. */
  readonly asking: 'none' | 'first' | 'all'
  readonly ahead: number
  /** Who holds the lock; one of these may re-enter it. */
  readonly holders: readonly { readonly agent: string | null; readonly token: number }[]
}

export interface NamedRequest extends AcquireRequest {
  readonly user: string | null
  readonly run: string | null
  readonly delayMs: number
  /** The holder may re-enter the lock, and must release it as many times. */
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
      /** Lapsed locks that asked for a delay, which starts now. */
      readonly delayed: readonly LockChange[]
    }

/**
 * Decides whether the caller gets the lock. Granted only if there are more free slots than live waiters ahead of it.
 */
export function decideTurn(request: NamedRequest, line: LockLine, at: Judging & { wall: number }): Turn {
  assertSlots(request, line.locks, at)
  const own = request.reentrant ? line.locks.find((lock) => isOwn(lock, request)) : undefined
  if (own) return enterAgain(own, request.leaseMs, at.now)
  const { locks, taken, delayed, isKept, free } = occupancyOf(request.slots, line.locks, at)
  if (line.ahead < free) {
    const { before, after, ended } = grantSlot(request, locks, at, line.floor)
    const { user, run, delayMs, slots } = request
    return { outcome: 'granted', before, after: { ...after, user, run, delayMs, slots }, ended }
  }
  return { outcome: 'held', ...keptOutBy(taken, isKept ? null : line.next, request.slots), delayed }
}

function occupancyOf(slots: number, rows: readonly Lock[], at: Judging) {
  const delayed = rows
    .filter((lock) => hasLapsed(lock, at) && lock.delayMs > 0 && lock.delayedSince === null)
    .map((before) => ({ before, after: delayLock(before, at.now) }))
  // The rows once every delay has started: a lapsed slot that asked for a delay is not available.
  const locks = rows.map((lock) => delayed.find(({ before }) => before === lock)?.after ?? lock)
  const taken = locks.filter((lock) => !hasLapsed(lock, at))
  // A delay under a different slot count blocks every slot.
  const isKept = taken.some((lock) => lock.slots !== slots)
  return { locks, taken, delayed, isKept, free: isKept ? 0 : Math.max(0, slots - taken.length) }
}

/** Which of the first waiters should ask for the lock now. */
export function lookAtLine(slots: number, { locks, first, own, ahead }: LineHead, at: Judging): LineLook {
  const { taken, delayed, free } = occupancyOf(slots, locks, at)
  const held = taken.filter(({ delayedSince }) => delayedSince === null)
  // The first waiter starts the delay of a lapsed lock, or joins the line again.
  const isFirst = delayed.length > 0 || own === null || isExpired(own, at.now)
  const some = isFirst ? 'first' : 'none'
  // Every waiter has to ask, because each will be refused for wanting a different slot count.
  const isAll = held.some((lock) => lock.slots !== slots)
  return {
    called: first.slice(0, free).map(({ id }) => id),
    asking: isAll ? 'all' : some,
    ahead,
    holders: held.map(({ agent, token }) => ({ agent, token })),
  }
}

/**
 * Renews the waiters' leases, except for waiters that can now have the lock. Their process has one lease to take it; if
 * it is stuck, its lease lapses, so it does not keep a free lock from the others.
 */
export function renewWaiters(
  waits: readonly Waiter[],
  heads: readonly Pick<LineHead, 'locks' | 'first'>[],
  at: Judging,
): readonly { readonly before: Waiter; readonly after: Waiter }[] {
  // A free lock has no row that says how many slots it has: assume one, the minimum.
  const called = heads.flatMap(({ locks, first }) =>
    first.slice(0, occupancyOf(locks[0]?.slots ?? 1, locks, at).free),
  )
  const turns = new Set(called.map(({ id }) => id))
  return waits.filter(({ id }) => !turns.has(id)).map((before) => ({ before, after: renew(before, at.now) }))
}

function isOwn(lock: Lock, request: NamedRequest): boolean {
  const { token, slots } = request
  return isSameHolder(lock, request) && (token === undefined || token === lock.token) && lock.slots === slots
}

/** What blocks the caller: the holder whose lease expires first or, if a slot is free, the next waiter in line. */
function keptOutBy(taken: readonly Lock[], next: Waiter | null, slots: number) {
  if (taken.length < slots && next)
    return { holder: next.agent, since: next.joinedAt, expiresAt: next.expiresAt }
  const { agent, delayedSince, acquiredAt, expiresAt } = firstToExpire(taken)
  return { holder: delayedSince === null ? agent : null, since: acquiredAt, expiresAt }
}

/** A caller that believes a lock is exclusive must not get in alongside two others. */
function assertSlots({ name, slots }: NamedRequest, locks: readonly Lock[], at: Judging): void {
  const other = locks.find(
    (lock) => lock.delayedSince === null && !hasLapsed(lock, at) && lock.slots !== slots,
  )
  if (!other) return
  throw new InvalidError({
    what: `lock ${name} is held with ${other.slots} slots, but ${slots} were asked for`,
    next: 'ask for the same number of slots everywhere',
    facts: { name, slots: other.slots, asked: slots },
  })
}

const maxDepth = 1000

function enterAgain(before: Lock, leaseMs: number, now: number): Extract<Turn, { outcome: 'entered' }> {
  if (before.depth >= maxDepth) {
    throw new InvalidError({
      what: `lock ${before.name} has been acquired ${maxDepth} times by its holder`,
      next: 'release it as often as it is acquired',
    })
  }
  const after = { ...renew(before, now, leaseMs), depth: before.depth + 1, version: before.version + 1 }
  return { outcome: 'entered', before, after }
}

/** Leaves one level; null if that was the last one and the lock is free. */
export function leaveLock(lock: Lock): Lock | null {
  return lock.depth > 1 ? { ...lock, depth: lock.depth - 1, version: lock.version + 1 } : null
}

/** The lock's holder was lost: the lock is freed at once (null), or after the delay it asked for. */
export function loseLock(lock: Lock, now: number): Lock | null {
  return lock.delayMs > 0 && lock.delayedSince === null ? delayLock(lock, now) : null
}

/** Keeps everyone out for the delay, under a new token so that the lost holder is refused at once. */
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

/** Gives the lock to another agent as a manual lease under a new token, so that the former holder is refused. */
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

export const maxWaiters = 1000
/**
 * Beyond this, a waiter need not know how many are ahead: the more it counts, the later it notices that they have all
 * left.
 */
export const maxAhead = 30
/** A frozen process at the head of the line delays the others by at most this long. */
export const waiterLeaseMs = 5_000

export function joinLine(
  request: Holder & { id: string; name: string; quotas?: Quotas | undefined },
  line: LockLine & { readonly waits?: number | null },
  at: { now: number; wall: number },
): Waiter {
  if (line.waiting >= maxWaiters) {
    throw new HoldfastError('BUSY', {
      what: `${line.waiting} already wait for lock ${request.name}, its limit`,
      next: 'try again later',
      facts: { name: request.name, waiting: line.waiting, maxWaiters },
    })
  }
  const { id, name, agent, instance, quotas } = request
  assertQuota('lockWaits', agent, line.waits ?? 0, quotas)
  const lease = { leaseMs: waiterLeaseMs, now: at.now, previous: line.last, floor: line.floor }
  return { ...grant({ agent, instance }, lease), id, name, joinedAt: at.wall, version: 1 }
}

export function isWaiterDue(waiter: Waiter, now: number): boolean {
  return (waiter.expiresAt ?? 0) - now < (waiterLeaseMs * 2) / 3
}
