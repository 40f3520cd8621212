/**
 * A lock: an exclusive named lease, or one of N slots under one name, each slot a resource with tokens of its
 * own. A row exists only while the lock is held; what a deleted row's token was, the namespace's floor keeps.
 */
import { InvalidError, LeaseLostError } from '../errors.ts'
import { extend, grant, type Holder, isExpired, isSameHolder, type LeaseColumns, renew } from './lease.ts'

export interface Lock extends LeaseColumns {
  readonly name: string
  readonly slot: number
  readonly reason: string | null
  /** The item claimed together with this lock, extended together with it. */
  readonly item: string | null
  readonly acquiredAt: number
  readonly version: number
}

export interface AcquireRequest extends Holder {
  readonly name: string
  readonly slots: number
  readonly leaseMs: number
  readonly reason: string | null
  /** Token of a manual grant, to show that this is its holder calling again. */
  readonly token: number | undefined
}

export type Acquisition =
  | { readonly outcome: 'granted'; readonly before: Lock | null; readonly after: Lock }
  | { readonly outcome: 'renewed'; readonly before: Lock; readonly after: Lock }
  | { readonly outcome: 'held'; readonly by: Lock }

/** `held` are the rows of the lock's slots. Own slot = renewal; else a free slot; else one that lapsed. */
export function acquireLock(
  request: AcquireRequest,
  held: readonly Lock[],
  at: { now: number; wall: number; floor: number },
): Acquisition {
  const own = held.find((lock) => isSameHolder(lock, request))
  if (own) return { outcome: 'renewed', before: own, after: renew(own, at.now, request.leaseMs) }
  const live = held.filter((lock) => !isExpired(lock, at.now))
  if (live.length >= request.slots) return { outcome: 'held', by: firstToExpire(live) }
  // Fewer live holders than slots, so one of the slots is free or has lapsed; a free one robs nobody.
  const taken = new Set(held.map((lock) => lock.slot))
  const free = Array.from({ length: request.slots }, (_, slot) => slot).find((slot) => !taken.has(slot))
  const lapsed = held.filter((lock) => lock.slot < request.slots && isExpired(lock, at.now))
  const before = free === undefined ? firstToExpire(lapsed) : null
  // Above the tokens of all slots: a token alone says which slot is meant.
  const previous = Math.max(0, ...held.map((lock) => lock.token))
  return {
    outcome: 'granted',
    before,
    after: grantSlot(request, before?.slot ?? (free as number), before, { ...at, previous }),
  }
}

function grantSlot(
  request: AcquireRequest,
  slot: number,
  before: Lock | null,
  at: { now: number; wall: number; floor: number; previous: number },
): Lock {
  return {
    ...grant(request, {
      leaseMs: request.leaseMs,
      now: at.now,
      previous: at.previous,
      floor: at.floor,
    }),
    name: request.name,
    slot,
    reason: request.reason,
    item: null,
    acquiredAt: at.wall,
    version: (before?.version ?? 0) + 1,
  }
}

function firstToExpire(locks: readonly Lock[]): Lock {
  return locks.reduce((first, lock) => ((lock.expiresAt ?? 0) < (first.expiresAt ?? 0) ? lock : first))
}

/** The slot a caller holds: by token, or by being the same process. */
export function findOwn(
  held: readonly Lock[],
  caller: Holder & { token: number | undefined },
): Lock | undefined {
  if (caller.token !== undefined) return held.find((lock) => lock.token === caller.token)
  return held.find((lock) => isSameHolder(lock, caller))
}

export function assertOwn(
  name: string,
  held: readonly Lock[],
  caller: Holder & { token: number | undefined },
): Lock {
  const own = findOwn(held, caller)
  if (own) return own
  const current = held[0]
  throw new LeaseLostError({
    subject: `lock ${name}`,
    token: caller.token ?? null,
    currentToken: current?.token ?? 0,
    holder: current?.agent ?? null,
    reason: current ? `it is held by ${current.agent}` : 'nobody holds it',
  })
}

/** Only a lease that still runs can be extended: a lapsed one may be taken at any moment. */
export function extendLock(lock: Lock, extraMs: number, now: number): { lock: Lock; capped: boolean } {
  if (isExpired(lock, now)) {
    throw new LeaseLostError({
      subject: `lock ${lock.name}`,
      token: lock.token,
      currentToken: lock.token,
      holder: lock.agent,
      reason: 'its lease has lapsed',
    })
  }
  if (extraMs === 0)
    throw new InvalidError({
      what: 'extending by 0 ms changes nothing',
      next: 'give the extra time in milliseconds',
    })
  const { capped, ...after } = extend(lock, now, extraMs)
  if (after.expiresAt === lock.expiresAt) {
    throw new InvalidError({
      what: `lock ${lock.name} already runs longer than an extension may reach`,
      next: 'extend it later, or renew it',
      facts: { expiresAt: lock.expiresAt, extraMs },
    })
  }
  return { lock: after, capped }
}
