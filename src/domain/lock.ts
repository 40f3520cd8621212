/**
 * A lock: an exclusive named lease, or one of N slots under one name, each slot a resource with tokens of its
 * own. A row exists only while the lock is held; what a deleted row's token was, the namespace's floor keeps.
 */
import { InvalidError, LeaseLostError } from '../errors.ts'
import {
  assertSameAgent,
  extend,
  grant,
  type Holder,
  hasLapsed,
  isExpired,
  isHolder,
  isSameHolder,
  type Judging,
  type LeaseColumns,
  renew,
} from './lease.ts'

export interface Lock extends LeaseColumns {
  readonly name: string
  readonly slot: number
  readonly reason: string | null
  /** The item claimed together with this lock, extended together with it. */
  readonly item: string | null
  readonly acquiredAt: number
  readonly version: number
  /** On whose behalf it is held. */
  readonly user: string | null
  /** The run it is held for; progress is recorded under that name. */
  readonly run: string | null
  /** How many may hold it at once; null for a processing lock, whose queue says it. */
  readonly slots: number | null
  /** How often its holder has entered it; released as often. */
  readonly depth: number
  /** For how long nobody gets it after its holder was lost. */
  readonly delayMs: number
  /** Not null: nobody holds it, the row keeps others out until its expiry. */
  readonly delayedSince: number | null
  /** Glob patterns it reserves; null for a lock that is only a name. */
  readonly patterns: readonly string[] | null
  readonly mode: 'shared' | 'exclusive' | null
}

/** Whose it is; nobody's while it is kept for a delay, though the row still names who was lost. */
export function holderOf(lock: Lock): string | null {
  return lock.delayedSince === null ? lock.agent : null
}

const resourcePattern = /^(session|file|bead):/
const resourceLeaseMs = 60_000
const namedLeaseMs = 3_600_000

/** How long a manual lock lasts when nobody says: a claim of a single resource is short, a run may be long. */
export function manualLockMs(name: string): number {
  return resourcePattern.test(name) ? resourceLeaseMs : namedLeaseMs
}

/** What a lock has that was taken with nothing but a name. */
export const plainLock = {
  user: null,
  run: null,
  slots: null,
  depth: 1,
  delayMs: 0,
  delayedSince: null,
  patterns: null,
  mode: null,
} as const satisfies Partial<Lock>

export interface AcquireRequest extends Holder {
  readonly name: string
  readonly slots: number
  readonly leaseMs: number
  readonly reason: string | null
  /** Token of a manual grant, to show that this is its holder calling again. */
  readonly token: number | undefined
}

export type Acquisition =
  | {
      readonly outcome: 'granted'
      readonly before: Lock | null
      readonly after: Lock
      /** Lapsed locks that there is no slot for any more: they end now, or their holders could come back beside it. */
      readonly ended: readonly Lock[]
    }
  | { readonly outcome: 'renewed'; readonly before: Lock; readonly after: Lock }
  | { readonly outcome: 'held'; readonly by: Lock }

/** `held` are the rows of the lock's slots. Own slot = renewal; else a free slot; else one that lapsed. */
export function acquireLock(
  request: AcquireRequest,
  held: readonly Lock[],
  at: Judging & { wall: number; floor: number },
): Acquisition {
  const own = held.find((lock) => isSameHolder(lock, request))
  if (own) return { outcome: 'renewed', before: own, after: renew(own, at.now, request.leaseMs) }
  const live = held.filter((lock) => !hasLapsed(lock, at))
  if (live.length >= request.slots) return { outcome: 'held', by: firstToExpire(live) }
  return grantSlot(request, held, at)
}

