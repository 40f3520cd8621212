/**
 * The lease: agent X holds R until T under a token. Every leased row carries these columns, and all the rules about
 * them are here. A lease alone does not guarantee mutual exclusion of effects; only checking the token where the effect
 * happens does.
 */
import { HeldError, InvalidError, LeaseLostError } from '../errors.ts'

export interface LeaseColumns {
  readonly agent: string | null
  /** The process that renews the lease (bound), or null (manual). */
  readonly instance: string | null
  /** Fencing number of the last grant. It only grows, even after the lease has ended. */
  readonly token: number
  readonly grantedAt: number | null
  readonly renewedAt: number | null
  readonly expiresAt: number | null
  readonly leaseMs: number | null
}

export interface Holder {
  readonly agent: string
  readonly instance: string | null
  /** The machine of a holder that has no instance, if known. */
  readonly holderHost?: string | null
}

export type LeaseStatus = 'live' | 'near' | 'expired' | 'stale'

export const maxLeaseMs = 24 * 60 * 60 * 1000

/**
 * When a lease counts as near its end, and when an expired one counts as stale. The caller chooses; both have defaults.
 */
export interface Thresholds {
  readonly nearMs?: number | undefined
  readonly staleMs?: number | undefined
}

export const thresholds = Object.freeze({ nearMs: 5 * 60 * 1000, staleMs: 5 * 60 * 1000 })

export const noLease = {
  agent: null,
  instance: null,
  grantedAt: null,
  renewedAt: null,
  expiresAt: null,
  leaseMs: null,
} as const

/** 0 is allowed and lapses at the next millisecond; anything else outside 0..24 h is a caller's mistake. */
export function assertLeaseMs(leaseMs: number): void {
  if (Number.isSafeInteger(leaseMs) && leaseMs >= 0 && leaseMs <= maxLeaseMs) return
  throw new InvalidError({
    what: `a lease of ${leaseMs} ms was asked for`,
    next: `ask for a whole number of milliseconds from 0 to ${maxLeaseMs} (24 h)`,
    facts: { leaseMs },
  })
}

/**
 * The shortest lease a process can renew in time. Its thread notices a new lease within 100 ms and renews it after a
 * third of its length, and the holder gives up after two thirds. That leaves 150 ms for a renewal.
 */
const renewableLeaseMsMin = 500

/**
 * Only for leases that a process renews; one that nobody renews may be as short as the caller likes. A value that is
 * not a valid length is left for the operation to refuse.
 */
export function assertRenewable(leaseMs: unknown): void {
  if (typeof leaseMs !== 'number' || !(leaseMs >= 0) || leaseMs >= renewableLeaseMsMin) return
  throw new InvalidError({
    what: `a lease of ${leaseMs} ms cannot be renewed in time`,
    next: `ask for at least ${renewableLeaseMsMin} ms; only a lease that nobody renews can be shorter`,
    facts: { leaseMs, leaseMsMin: renewableLeaseMsMin },
  })
}

/** Strictly after: at `expiresAt` itself the lease is still valid. A held row without an expiry has lapsed. */
export function isExpired(row: Pick<LeaseColumns, 'expiresAt'>, now: number): boolean {
  return row.expiresAt === null || row.expiresAt < now
}

/** The time at which leases are judged, and whether the clock can be trusted. */
export interface Judging {
  readonly now: number
  /** The clock belongs to another server or was moved, so nobody may lose a lease because of it. */
  readonly isDoubtful?: boolean | undefined
  /** How long the store spares a lease that nobody renews after it expires. */
  readonly manualGraceMs?: number | undefined
}

type Lapsing = Pick<LeaseColumns, 'expiresAt' | 'instance'> & { readonly delayedSince?: number | null }

/** Whether someone else may take what the lease protects. */
export function hasLapsed(row: Lapsing, { now, isDoubtful, manualGraceMs }: Judging): boolean {
  return !isDoubtful && isExpired(row, now - spareMs(row, manualGraceMs))
}

/** When it may be taken from its holder: when it expires, or when its grace period is over. */
export function lapsesAt(row: Lapsing, { manualGraceMs }: Pick<Judging, 'manualGraceMs'>): number {
  return (row.expiresAt ?? 0) + spareMs(row, manualGraceMs)
}

/** How much longer the store spares a lease that has expired; 0 once it may be taken. */
export function sparedForMs(row: Lapsing, at: Pick<Judging, 'now' | 'manualGraceMs'>): number {
  return isExpired(row, at.now) ? Math.max(0, lapsesAt(row, at) - at.now) : 0
}

/** A process that renews needs no grace, and a lock in its delay after a loss has no holder to spare. */
function spareMs({ instance, delayedSince = null }: Lapsing, manualGraceMs = 0): number {
  return instance === null && delayedSince === null ? manualGraceMs : 0
}

export function leaseStatus(row: LeaseColumns, now: number, given: Thresholds = {}): LeaseStatus {
  const { nearMs = nearMsOf(row), staleMs = thresholds.staleMs } = given
  if (row.expiresAt === null || row.expiresAt < now - staleMs) return 'stale'
  if (row.expiresAt < now) return 'expired'
  return row.expiresAt < now + nearMs ? 'near' : 'live'
}

/** A third of a short lease; otherwise a 30 s lease would always count as near its end. */
function nearMsOf({ leaseMs }: LeaseColumns): number {
  return Math.min(thresholds.nearMs, (leaseMs ?? thresholds.nearMs) / 3)
}

