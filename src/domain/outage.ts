/**
 * A period in which a process could not reach its store. Nobody else could renew then either, so a lease that lapsed
 * during it, or before its holder had a chance to renew afterwards, says nothing about its holder.
 */
import { type LeaseColumns, renewEveryMs } from './lease.ts'

/** On the lease clock. */
export interface Outage {
  readonly since: number
  readonly until: number
}

export function lapsedInOutage(row: LeaseColumns, outage: Outage | null | undefined): boolean {
  if (outage == null || row.expiresAt === null) return false
  return row.expiresAt >= outage.since && row.expiresAt <= outage.until + renewEveryMs(row.leaseMs ?? 0)
}
