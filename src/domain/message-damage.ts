/**
 * A message whose row was damaged behind our back: a part of it may be missing or mean nothing. What can do without
 * goes on; a message that cannot be sent ends as a dead letter that says why. It never stops another.
 */
import type { Json } from './item.ts'
import { closeThread, type Escalation, type Message, type Thread } from './message.ts'
import { isPolicy, noPolicy, type RedeliveryPolicy } from './redelivery-policy.ts'

/** Why it cannot be sent, or null. */
export function damageOf(message: Message): string | null {
  if (!isPolicy(message.policy)) return 'its policy cannot be read'
  return readContent(message) === undefined ? 'its content cannot be read' : null
}

export function policyOf({ policy }: Message): RedeliveryPolicy {
  return isPolicy(policy) ? policy : noPolicy
}

/** Undefined when it cannot be read. */
export function readContent({ content }: Message): Json | undefined {
  try {
    return JSON.parse(content) as Json
  } catch {
    return undefined
  }
}

/** Lost, it is made again when the message next escalates. */
export function escalationOf({ escalation }: Message): Escalation | null {
  return Array.isArray(escalation?.unanswered) ? escalation : null
}

export function endDamaged(thread: Thread, damage: string, wall: number): Thread {
  const { message, deliveries } = closeThread(thread, 'dead', wall)
  return { message: { ...message, note: damage }, deliveries }
}
