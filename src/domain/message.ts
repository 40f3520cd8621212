/**
 * A message that must be acknowledged, and its deliveries. Every operation takes the whole thread and returns it as it
 * is afterwards; unchanged parts are the same objects. The message waits until enough recipients have answered (its
 * quorum). When the remaining recipients can no longer reach the quorum, it escalates level by level and ends as a dead
 * letter.
 */
import {
  closeDelivery,
  countAttempt,
  createDelivery,
  type Delivery,
  isOpen,
  postpone,
  restartDelivery,
} from './delivery.ts'
import type { Clocks } from './item.ts'
import { inboxAdapter, type Recipient } from './recipient.ts'
import { type RedeliveryPolicy, schedule } from './redelivery-policy.ts'

/** `pending` is shown as queued until the first delivery has been made, then as sent. */
export type MessageState = 'pending' | 'acked' | 'escalated' | 'acked_late' | 'dead' | 'cancelled'

export interface Message {
  /** The same for every attempt and every recipient. */
  readonly id: string
  readonly sender: string
  readonly type: string
  /** JSON text. */
  readonly content: string
  readonly context: string | null
  /** The message this one replies to. */
  readonly parent: string | null
  readonly priority: number
  readonly state: MessageState
  /** Number of answers required. */
  readonly quorum: number
  /** Highest escalation level reached. */
  readonly level: number
  readonly policy: RedeliveryPolicy
  /** Lease clock: when the next level is reached; null while recipients still have time. */
  readonly dueAt: number | null
  /**
   * Lease clock: the time slot the escalation limit assigned to it. Valid only while the message is due at exactly that
   * time.
   */
  readonly allowedAt: number | null
  readonly escalation: Escalation | null
  /** A remark by an operator or an import. */
  readonly note: string | null
  readonly createdAt: number
  readonly closedAt: number | null
  readonly version: number
}

/** Who had not answered when it escalated. */
export interface Escalation {
  /** When, ms since 1970. */
  readonly at: number
  /** Who had not answered, and after how many attempts. */
  readonly unanswered: readonly { readonly recipient: string; readonly attempts: number }[]
}

/** A message with all its deliveries, in the order they were created. */
export interface Thread {
  readonly message: Message
  readonly deliveries: readonly Delivery[]
}

export type NewMessage = Pick<
  Message,
  'id' | 'sender' | 'type' | 'content' | 'context' | 'parent' | 'priority' | 'quorum' | 'policy'
>

/**
 * A `firstAt` later than now means that the sender exceeded its limit and has to wait. Without a limit, writing the row
 * is all it takes to reach an inbox, so the first attempt is made here.
 */
export function createMessage(
  request: NewMessage,
  recipients: readonly Recipient[],
  at: Clocks & { firstAt: number },
): Thread {
  const message: Message = {
    ...request,
    state: 'pending',
    level: 0,
    dueAt: null,
    allowedAt: null,
    escalation: null,
    note: null,
    createdAt: at.wall,
    closedAt: null,
    version: 1,
  }
  const due = schedule(request.policy, 0, at.firstAt)
  const deliveries = recipients.map((recipient, number) => {
    const of = { message: message.id, number, level: 0, priority: message.priority }
    const made = createDelivery(of, recipient, { nextDueAt: at.firstAt, givesUpAt: due.givesUpAt }, at.wall)
    const isThere =
      at.firstAt <= at.now && recipient.adapter === inboxAdapter && recipient.deliveriesPerMinute === 0
    return isThere ? { ...countAttempt(made, request.policy, { outcome: 'sent' }, at), version: 1 } : made
  })
  return { message, deliveries }
}

export interface Imported {
  readonly attempts: number
  readonly dueInMs: number
  readonly note: string | null
  /** Wall time at which it was sent. */
  readonly sentAt: number
}

/** A message that another program had already sent: it continues where it left off. */
export function importMessage(
  request: NewMessage,
  recipient: Recipient,
  { attempts, dueInMs, note, sentAt }: Imported,
  at: Clocks,
): Thread {
  const { message, deliveries } = createMessage(request, [recipient], { ...at, firstAt: at.now + 1 })
  const [made] = deliveries as [Delivery]
  const sent: Delivery = { ...made, attempts, state: 'sent', sentAt }
  const nextAt = at.now + dueInMs
  const later = postpone(sent, request.policy, { nextAt, note: null, progressAt: null })
  return { message: { ...message, note, createdAt: sentAt }, deliveries: [{ ...later, version: 1 }] }
}

export function cancel(thread: Thread, note: string | null, wall: number): Thread {
  const { message, deliveries } = closeThread(thread, 'cancelled', wall)
  return { message: { ...message, note: note ?? message.note }, deliveries }
}

/** Sends a dead letter again to everyone who has not acknowledged it, starting from the first attempt. */
export function redrive(thread: Thread, note: string | null, now: number): Thread {
  const { message } = thread
  const again = changeDeliveries(thread, (delivery) =>
    delivery.level === 0 && delivery.state !== 'acked'
      ? restartDelivery(delivery, message.policy, now)
      : delivery,
  )
  return {
    ...again,
    message: {
      ...message,
      state: 'pending',
      level: 0,
      dueAt: null,
      escalation: null,
      note: note ?? message.note,
      closedAt: null,
      version: message.version + 1,
    },
  }
}

/** Ends the message and every open delivery. */
export function closeThread(
  { message, deliveries }: Thread,
  state: Extract<MessageState, 'acked' | 'acked_late' | 'dead' | 'cancelled'>,
  wall: number,
): Thread {
  return {
    message: { ...message, state, dueAt: null, closedAt: wall, version: message.version + 1 },
    deliveries: deliveries.map((delivery) =>
      isOpen(delivery) ? closeDelivery(delivery, 'cancelled', { wall }) : delivery,
    ),
  }
}

/** Sets when to look at the message next; null: its deliveries determine that. */
export function due(thread: Thread, dueAt: number | null): Thread {
  return { ...thread, message: { ...thread.message, dueAt, version: thread.message.version + 1 } }
}

/**
 * Too many escalations at once: escalate later, never drop it. Its time slot is reserved, so it is put off only once.
 */
export function putOff(thread: Thread, until: number): Thread {
  const { message } = due(thread, until)
  return { ...thread, message: { ...message, allowedAt: until } }
}

export function countAcked({ deliveries }: Thread): number {
  return deliveries.filter(({ level, state }) => level === 0 && state === 'acked').length
}

/** Whether the original recipients can still reach the quorum. */
export function isInReach(thread: Thread): boolean {
  const asked = thread.deliveries.filter((delivery) => delivery.level === 0 && isOpen(delivery))
  return countAcked(thread) + asked.length >= thread.message.quorum
}

export function changeDeliveries(thread: Thread, act: (delivery: Delivery) => Delivery): Thread {
  return { ...thread, deliveries: thread.deliveries.map(act) }
}
