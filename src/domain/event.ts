/**
 * An event: what changed, written in the same transaction as the change. It carries the fields of the row that are new,
 * so that replaying an object's events in order rebuilds its row; only renewal times are not recorded.
 */
import type { Json } from './item.ts'

export const eventKinds = [
  'workflow.defined',
  'queue.created',
  'queue.changed',
  'queue.paused',
  'queue.resumed',
  'item.created',
  'item.imported',
  'item.updated',
  'item.resubmitted',
  'item.claimed',
  'item.moved',
  'item.rebased',
  'item.progressed',
  'item.completed',
  'item.merged',
  'item.failed',
  'item.released',
  'item.retried',
  'item.cancelled',
  'item.reclaimed',
  'item.quarantined',
  'item.unquarantined',
  'item.promoted',
  'item.unblocked',
  'item.prioritized',
  'item.extended',
  'item.removed',
  'item.refused',
  'item.expiring',
  'lock.acquired',
  'lock.imported',
  'lock.stolen',
  'lock.changed',
  'lock.extended',
  'lock.released',
  'lock.expired',
  'lock.refused',
  'lock.renewed',
  'lock.delayed',
  'lock.forced',
  'lock.transferred',
  'lock.expiring',
  'waiter.joined',
  'waiter.left',
  'progress.started',
  'progress.imported',
  'progress.recorded',
  'progress.paused',
  'progress.resumed',
  'progress.completed',
  'progress.failed',
  'progress.reopened',
  'progress.trimmed',
  'progress.removed',
  'outcome.recorded',
  'outcome.removed',
  'instance.started',
  'instance.ended',
  'instance.lost',
  'instance.died',
  'instance.removed',
  'state.set',
  'state.deleted',
  'message.created',
  'message.imported',
  'message.changed',
  'message.acked',
  'message.escalated',
  'message.dead',
  'message.cancelled',
  'message.redriven',
  'message.removed',
  'message.refused',
  'delivery.created',
  'delivery.claimed',
  'delivery.deferred',
  'delivery.sent',
  'delivery.failed',
  'delivery.released',
  'delivery.reclaimed',
  'delivery.read',
  'delivery.acked',
  'delivery.nacked',
  'delivery.progressed',
  'delivery.unanswered',
  'delivery.cancelled',
  'delivery.restarted',
  'delivery.removed',
  'delivery.expiring',
  'recipient.registered',
  'store.commits_lost',
] as const

export type EventKind = (typeof eventKinds)[number]
export const subjects = [
  'workflow',
  'queue',
  'item',
  'lock',
  'waiter',
  'progress',
  'outcome',
  'instance',
  'state',
  'message',
  'delivery',
  'recipient',
  'store',
] as const
export type Subject = (typeof subjects)[number]

export interface StoredEvent {
  readonly seq: number
  readonly at: number
  readonly kind: EventKind
  readonly subject: Subject
  readonly id: string
  readonly queue: string | null
  /** Version of the object after the change; null for a remark that changed nothing. */
  readonly version: number | null
  readonly agent: string | null
  readonly token: number | null
  /** The fields that changed, with their new values; null if the object was removed or nothing changed. */
  readonly change: Readonly<Record<string, unknown>> | null
  readonly detail: Readonly<Record<string, Json | undefined>> | null
}

/** Renewal times of leases, and which update of a document goes first; a replay cannot know them. */
export const renewalFields: ReadonlySet<string> = new Set([
  'preferred',
  'preferredUntil',
  'renewedAt',
  'expiresAt',
  'leaseMs',
  'beatAt',
  'seenAt',
  'sweptAt',
])

/** The object is gone, unless the event carries a change: a lock taken by force may be kept for its delay. */
const removals: ReadonlySet<EventKind> = new Set([
  'item.removed',
  'lock.released',
  'lock.expired',
  'lock.forced',
  'waiter.left',
  'progress.removed',
  'outcome.removed',
  'instance.removed',
  'state.deleted',
  'message.removed',
  'delivery.removed',
])

/** An object rebuilt from its events: the fields that were ever set. */
export type Image = Readonly<Record<string, unknown>>

/** Copies of the tables' rows, rebuilt from events, keyed by subject and id. */
export type Replica = Map<string, Image>

export function replicaKey(event: Pick<StoredEvent, 'subject' | 'id'>): string {
  return `${event.subject}:${event.id}`
}

/** An object after one more of its events; null once it is removed. */
export function foldEvent(image: Image | null, event: Pick<StoredEvent, 'kind' | 'change'>): Image | null {
  if (event.change) return { ...image, ...event.change }
  return removals.has(event.kind) ? null : image
}

/** Applies one event to a replica. */
export function replay(replica: Replica, event: StoredEvent): void {
  const key = replicaKey(event)
  const image = foldEvent(replica.get(key) ?? null, event)
  if (image === null) replica.delete(key)
  else replica.set(key, image)
}
