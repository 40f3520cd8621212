/**
 * Messages, deliveries and inboxes as callers see them. Due times are shown as time left, because no caller has the
 * lease clock.
 */
import * as z from 'zod'
import type { Delivery } from '../../domain/delivery.ts'
import { attemptId, letterMarker } from '../../domain/envelope.ts'
import { isExpired } from '../../domain/lease.ts'
import type { Message, Thread } from '../../domain/message.ts'
import { damageOf, escalationOf, policyOf, readContent } from '../../domain/message-damage.ts'
import { type OutputOf, view } from '../operation.ts'

const deliveryStates = ['queued', 'sent', 'failed', 'acked', 'refused', 'unanswered', 'cancelled'] as const
const messageStates = ['queued', 'sent', 'acked', 'escalated', 'acked_late', 'dead', 'cancelled'] as const

const deliveryView = view(() => ({
  id: z.string(),
  recipient: z.string(),
  level: z.number(),
  adapter: z.string(),
  state: z.enum(deliveryStates),
  attempts: z.number(),
  /** Time until it is sent again; null if it will not be. */
  dueInMs: z.number().nullable(),
  /** Time until it counts as unanswered. */
  givesUpInMs: z.number().nullable(),
  sentAt: z.number().nullable(),
  readAt: z.number().nullable(),
  ackedAt: z.number().nullable(),
  progressAt: z.number().nullable(),
  note: z.string().nullable(),
  error: z.string().nullable(),
  closedAt: z.number().nullable(),
  /** Who is sending it right now. */
  holder: z.string().nullable(),
  version: z.number(),
}))

const escalation = view(() => ({
  at: z.number(),
  unanswered: z.array(z.object({ recipient: z.string(), attempts: z.number() })),
}))

export const messageView = view(() => ({
  id: z.string(),
  sender: z.string(),
  type: z.string(),
  content: z.unknown(),
  context: z.string().nullable(),
  parent: z.string().nullable(),
  priority: z.number(),
  state: z.enum(messageStates),
  quorum: z.number(),
  level: z.number(),
  policy: z.object({
    delaysMs: z.array(z.number()),
    lastWaitMs: z.number(),
    ladder: z.array(z.object({ to: z.union([z.literal('*'), z.array(z.string())]), waitMs: z.number() })),
    escalationsPerMinute: z.number(),
  }),
  escalation: escalation().nullable(),
  note: z.string().nullable(),
  createdAt: z.number(),
  closedAt: z.number().nullable(),
  version: z.number(),
  deliveries: z.array(deliveryView()),
}))
/** A message with its outcome at each recipient. */
export type MessageView = OutputOf<typeof messageView>

export function viewThread({ message, deliveries }: Thread, now: number): MessageView {
  const policy = policyOf(message)
  return {
    id: message.id,
    sender: message.sender,
    type: message.type,
    content: readContent(message) ?? null,
    context: message.context,
    parent: message.parent,
    priority: message.priority,
    state: stateOf(message, deliveries),
    quorum: message.quorum,
    level: message.level,
    policy: {
      delaysMs: [...policy.delaysMs],
      lastWaitMs: policy.lastWaitMs,
      ladder: policy.ladder.map(({ to, waitMs }) => ({ to: to === '*' ? to : [...to], waitMs })),
      escalationsPerMinute: policy.escalationsPerMinute,
    },
    escalation: viewEscalation(message),
    note: damageOf(message) ?? message.note,
    createdAt: message.createdAt,
    closedAt: message.closedAt,
    version: message.version,
    deliveries: deliveries.map((delivery) => viewDelivery(delivery, now)),
  }
}

function viewEscalation(message: Message): MessageView['escalation'] {
  const escalation = escalationOf(message)
  return escalation && { at: escalation.at, unanswered: [...escalation.unanswered] }
}

function stateOf({ state }: Message, deliveries: readonly Delivery[]): MessageView['state'] {
  if (state !== 'pending') return state
  return deliveries.some(({ sentAt }) => sentAt !== null) ? 'sent' : 'queued'
}

function viewDelivery(delivery: Delivery, now: number): MessageView['deliveries'][number] {
  const { id, recipient, level, adapter, state, attempts, sentAt, readAt, ackedAt, progressAt } = delivery
  const { note, lastError, closedAt, version } = delivery
  const left = (at: number | null) => (at === null ? null : Math.max(0, at - now))
  return {
    id,
    recipient,
    level,
    adapter,
    state,
    attempts,
    dueInMs: left(delivery.nextDueAt),
    givesUpInMs: left(delivery.givesUpAt),
    sentAt,
    readAt,
    ackedAt,
    progressAt,
    note,
    error: lastError,
    closedAt,
    holder: delivery.agent !== null && !isExpired(delivery, now) ? delivery.agent : null,
    version,
  }
}

export const letterView = view(() => ({
  /** Id of the message; use it to answer. */
  id: z.string(),
  attemptId: z.string(),
  marker: z.string(),
  sender: z.string(),
  type: z.string(),
  content: z.unknown(),
  context: z.string().nullable(),
  parent: z.string().nullable(),
  priority: z.number(),
  attempt: z.number(),
  level: z.number(),
  escalation: escalation().nullable(),
  state: z.enum(deliveryStates),
  sentAt: z.number().nullable(),
  readAt: z.number().nullable(),
  ackedAt: z.number().nullable(),
  createdAt: z.number(),
}))
/** A message as it appears in an inbox. */
export type LetterView = OutputOf<typeof letterView>

export function viewLetter(message: Message, delivery: Delivery): LetterView {
  const attempt = Math.max(1, delivery.attempts)
  return {
    id: message.id,
    attemptId: attemptId(message.id, attempt),
    marker: letterMarker(message, delivery),
    sender: message.sender,
    type: message.type,
    content: readContent(message) ?? null,
    context: message.context,
    parent: message.parent,
    priority: message.priority,
    attempt,
    level: delivery.level,
    escalation: delivery.level > 0 ? viewEscalation(message) : null,
    state: delivery.state,
    sentAt: delivery.sentAt,
    readAt: delivery.readAt,
    ackedAt: delivery.ackedAt,
    createdAt: message.createdAt,
  }
}
