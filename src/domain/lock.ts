/**
 * A lock: an exclusive named lease, or one of N slots under one name, each slot a resource with its own tokens. A row
 * exists only while the lock is held; once it is deleted, the namespace's floor remembers its token.
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
  /** The token of that claim: the item may have been given back and claimed again since. */
  readonly itemToken: number | null
  readonly acquiredAt: number
  readonly version: number
  /** On whose behalf it is held. */
  readonly user: string | null
  /** The run it is held for; progress is recorded under that name. */
  readonly run: string | null
  /** How many may hold it at once; null for a processing lock, whose queue sets the number. */
  readonly slots: number | null
  /** How many times its holder has entered it; it must be released as many times. */
  readonly depth: number
  /** How long nobody can get it after its holder was lost. */
  readonly delayMs: number
  /** If set, nobody holds the lock; the row keeps others out until it expires. */
  readonly delayedSince: number | null
  /** Glob patterns it reserves; null for a plain named lock. */
  readonly patterns: readonly string[] | null
  readonly mode: 'shared' | 'exclusive' | null
}

/** Who holds it. Nobody does during the delay after a loss, although the row still names the lost holder. */
export function holderOf(lock: Lock): string | null {
  return lock.delayedSince === null ? lock.agent : null
}

const resourcePattern = /^(session|file|bead):/
const resourceLeaseMs = 60_000
const namedLeaseMs = 3_600_000

/** Default length of a manual lock: a claim on a single resource is short, a run may be long. */
export function manualLockMs(name: string): number {
  return resourcePattern.test(name) ? resourceLeaseMs : namedLeaseMs
}

/** The field values of a lock that was acquired by name only. */
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
  /** Token of a manual grant, to show that this is the holder calling again. */
  readonly token: number | undefined
}

export type Acquisition =
  | {
      readonly outcome: 'granted'
      readonly before: Lock | null
      readonly after: Lock
      /**
       * Lapsed locks that no longer have a slot. They end now; otherwise their holders could come back alongside the
       * new one.
       */
      readonly ended: readonly Lock[]
    }
  | { readonly outcome: 'renewed'; readonly before: Lock; readonly after: Lock }
  | { readonly outcome: 'held'; readonly by: Lock }

export type Granting = Judging & { readonly wall: number; readonly floor: number }

/** `held` are the rows of the lock's slots. Own slot = renewal; else a free slot; else one that lapsed. */
export function acquireLock(request: AcquireRequest, held: readonly Lock[], at: Granting): Acquisition {
  const own = held.find((lock) => isSameHolder(lock, request))
  if (own) return { outcome: 'renewed', before: own, after: renew(own, at.now, request.leaseMs) }
  const live = held.filter((lock) => !hasLapsed(lock, at))
  if (live.length >= request.slots) return { outcome: 'held', by: firstToExpire(live) }
  return grantSlot(request, held, at, at.floor)
}

/** Grants one of the slots; there must be fewer live holders than slots. */
export function grantSlot(
  request: Omit<AcquireRequest, 'token'>,
  held: readonly Lock[],
  at: Judging & { wall: number },
  floor: number,
): Extract<Acquisition, { outcome: 'granted' }> {
  const { slot, before, ended } = held.length === 0 ? firstSlot : chooseSlot(held, request.slots, at)
  const previous = highestToken(held)
  const lease = grant(request, { leaseMs: request.leaseMs, now: at.now, previous, floor })
  // Field by field: an object literal with several spreads is a hundred times slower, and this runs for every lock.
  const after: Lock = {
    name: request.name,
    slot,
    reason: request.reason,
    item: null,
    itemToken: null,
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

/**
 * At least one slot is free or has lapsed. A lapsed slot that has to end anyway is reused first; otherwise a free slot
 * is preferred, because taking it robs nobody.
 */
function chooseSlot(held: readonly Lock[], slots: number, at: Judging): Slot {
  const lapsed = held.filter((lock) => hasLapsed(lock, at))
  const outdated = lapsed.filter((lock) => !isOneOf(lock, slots))
  const ending = outdated.filter(({ slot }) => slot < slots)
  const free = ending.length > 0 ? undefined : freeSlot(held, slots)
  if (free !== undefined) return { slot: free, before: null, ended: outdated }
  const before = firstToExpire(ending.length > 0 ? ending : lapsed.filter(({ slot }) => slot < slots))
  return { slot: before.slot, before, ended: outdated.filter((lock) => lock !== before) }
}

/** Whether a row belongs to a lock with this slot count; a processing lock does not record its count. */
function isOneOf({ slot, slots }: Lock, count: number): boolean {
  return slot < count && (slots === null || slots === count)
}

/** The next token has to be above those of all slots, so that a token alone identifies its slot. */
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

/** A holder, and the token of the grant it means. */
type Named = Holder & { readonly token: number | undefined }

/** The slot a caller holds: matched by token and agent, or by process. */
export function findOwn(held: readonly Lock[], caller: Named): Lock | undefined {
  const named = findNamed(held, caller)
  return named && isHolder(named, { agent: caller.agent, token: named.token }) ? named : undefined
}

/** The slot a caller refers to, whoever holds it. A row kept for a delay belongs to nobody. */
function findNamed(held: readonly Lock[], caller: Named): Lock | undefined {
  const slots = held.filter(({ delayedSince }) => delayedSince === null)
  if (caller.token !== undefined) return slots.find((lock) => lock.token === caller.token)
  return slots.find((lock) => isSameHolder(lock, caller))
}

export function assertOwn(name: string, held: readonly Lock[], caller: Named): Lock {
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

/** Only a live lease can be extended: a lapsed one may be taken at any time. */
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
      what: `lock ${lock.name} already lasts longer than it could be extended to`,
      next: 'extend it later, or renew it',
      facts: { expiresAt: lock.expiresAt, extraMs },
    })
  }
  return { lock: after, capped }
}