/** Grants one of the slots; there must be fewer live holders than slots. */
export function grantSlot(
  request: Omit<AcquireRequest, 'token'>,
  held: readonly Lock[],
  at: Judging & { wall: number; floor: number },
): Extract<Acquisition, { outcome: 'granted' }> {
  const { slot, before, ended } = held.length === 0 ? firstSlot : chooseSlot(held, request.slots, at)
  const previous = highestToken(held)
  const lease = grant(request, { leaseMs: request.leaseMs, now: at.now, previous, floor: at.floor })
  // Field by field: an object literal with several spreads is a hundred times slower, and this runs for every lock.
  const after: Lock = {
    name: request.name,
    slot,
    reason: request.reason,
    item: null,
    acquiredAt: at.wall,
    version: (before?.version ?? 0) + 1,
    user: plainLock.user,
    run: plainLock.run,
    slots: plainLock.slots,
    depth: plainLock.depth,
    delayMs: plainLock.delayMs,
    delayedSince: plainLock.delayedSince,
    patterns: plainLock.patterns,
    mode: plainLock.mode,
    agent: lease.agent,
    instance: lease.instance,
    token: lease.token,
    grantedAt: lease.grantedAt,
    renewedAt: lease.renewedAt,
    expiresAt: lease.expiresAt,
    leaseMs: lease.leaseMs,
  }
  return { outcome: 'granted', before, after, ended }
}

interface Slot extends Pick<Extract<Acquisition, { outcome: 'granted' }>, 'before' | 'ended'> {
  readonly slot: number
}

const firstSlot: Slot = { slot: 0, before: null, ended: [] }

/** One of the slots is free or has lapsed. A lapsed one that ends anyway goes first; otherwise a free one robs nobody. */
function chooseSlot(held: readonly Lock[], slots: number, at: Judging): Slot {
  const lapsed = held.filter((lock) => hasLapsed(lock, at))
  const outdated = lapsed.filter((lock) => !isOneOf(lock, slots))
  const ending = outdated.filter(({ slot }) => slot < slots)
  const free = ending.length > 0 ? undefined : freeSlot(held, slots)
  if (free !== undefined) return { slot: free, before: null, ended: outdated }
  const before = firstToExpire(ending.length > 0 ? ending : lapsed.filter(({ slot }) => slot < slots))
  return { slot: before.slot, before, ended: outdated.filter((lock) => lock !== before) }
}

/** Whether a row is one of so many slots; a processing lock does not say how many there were. */
function isOneOf({ slot, slots }: Lock, count: number): boolean {
  return slot < count && (slots === null || slots === count)
}

/** A new token is above those of all slots: alone, it says which slot is meant. */
export function highestToken(held: readonly Lock[]): number {
  return Math.max(0, ...held.map((lock) => lock.token))
}

function freeSlot(held: readonly Lock[], slots: number): number | undefined {
  for (let slot = 0; slot < slots; slot++) if (!held.some((lock) => lock.slot === slot)) return slot
  return undefined
}

export function firstToExpire(locks: readonly Lock[]): Lock {
  return locks.reduce((first, lock) => ((lock.expiresAt ?? 0) < (first.expiresAt ?? 0) ? lock : first))
}

/** The slot a caller holds: by token and agent, or by being the same process. */
export function findOwn(
  held: readonly Lock[],
  caller: Holder & { token: number | undefined },
): Lock | undefined {
  const named = findNamed(held, caller)
  return named && isHolder(named, { agent: caller.agent, token: named.token }) ? named : undefined
}

/** The slot a caller names, whoever holds it. A row kept for a delay is nobody's. */
function findNamed(held: readonly Lock[], caller: Holder & { token: number | undefined }): Lock | undefined {
  const slots = held.filter(({ delayedSince }) => delayedSince === null)
  if (caller.token !== undefined) return slots.find((lock) => lock.token === caller.token)
  return slots.find((lock) => isSameHolder(lock, caller))
}

export function assertOwn(
  name: string,
  held: readonly Lock[],
  caller: Holder & { token: number | undefined },
): Lock {
  const own = findNamed(held, caller)
  if (own) {
    assertSameAgent(own, caller.agent, `lock ${name}`)
    return own
  }
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
