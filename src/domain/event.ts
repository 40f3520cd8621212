/**
 * An event: what changed, written in the same transaction as the change. It carries the fields of the row that are new,
 * so that replaying an object's events in order rebuilds its row; only renewal times are not recorded.
 */
import type { Json } from './json.ts'

/** Every kind of event, and what happened. The reference page of events is made from this table. */
export const eventMeanings = {
  'workflow.defined': "A workflow of the program's own was defined.",
  'queue.created': 'A queue was created, by its first use or by a definition.',
  'queue.changed': 'The settings of a queue were changed.',
  'queue.paused': 'A queue was paused: nothing in it can be claimed.',
  'queue.resumed': 'A queue was resumed.',
  'item.created': 'An item or task was added.',
  'item.imported': 'An item or task was imported from another tool.',
  'item.updated': 'Fields of an item changed, but not its state.',
  'item.resubmitted': 'A closed item was submitted again.',
  'item.claimed': 'An item was claimed: it has a holder and a new token.',
  'item.moved': 'An item moved to another state of its workflow.',
  'item.rebased': 'A merge change was rebased onto its target.',
  'item.progressed': 'The holder recorded progress.',
  'item.completed': 'An item succeeded and is closed.',
  'item.merged': 'A merge change was merged and is closed.',
  'item.failed': 'An attempt failed. The item waits for its retry, or is closed if none is left.',
  'item.released': 'The holder gave an item back without an outcome.',
  'item.retried': 'A failed item was made claimable again.',
  'item.cancelled': 'An item was cancelled.',
  'item.reclaimed': 'An item was taken back from a dead or late holder.',
  'item.quarantined': 'An item lost its holder to a crash too often and can no longer be claimed.',
  'item.unquarantined': 'A quarantined item was released from quarantine.',
  'item.promoted': 'The delay of an item is over: it can be claimed.',
  'item.unblocked': 'The last item that this one waited for is closed.',
  'item.prioritized': 'The priority of an item was changed.',
  'item.extended': 'The holder of the processing lock extended the lease of an item.',
  'item.removed': 'An item was removed, by somebody or by retention.',
  'item.refused': 'A release by somebody who does not hold the item was refused. Nothing changed.',
  'item.expiring': 'The lease of an item is about to lapse. Nothing changed.',
  'lock.acquired': 'A lock or a reservation of paths was acquired.',
  'lock.imported': 'A lock was imported from another tool.',
  'lock.stolen': 'A lapsed slot of a lock was taken over by the next holder.',
  'lock.changed': 'A lock changed while it was held: its depth, its run or its reason.',
  'lock.extended': 'The holder extended the lease.',
  'lock.released': 'The holder released the lock.',
  'lock.expired': 'A lock was taken back from a dead or late holder.',
  'lock.refused': 'A release or claim by somebody who may not was refused. Nothing changed.',
  'lock.renewed': 'The holder renewed the lease by hand. Nothing else changed.',
  'lock.delayed': 'A lock lost its holder and stays closed for the delay that the holder had asked for.',
  'lock.forced': 'An operator took a lock from its holder by force.',
  'lock.transferred': 'A lock was handed to another agent under a new token.',
  'lock.expiring': 'The lease of a lock is about to lapse. Nothing changed.',
  'waiter.joined': 'Somebody joined the line for a lock.',
  'waiter.left': 'Somebody left the line: it got the lock, gave up or died.',
  'run.started': 'A run was started.',
  'run.imported': 'A run was imported from another tool.',
  'run.recorded': 'The outcomes of more items of a run were recorded.',
  'run.paused': 'A run was paused, by somebody or because its holder was lost.',
  'run.resumed': 'A run was resumed.',
  'run.completed': 'Every item of a run is done.',
  'run.failed': 'A run was given up.',
  'run.reopened': 'A completed run was opened again for more items.',
  'run.trimmed': 'Retention removed the outcomes of a completed run and kept its counts.',
  'run.removed': 'A run was removed, by somebody or by retention.',
  'outcome.recorded': 'The outcome of one item of a run was recorded.',
  'outcome.removed': 'The outcome of one item of a run was removed.',
  'instance.started': 'A process joined the fleet.',
  'instance.ended': 'A process left the fleet, or was silent for long and held nothing.',
  'instance.lost': 'A process lost some of what it held. Kept as evidence, in case it crashed.',
  'instance.died': 'A process was found dead.',
  'instance.removed': 'Retention removed the record of a process.',
  'state.set': 'A document was saved.',
  'state.deleted': 'A document was deleted.',
  'message.created': 'A message was sent.',
  'message.imported': 'A message was imported from another tool.',
  'message.changed': 'A message changed, but neither its state nor its level.',
  'message.acked': 'Enough recipients acknowledged a message.',
  'message.escalated': 'Nobody answered in time, and the next level is told.',
  'message.dead': 'A message ran out of retries and levels.',
  'message.cancelled': 'A message was cancelled.',
  'message.redriven': 'A dead message was sent again.',
  'message.removed': 'A message was removed, by somebody or by retention.',
  'message.refused': 'An answer from somebody who is not a recipient was refused. Nothing changed.',
  'delivery.created': 'A message has a new recipient.',
  'delivery.claimed': 'A process claimed the delivery in order to send it.',
  'delivery.deferred': 'The recipient gets too many messages at once, so this one waits.',
  'delivery.sent': "The message reached the recipient's inbox, webhook or command.",
  'delivery.failed': 'An attempt to send failed.',
  'delivery.released': 'A sender gave the delivery back without trying.',
  'delivery.reclaimed': 'A delivery was taken back from a dead or late sender.',
  'delivery.read': 'The recipient read the message.',
  'delivery.acked': 'The recipient acknowledged the message.',
  'delivery.nacked': 'The recipient refused the message.',
  'delivery.progressed': 'The recipient asked for more time or reported progress.',
  'delivery.unanswered': 'The recipient did not answer in time.',
  'delivery.cancelled': 'The delivery was cancelled with its message.',
  'delivery.restarted': 'The delivery is sent again from the start.',
  'delivery.removed': 'The delivery was removed with its message.',
  'delivery.expiring': 'The lease of a sender is about to lapse. Nothing changed.',
  'recipient.registered': 'A recipient registered, or changed how it is reached.',
  'store.commits_lost': 'The server no longer has changes that it had acknowledged.',
} as const satisfies Record<string, string>

export type EventKind = keyof typeof eventMeanings
export const eventKinds = Object.keys(eventMeanings) as readonly EventKind[]

export const subjects = [
  'workflow',
  'queue',
  'item',
  'lock',
  'waiter',
  'run',
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
  'run.removed',
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
