/**
 * A delivery: one message on its way to one recipient. Sending is an effect outside any transaction, so a sender claims
 * the delivery under a lease, sends it, and records the attempt under the token of that lease. An answer ends the
 * lease: recording a retry that was in flight is then refused, and the answer stands. If a sender dies between sending
 * and recording, the same attempt happens twice, under the same id.
 */
import type { Clocks } from './item.ts'
import { assertHolder, type Claimant, grant, type Holder, type LeaseColumns, noLease } from './lease.ts'
import { inboxAdapter, type Recipient } from './recipient.ts'
import { type RedeliveryPolicy, schedule } from './redelivery-policy.ts'

export type DeliveryState = 'queued' | 'sent' | 'failed' | 'acked' | 'refused' | 'unanswered' | 'cancelled'

export interface Delivery extends LeaseColumns {
  /** The message's id and a number. */
  readonly id: string
  readonly message: string
  /** 0: a recipient of the message. Higher: notified because nobody answered. */
  readonly level: number
  readonly recipient: string
  readonly adapter: string
  readonly priority: number
  readonly state: DeliveryState
  /** Recorded attempts, successful or not. */
  readonly attempts: number
  /** Senders lost since the last recorded attempt. */
  readonly crashes: number
  /** Lease clock. Null while it is being sent, and once every attempt has been made. */
  readonly nextDueAt: number | null
  /**
   * Lease clock: the time slot a rate limit assigned to it. Valid only while the delivery is due at exactly that time.
   */
  readonly allowedAt: number | null
  /** Lease clock: when the wait for an answer ends. */
  readonly givesUpAt: number | null
  readonly sentAt: number | null
  readonly readAt: number | null
  readonly ackedAt: number | null
  readonly progressAt: number | null
  /** What the recipient said: why it refused, or how far along it is. */
  readonly note: string | null
  /** Why the last attempt failed. */
  readonly lastError: string | null
  readonly createdAt: number
  readonly closedAt: number | null
  readonly version: number
}

/** A delivery that kills every sender must not be retried forever: the third loss counts as a failed attempt. */
export const maxSendCrashes = 3

const atRest = { ...noLease, nextDueAt: null, givesUpAt: null } as const

export function createDelivery(
  { number, ...of }: { message: string; number: number; level: number; priority: number },
  recipient: Recipient,
  due: { nextDueAt: number; givesUpAt: number | null },
  wall: number,
): Delivery {
  return {
    ...noLease,
    ...of,
    ...due,
    id: `${of.message}/${number}`,
    recipient: recipient.name,
    adapter: recipient.adapter,
    state: 'queued',
    attempts: 0,
    crashes: 0,
    token: 0,
    allowedAt: null,
    sentAt: null,
    readAt: null,
    ackedAt: null,
    progressAt: null,
    note: null,
    lastError: null,
    createdAt: wall,
    closedAt: null,
    version: 1,
  }
}

export function isOpen(delivery: Delivery): boolean {
  return delivery.closedAt === null
}

export function claimDelivery(delivery: Delivery, holder: Holder, leaseMs: number, now: number): Delivery {
  // Rows of this table never come back under the same id, so their tokens need no floor.
  const lease = grant(holder, { leaseMs, now, previous: delivery.token, floor: 0 })
  return { ...delivery, ...lease, nextDueAt: null, allowedAt: null, version: delivery.version + 1 }
}

export type Attempt =
  | { readonly outcome: 'sent' }
  | { readonly outcome: 'failed'; readonly error: string }
  /** The sender gave it back without sending it. */
  | { readonly outcome: 'released' }

/** Records what the lease holder reports. Throws LEASE_LOST if an answer came first or another sender took over. */
export function recordAttempt(
  delivery: Delivery,
  { agent, token }: Claimant,
  policy: RedeliveryPolicy,
  attempt: Attempt,
  at: Clocks,
): Delivery {
  assertHolder(delivery, {
    subject: `delivery ${delivery.id}`,
    held: delivery.agent !== null,
    agent,
    token,
    now: at.now,
    version: delivery.version,
    goneBecause: delivery.closedAt === null ? 'it was reclaimed or answered' : `it is ${delivery.state}`,
  })
  if (attempt.outcome === 'released') return giveBackDelivery(delivery, at.now)
  return countAttempt(delivery, policy, attempt, at)
}

/** Counts one more attempt and schedules what comes next. */
export function countAttempt(
  delivery: Delivery,
  policy: RedeliveryPolicy,
  attempt: Exclude<Attempt, { outcome: 'released' }>,
  at: Clocks,
): Delivery {
  const attempts = delivery.attempts + 1
  const isSent = attempt.outcome === 'sent'
  return {
    ...delivery,
    ...noLease,
    ...dueAfter(delivery, policy, attempts, isSent, at.now),
    state: attempt.outcome,
    attempts,
    crashes: 0,
    sentAt: isSent ? at.wall : delivery.sentAt,
    lastError: isSent ? null : attempt.error,
    version: delivery.version + 1,
  }
}

/** An escalation is sent until it has arrived once; the level sets how long it has to be answered. */
function dueAfter(
  delivery: Delivery,
  policy: RedeliveryPolicy,
  attempts: number,
  isSent: boolean,
  now: number,
): Pick<Delivery, 'nextDueAt' | 'givesUpAt'> {
  const next = schedule(policy, attempts, now)
  if (delivery.level === 0) return next
  return { nextDueAt: isSent ? null : next.nextDueAt, givesUpAt: null }
}

/**
 * Too many deliveries to this recipient: send it later, never drop it. Its time slot is reserved, so it is deferred
 * only once.
 */
