/** A message as handed to a recipient, whatever the transport. */
import type { Delivery } from './delivery.ts'
import type { Json } from './json.ts'
import type { Escalation, Message } from './message.ts'
import { escalationOf, policyOf, readContent } from './message-damage.ts'
import type { Recipient } from './recipient.ts'
import { isBroadcast } from './redelivery-policy.ts'
import { cutText, printable } from './text.ts'

/** A message as an adapter gets it. */
export interface Envelope {
  /** The same for every attempt: if it arrives twice, it is the same message. */
  readonly id: string
  /** Identifies one attempt; an answer may quote it instead of the id. */
  readonly attemptId: string
  /** Which attempt this is, counting from 1. */
  readonly attempt: number
  /** `[REQUIRES-ACK]`, `[RETRY-1]`, …, or `[UNACKNOWLEDGED]` if it escalated. */
  readonly marker: string
  /** Who sent it. */
  readonly sender: string
  /** Whom this delivery is for. */
  readonly recipient: string
  /** The address registered for the recipient with this adapter. */
  readonly address: string | null
  /** What kind of message it is. */
  readonly type: string
  /** What it says; any JSON. */
  readonly content: Json
  /** What it is about: a task, a conversation. */
  readonly context: string | null
  /** Id of the message it replies to. */
  readonly parent: string | null
  /** 0 (first) to 10 (last). */
  readonly priority: number
  /** 0, or the escalation level. */
  readonly level: number
  /** It goes to several recipients at once. */
  readonly broadcast: boolean
  /** Why it escalated; null if it has not. */
  readonly escalation: Escalation | null
  /** When it was sent, ms since 1970. */
  readonly createdAt: number
  /**
   * One line for people, without control characters and truncated if long; `content` has everything. It is still
   * untrusted text: display it, but never type it into a terminal or pass it to a shell.
   */
  readonly text: string
}

export function attemptId(message: string, attempt: number): string {
  return `${message}.${attempt}`
}

export function markerOf(level: number, attempt: number): string {
  if (level > 0) return '[UNACKNOWLEDGED]'
  return attempt > 1 ? `[RETRY-${attempt - 1}]` : '[REQUIRES-ACK]'
}

/** The marker shown in an inbox: a message nobody waits for anymore can still be answered. */
export function letterMarker({ state }: Pick<Message, 'state'>, delivery: Delivery): string {
  const { level, state: own, attempts } = delivery
  if (own === 'unanswered' && state === 'dead') return '[DEAD]'
  if (own === 'unanswered' && state === 'escalated' && level === 0) return '[ESCALATED]'
  return markerOf(level, attempts)
}

/** `attempt` counts from 1. */
export function envelopeOf(
  message: Message,
  delivery: Delivery,
  recipient: Recipient,
  attempt: number,
): Envelope {
  const { id, sender, type, context, parent, priority, createdAt } = message
  const content = readContent(message) ?? null
  const { level } = delivery
  const escalation = level > 0 ? escalationOf(message) : null
  const marker = markerOf(level, attempt)
  return {
    id,
    attemptId: attemptId(id, attempt),
    attempt,
    marker,
    sender,
    recipient: delivery.recipient,
    // The recipient may have registered another adapter since, and an address means something only to its own.
    address: recipient.adapter === delivery.adapter ? recipient.address : null,
    type,
    content,
    context,
    parent,
    priority,
    level,
    broadcast: isBroadcast(policyOf(message), level),
    escalation,
    createdAt,
    text: oneLine(
      `${marker} ${type} from ${sender}${unansweredBy(escalation)}: ${typeof content === 'string' ? content : message.content}`,
    ),
  }
}

const maxTextLength = 1000

/** Line breaks become spaces, as in the subject of an email. */
function oneLine(text: string): string {
  return printable(cutText(text, maxTextLength).replace(/[\s\u0085]+/gu, ' '))
}

function unansweredBy(escalation: Escalation | null): string {
  if (escalation === null) return ''
  const names = escalation.unanswered.map(
    ({ recipient, attempts }) => `${recipient} (${attempts} ${attempts === 1 ? 'attempt' : 'attempts'})`,
  )
  return `, not answered by ${names.join(', ')}`
}
