/** What looks wrong about a lease, in words. */
import type { LockStatus } from '../../operations/lease/watch.ts'
import { formatDuration } from '../duration.ts'

type Marks = Pick<LockStatus, 'isStale' | 'isOrphaned' | 'isNear' | 'isSuspect'>

export function marksOf({ isStale, isOrphaned, isNear, isSuspect }: Marks): string[] {
  const marks = [
    isStale && 'stale',
    isOrphaned && 'orphaned',
    isNear && 'near expiry',
    isSuspect && 'suspect',
  ]
  return marks.filter((mark) => mark !== false)
}

/** How much of it is left, or how long ago it expired. */
export function expiryText({
  isExpired,
  expiredMs,
  remainingMs,
}: Pick<LockStatus, 'isExpired' | 'expiredMs' | 'remainingMs'>): string {
  return isExpired ? `expired ${formatDuration(expiredMs)} ago` : `${formatDuration(remainingMs)} left`
}
