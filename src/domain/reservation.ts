/**
 * Reservations of paths: locks whose name is only an id and whose patterns say what they cover. Two of them are in
 * each other's way when some path matches both and at least one wants it alone. Advice among agents that ask; the
 * file system knows nothing of it.
 */
import { InvalidError } from '../errors.ts'
import { isExpired, isSameHolder } from './lease.ts'
import { type AcquireRequest, grantSlot, type Lock } from './lock.ts'
import { assertPattern, patternsOverlap } from './pattern.ts'

export const reservationPrefix = 'paths:'
export const patternsMax = 50
/** Each new reservation is compared with all there are. */
export const reservationsMax = 1000

export interface ReservationRequest extends Omit<AcquireRequest, 'slots'> {
  readonly patterns: readonly string[]
  readonly mode: 'shared' | 'exclusive'
  readonly user: string | null
}

export type Reservation =
  | { readonly outcome: 'granted'; readonly after: Lock }
  | { readonly outcome: 'held'; readonly by: readonly Lock[] }

/** All patterns or none. What the caller itself has reserved is not in its way. */
export function reservePaths(
  request: ReservationRequest,
  reserved: readonly Lock[],
  at: { now: number; wall: number; floor: number },
): Reservation {
  for (const pattern of request.patterns) assertPattern(pattern)
  const live = reserved.filter((lock) => !isExpired(lock, at.now))
  const by = live.filter(
    (lock) =>
      (request.mode === 'exclusive' || lock.mode === 'exclusive') &&
      !isSameHolder(lock, request) &&
      covers(lock, request.patterns),
  )
  if (by.length > 0) return { outcome: 'held', by }
  if (live.length >= reservationsMax) {
    throw new InvalidError({
      what: `${live.length} reservations are held, the limit`,
      next: 'release some, or reserve more with one pattern',
      facts: { reservationsMax },
    })
  }
  const { after } = grantSlot({ ...request, slots: 1 }, [], at)
  const { patterns, mode, user } = request
  return { outcome: 'granted', after: { ...after, patterns, mode, user, slots: 1 } }
}

/** Whether a reservation and some patterns (a plain path is one) have a path in common. */
export function covers(lock: Lock, patterns: readonly string[]): boolean {
  return (lock.patterns ?? []).some((mine) => patterns.some((other) => patternsOverlap(mine, other)))
}