/**
 * Tokens of one resource only grow. Each is above the previous one, above the floor left by deleted rows, and at least
 * the clock in microseconds, which keeps them growing across a restored backup. Safe integers until the year 2255.
 */
export function nextToken(previous: number, floor: number, now: number): number {
  return Math.max(previous + 1, floor + 1, now * 1000)
}

export interface Granting {
  readonly leaseMs: number
  readonly now: number
  /** Token of the last grant of this resource; 0 if there was none. */
  readonly previous: number
  readonly floor: number
}

export function grant(holder: Holder, { leaseMs, now, previous, floor }: Granting) {
  assertLeaseMs(leaseMs)
  return {
    agent: holder.agent,
    instance: holder.instance,
    token: nextToken(previous, floor, now),
    grantedAt: now,
    renewedAt: now,
    expiresAt: now + leaseMs,
    leaseMs,
  }
}

/** The new expiry is now + lease. Renewing never shortens a lease. */
export function renew<Row extends LeaseColumns>(row: Row, now: number, leaseMs = row.leaseMs ?? 0): Row {
  assertLeaseMs(leaseMs)
  return { ...row, renewedAt: now, expiresAt: Math.max(row.expiresAt ?? 0, now + leaseMs), leaseMs }
}

const maxExtensionMs = 60 * 60 * 1000

/**
 * Adds to the expiry, so it always grows; capped at now + the larger of the extra time and 1 h. A lease that has lapsed
 * starts again from now: adding to an end in the past could leave it lapsed. Whether it may still be extended is for the
 * caller to decide.
 */
export function extend<Row extends LeaseColumns>(
  row: Row,
  now: number,
  extraMs: number,
): Row & { capped: boolean } {
  assertLeaseMs(extraMs)
  const wanted = Math.max(row.expiresAt ?? 0, now) + extraMs
  const cap = now + Math.max(extraMs, maxExtensionMs)
  // Never below the current expiry: the cap must not turn an extension into a cut.
  const expiresAt = Math.max(row.expiresAt ?? 0, Math.min(wanted, cap))
  return { ...row, renewedAt: now, expiresAt, capped: wanted > cap }
}

/** A holder counts from before its request and gives up this long before the store would reclaim the lease. */
export function safetyMarginMs(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / 10, 1000), leaseMs / 3)
}

/**
 * Renews every third of the lease, so that two attempts may fail before the holder has to give up. A long lease is
 * meant to outlast a store outage, so it is renewed every quarter: of 60 s, at most 15 s have passed and 6 s are
 * margin, which leaves 39 s for a failover.
 */
export function renewEveryMs(leaseMs: number): number {
  return Math.min(leaseMs / 3, Math.max(leaseMs / 4, 10_000))
}

/**
 * Whether this is the holder calling again: the same process or, for a manual lease, the same token. A process may have
 * been registered for the holder after its manual lease was granted.
 */
export function isSameHolder(row: LeaseColumns, caller: Holder & { token?: number | undefined }): boolean {
  if (row.agent !== caller.agent) return false
  return row.instance === null ? row.token === caller.token : row.instance === caller.instance
}

export function lastSignOfLife(row: LeaseColumns): number {
  return Math.max(row.grantedAt ?? 0, row.renewedAt ?? 0)
}

/** Who acts on a lease, and under which grant it claims to act. */
export interface Claimant {
  readonly agent: string
  readonly token: number | undefined
}

/** Anyone who reads a row sees its token, so the token alone proves nothing: the agent has to match the holder too. */
export function isHolder(row: LeaseColumns, { agent, token }: Claimant): boolean {
  return row.token === token && !isAnothers(row, agent)
}

/** A damaged row that names no holder does not belong to another agent. */
function isAnothers(row: LeaseColumns, agent: string): boolean {
  return row.agent !== null && row.agent !== agent
}

/** Checked after the token: a caller that lost the lease must stop, whatever name it acts under. */
export function assertSameAgent(row: LeaseColumns, agent: string, subject: string): void {
  if (!isAnothers(row, agent)) return
  throw new HeldError(
    { subject, holder: row.agent as string, expiresAt: row.expiresAt },
    `only ${row.agent} can do this under that token; act as that agent, or wait until its lease ends`,
  )
}

/**
 * Guards every write by a holder: first its token, then its agent. A lapsed lease that nobody has reclaimed still
 * counts, and is reported as late. Once reclaimed, released or granted again, it no longer counts.
 */
export function assertHolder(
  row: LeaseColumns,
  options: Claimant & {
    subject: string
    held: boolean
    now: number
    goneBecause?: string
    /** Version of the row, for callers that log what they found. */
    version?: number
  },
): { late: boolean } {
  if (options.held && options.token === undefined) {
    throw new HeldError(
      { subject: options.subject, holder: row.agent ?? 'an unknown agent', expiresAt: row.expiresAt },
      'give the token of your grant, or wait until the lease ends',
    )
  }
  if (options.held && row.token === options.token) {
    assertSameAgent(row, options.agent, options.subject)
    return { late: isExpired(row, options.now) }
  }
  throw new LeaseLostError({
    subject: options.subject,
    token: options.token ?? null,
    currentToken: row.token,
    holder: options.held ? row.agent : null,
    reason: options.held ? 'it was granted again' : (options.goneBecause ?? 'it was released or reclaimed'),
    ...(options.version === undefined ? {} : { currentVersion: options.version }),
  })
}
