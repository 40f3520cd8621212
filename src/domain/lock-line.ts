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

/** A lock with who holds it and who is next, as far as a decision needs it. */
export interface LockLine {
  /** The rows of its slots. */
  readonly locks: readonly Lock[]
  /** The first waiter alive. */
  readonly next: Waiter | null
  /** The caller's own place; null when it has none. */
  readonly own: Waiter | null
  /** How many waiters are alive, and how many of them are before the caller's place; counted as far as was asked. */
  readonly waiting: number
  readonly ahead: number
  /** The highest ticket in the line; 0 when it is empty. */
  readonly last: number
  readonly floor: number
}

/** The front of a line, for the one look that serves all waiters of a process. */
export interface LineHead {
  /** The rows of its slots. */
  readonly locks: readonly Lock[]
  /** The first waiters alive, as many as were asked for. */
  readonly first: readonly Waiter[]
  /** The place of the caller's own first waiter, alive or lapsed; null when it has none. */
  readonly own: Waiter | null
  /** How many waiters alive are before that place, counted up to `maxAhead`. */
  readonly ahead: number
}

export interface LineLook {
  /** Places whose turn has come. */
  readonly called: readonly string[]
  /** Who among the caller's waiters should ask for the lock besides: nobody, its first, or each of them. */
  readonly asking: 'none' | 'first' | 'all'
  readonly ahead: number
  /** Who holds the lock; one of them may enter again. */
  readonly holders: readonly { readonly agent: string | null; readonly token: number }[]
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
  assertSlots(request, line.locks, at)
  const own = request.reentrant ? line.locks.find((lock) => isOwn(lock, request)) : undefined
  if (own) return enterAgain(own, request.leaseMs, at.now)
  const { locks, taken, delayed, isKept, free } = occupancyOf(request.slots, line.locks, at)
  if (line.ahead < free) {
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

/** How a lock with so many slots stands: what is taken of it, and how many may still have one. */
function occupancyOf(slots: number, rows: readonly Lock[], at: Judging) {
  const delayed = rows
    .filter((lock) => hasLapsed(lock, at) && lock.delayMs > 0 && lock.delayedSince === null)
    .map((before) => ({ before, after: delayLock(before, at.now) }))
  // As they are once every delay has begun: a lapsed slot that asked for one is not to be had.
  const locks = rows.map((lock) => delayed.find(({ before }) => before === lock)?.after ?? lock)
  const taken = locks.filter((lock) => !hasLapsed(lock, at))
  // A delay under another number of slots is one of all of them.
  const isKept = taken.some((lock) => lock.slots !== slots)
  return { locks, taken, delayed, isKept, free: isKept ? 0 : Math.max(0, slots - taken.length) }
}

/** Which of the first in line should ask for the lock now. */
export function lookAtLine(slots: number, { locks, first, own, ahead }: LineHead, at: Judging): LineLook {
  const { taken, delayed, free } = occupancyOf(slots, locks, at)
  const held = taken.filter(({ delayedSince }) => delayedSince === null)
  // The first begins the delay of a lapsed lock, or stands in line anew.
  const isFirst = delayed.length > 0 || own === null || isExpired(own, at.now)
  const some = isFirst ? 'first' : 'none'
  // Who wants another number of slots is refused.
  const isAll = held.some((lock) => lock.slots !== slots)
  return {
    called: first.slice(0, free).map(({ id }) => id),
    asking: isAll ? 'all' : some,
    ahead,
    holders: held.map(({ agent, token }) => ({ agent, token })),
  }
}

/**
 * The places that stay alive for another lease. One whose turn has come is left alone: its process has a lease's time to
 * take the lock, and one that is stuck does not keep a free lock from the others.
 */
export function renewWaiters(
  waits: readonly Waiter[],
  heads: readonly Pick<LineHead, 'locks' | 'first'>[],
  at: Judging,
): readonly { readonly before: Waiter; readonly after: Waiter }[] {
  // Nobody has said of a free lock how many slots it has: one at least.
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

/** Who keeps the caller out: the holder whose lease ends first or, when a slot is free, the next in line. */
function keptOutBy(taken: readonly Lock[], next: Waiter | null, slots: number) {
  if (taken.length < slots && next)
    return { holder: next.agent, since: next.joinedAt, expiresAt: next.expiresAt }
  const { agent, delayedSince, acquiredAt, expiresAt } = firstToExpire(taken)
  return { holder: delayedSince === null ? agent : null, since: acquiredAt, expiresAt }
}

/** Somebody who believes a lock is exclusive must not get in beside two others. */
function assertSlots({ name, slots }: NamedRequest, locks: readonly Lock[], at: Judging): void {
  const other = locks.find(
    (lock) => lock.delayedSince === null && !hasLapsed(lock, at) && lock.slots !== slots,
  )
  if (!other) return
  throw new InvalidError({
    what: `lock ${name} is held with ${other.slots} slots, and ${slots} were asked for`,
    next: 'ask for the same number of slots everywhere',
    facts: { name, slots: other.slots, asked: slots },
  })
}

const maxDepth = 1000

function enterAgain(before: Lock, leaseMs: number, now: number): Extract<Turn, { outcome: 'entered' }> {
  if (before.depth >= maxDepth) {
    throw new InvalidError({
      what: `lock ${before.name} was entered ${maxDepth} times by its holder`,
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

export const maxWaiters = 1000
/** Whoever has as many before it need not know how many more: the more it counts, the later it sees that all have left. */
export const maxAhead = 30
/** A frozen process at the head of the line holds up the others for no longer than this. */
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

/** Whether a waiter should show again that it lives. */
export function isWaiterDue(waiter: Waiter, now: number): boolean {
  return (waiter.expiresAt ?? 0) - now < (waiterLeaseMs * 2) / 3
}
