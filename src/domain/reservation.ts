/**
 * Path reservations: locks whose name is only an id and whose patterns say what they cover. Two of them conflict if
 * some path matches both and at least one is exclusive. They are advisory, for agents that ask; the file system knows
 * nothing about them.
 */
import { HoldfastError, InvalidError, LeaseLostError } from '../errors.ts'
import { hasLapsed, isExpired } from './lease.ts'
import { type AcquireRequest, type Granting, grantSlot, type Lock } from './lock.ts'
import { costToNext, PatternIndex } from './pattern-index.ts'
import { assertQuota, type Quotas } from './quota.ts'

export const reservationPrefix = 'paths:'
export function isReservationName(name: string): boolean {
  return name.startsWith(reservationPrefix)
}

export const maxPatterns = 50
export const maxHolding = 50
/**
 * Each new reservation is compared with all existing ones while other writers wait; this many take a few milliseconds.
 */
export const maxReservations = 1000
export const maxReservedPatterns = 5000
export const maxReservedLength = 250_000
/** About 5 ms, because others wait for the transaction to end. A read blocks nobody. */
const maxReserveSteps = 500_000
/**
 * One agent's reservations may cost the next caller at most this much; the rest is for other agents and for the request
 * itself.
 */
const maxOwnSteps = maxReserveSteps / 2
const maxReadSteps = 100 * maxReserveSteps

export interface ReservationRequest extends Omit<AcquireRequest, 'slots' | 'token'> {
  readonly patterns: readonly string[]
  readonly mode: 'shared' | 'exclusive'
  readonly user: string | null
  /** Reservations of the same agent that do not conflict with this one. */
  readonly holding: readonly HeldReservation[]
  readonly quotas?: Quotas | undefined
}

/** Identified by name and token, because reservations granted in the same millisecond have the same token. */
export interface HeldReservation {
  readonly name: string
  readonly token: number
}

export type Reservation =
  | { readonly outcome: 'granted'; readonly after: Lock }
  | { readonly outcome: 'held'; readonly by: readonly Lock[] }

/**
 * Reserves all patterns or none. Reservations that the caller says it holds do not conflict. All others do, even those
 * of the same process: two handlers of one worker would overwrite each other's files like any other two.
 */
export function reservePaths(
  request: ReservationRequest,
  reserved: readonly Lock[],
  at: Granting,
): Reservation {
  const asked = PatternIndex.ofPatterns(request.patterns, maxReserveSteps)
  const live = reserved.filter((lock) => !hasLapsed(lock, at))
  const by = live.filter(
    (lock) =>
      (request.mode === 'exclusive' || lock.mode === 'exclusive') &&
      !isHeldBy(lock, request) &&
      isCovered(lock, asked),
  )
  if (by.length > 0) return { outcome: 'held', by }
  assertRoom(live, request)
  assertOwnShare(live, request)
  const { after } = grantSlot({ ...request, slots: 1 }, [], at, at.floor)
  const { patterns, mode, user } = request
  return { outcome: 'granted', after: { ...after, patterns, mode, user, slots: 1 } }
}

function isHeldBy(lock: Lock, { agent, holding }: ReservationRequest): boolean {
  return lock.agent === agent && holding.some(({ name, token }) => name === lock.name && token === lock.token)
}

/**
 * A lapsed reservation cannot be renewed, unlike a lapsed lock that nobody took. Taking its paths leaves its row
 * unchanged, so there is no way to tell whether someone else has them by now.
 */
export function isOver(lock: Lock, now: number): boolean {
  return lock.patterns !== null && isExpired(lock, now)
}

export function assertNotOver(lock: Lock, now: number): void {
  if (!isOver(lock, now)) return
  throw new LeaseLostError({
    subject: `reservation ${lock.name}`,
    token: lock.token,
    currentToken: lock.token,
    holder: null,
    reason: 'it has lapsed, and others may have reserved its paths since',
  })
}

/** The locks that reserve a path. The path is validated even if nothing is reserved. */
export function covering(path: string, locks: readonly Lock[]): Lock[] {
  const asked = PatternIndex.ofPath(path, maxReadSteps)
  return locks.filter((lock) => isCovered(lock, asked))
}

function isCovered({ patterns }: Lock, by: PatternIndex): boolean {
  return patterns?.some((pattern) => by.overlaps(pattern)) ?? false
}

function assertRoom(live: readonly Lock[], request: ReservationRequest): void {
  const limits = [
    { of: 'reservations', max: maxReservations, asked: 1, held: live.length },
    { of: 'patterns', max: maxReservedPatterns, ...sumBoth(live, request, ({ length }) => length) },
    { of: 'characters', max: maxReservedLength, ...sumBoth(live, request, lengthOf) },
  ]
  const reached = limits.find(({ held, asked, max }) => held + asked > max)
  if (!reached) return
  const { of, held, asked, max } = reached
  throw new HoldfastError('BUSY', {
    what: `${held} ${of} of paths are reserved, and ${asked} more would exceed the limit of ${max}`,
    next: 'release some or try again later; src/** is one pattern for everything below a folder',
    facts: { limit: of, held, asked, max },
  })
}

/** Refused now rather than when the next caller asks, because that one could do nothing about it. */
function assertOwnShare(live: readonly Lock[], { agent, patterns, quotas }: ReservationRequest): void {
  const own = live.filter((lock) => lock.agent === agent)
  assertQuota('reservations', agent, own.length, quotas)
  const steps = costToNext([...patterns, ...own.flatMap((lock) => lock.patterns ?? [])])
  if (steps <= maxOwnSteps) return
  throw new InvalidError({
    what: `the patterns of ${agent} would take ${steps} steps to compare with the next reservation; the limit per agent is ${maxOwnSteps}`,
    next: 'start patterns with folder names, and use fewer braces and wildcards',
    facts: { agent, steps, maxSteps: maxOwnSteps },
  })
}

function sumBoth(
  live: readonly Lock[],
  request: ReservationRequest,
  sizeOf: (patterns: readonly string[]) => number,
) {
  const held = live.reduce((sum, { patterns }) => sum + sizeOf(patterns ?? []), 0)
  return { held, asked: sizeOf(request.patterns) }
}

function lengthOf(patterns: readonly string[]): number {
  return patterns.reduce((sum, { length }) => sum + length, 0)
}
