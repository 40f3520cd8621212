/** What an observer can say about a held lease: how long it still runs or is overdue, and what looks wrong with it. */
import { isExpired, type LeaseColumns, lastSignOfLife, leaseStatus, type Thresholds } from './lease.ts'

export interface Watched {
  readonly isExpired: boolean
  readonly isNear: boolean
  readonly isStale: boolean
  /** Its holder is proven dead, whether the lease has expired or not. */
  readonly isOrphaned: boolean
  /**
   * No renewal, progress or update for the length of a whole lease. Only reported; nobody loses a lease because of it.
   */
  readonly isSuspect: boolean
  readonly remainingMs: number
  readonly expiredMs: number
  /** Since it was granted. */
  readonly elapsedMs: number
}

export interface Look {
  /** Lease clock. */
  readonly now: number
  /** How long ago the leased object last changed; null if unknown. */
  readonly unchangedForMs: number | null
  readonly holderIsDead: boolean
  readonly thresholds: Thresholds
}

export function watchLease(row: LeaseColumns, look: Look): Watched {
  const { now } = look
  const status = leaseStatus(row, now, look.thresholds)
  const expired = isExpired(row, now)
  const expiresAt = row.expiresAt ?? now
  const silentForMs = Math.min(now - lastSignOfLife(row), look.unchangedForMs ?? Number.POSITIVE_INFINITY)
  return {
    isExpired: expired,
    isNear: status === 'near',
    isStale: status === 'stale',
    isOrphaned: look.holderIsDead,
    isSuspect: silentForMs > (row.leaseMs ?? 0),
    remainingMs: Math.max(0, expiresAt - now),
    expiredMs: Math.max(0, now - expiresAt),
    elapsedMs: row.grantedAt === null ? 0 : now - row.grantedAt,
  }
}