export function deferDelivery(delivery: Delivery, until: number): Delivery {
  const deferredMs = until - (delivery.nextDueAt ?? until)
  const givesUpAt = delivery.givesUpAt === null ? null : delivery.givesUpAt + deferredMs
  return { ...delivery, nextDueAt: until, allowedAt: until, givesUpAt, version: delivery.version + 1 }
}

/** When it is sent again if there is no answer; null if never. For an attempt in flight, as if it ended now. */
export function nextAttemptAt(delivery: Delivery, policy: RedeliveryPolicy, now: number): number | null {
  const { agent, attempts, nextDueAt } = delivery
  return agent === null ? nextDueAt : schedule(policy, attempts + 1, now).nextDueAt
}

/** Whether it was deferred to exactly this time. */
export function hasAllowance(row: { readonly allowedAt: number | null }, dueAt: number | null): boolean {
  return row.allowedAt !== null && row.allowedAt === dueAt
}

/** It cannot be sent at all. Nobody tries, and the wait for an answer ends now, so that its message is settled next. */
export function stopDelivery(delivery: Delivery, error: string, now: number): Delivery {
  return { ...delivery, nextDueAt: null, givesUpAt: now, lastError: error, version: delivery.version + 1 }
}

/** Its message is gone, so nobody can answer it anymore. */
export function strandDelivery(delivery: Delivery, wall: number): Delivery {
  return { ...closeDelivery(delivery, 'cancelled', { wall }), lastError: strandedBecause }
}

export const strandedBecause = 'its message is gone'

/** The sender was lost: the same attempt is due again immediately. */
export function reclaimDelivery(delivery: Delivery, now: number): Delivery {
  return { ...giveBackDelivery(delivery, now), crashes: delivery.crashes + 1 }
}

/** The sender shut down cleanly: the same attempt is due again immediately, and no crash is counted. */
export function giveBackDelivery(delivery: Delivery, now: number): Delivery {
  return { ...delivery, ...noLease, nextDueAt: now, version: delivery.version + 1 }
}

/** Ends the delivery, and the lease of the process that is sending it. */
export function closeDelivery(
  delivery: Delivery,
  state: 'acked' | 'refused' | 'unanswered' | 'cancelled',
  at: { wall: number; note?: string | null },
): Delivery {
  return {
    ...delivery,
    ...atRest,
    state,
    ackedAt: state === 'acked' ? at.wall : delivery.ackedAt,
    note: at.note ?? delivery.note,
    closedAt: at.wall,
    version: delivery.version + 1,
  }
}

/** The wait for an answer is over. If nobody even tried to send it, the error says why. */
export function endUnanswered(delivery: Delivery, wall: number): Delivery {
  const ended = closeDelivery(delivery, 'unanswered', { wall })
  return wasTried(delivery) || delivery.lastError !== null
    ? ended
    : { ...ended, lastError: neverSent([delivery]) }
}

export function wasTried({ attempts, crashes }: Delivery): boolean {
  return attempts + crashes > 0
}

/** Why none of these was sent. */
export function neverSent(deliveries: readonly Pick<Delivery, 'adapter'>[]): string {
  const adapters = [...new Set(deliveries.map(({ adapter }) => adapter))]
  const missing = adapters.filter((adapter) => adapter !== inboxAdapter).map((adapter) => `"${adapter}"`)
  return missing.length === 0
    ? 'it was never sent: no process was open to do so in time'
    : `it was never sent: no open process had the adapter ${missing.join(' or ')}`
}

export interface Postponement {
  /** When to send again if there is no answer by then; lease clock. */
  readonly nextAt: number
  readonly note: string | null
  /** Wall time of a progress report; null if the recipient only asked for another try. */
  readonly progressAt: number | null
}

/** The recipient asks for another try or for more time: the schedule continues from then. Ends a retry in flight. */
export function postpone(delivery: Delivery, policy: RedeliveryPolicy, asked: Postponement): Delivery {
  const { nextAt, note, progressAt } = asked
  return {
    ...delivery,
    ...noLease,
    ...postponed(delivery, policy, nextAt),
    progressAt: progressAt ?? delivery.progressAt,
    note: note ?? delivery.note,
    version: delivery.version + 1,
  }
}

function postponed(
  { level, attempts }: Delivery,
  policy: RedeliveryPolicy,
  nextAt: number,
): Pick<Delivery, 'nextDueAt' | 'givesUpAt'> {
  // A recipient notified by escalation that answers knows about the message; the level sets how long it may take.
  if (level > 0) return { nextDueAt: null, givesUpAt: null }
  const { nextDueAt, givesUpAt } = schedule(policy, attempts, nextAt)
  if (nextDueAt === null) return { nextDueAt, givesUpAt }
  return { nextDueAt: nextAt, givesUpAt: givesUpAt - (nextDueAt - nextAt) }
}

export function markRead(delivery: Delivery, wall: number): Delivery {
  return { ...delivery, readAt: wall, version: delivery.version + 1 }
}

/** Starts over at an operator's request. */
export function restartDelivery(delivery: Delivery, policy: RedeliveryPolicy, now: number): Delivery {
  return {
    ...delivery,
    ...schedule(policy, 0, now),
    state: 'queued',
    attempts: 0,
    crashes: 0,
    closedAt: null,
    version: delivery.version + 1,
  }
}

/** Whether the wait for an answer has ended. A delivery being sent right now may still be answered. */
export function hasGivenUp(delivery: Delivery, now: number): boolean {
  return delivery.givesUpAt !== null && delivery.givesUpAt <= now && delivery.agent === null
}
