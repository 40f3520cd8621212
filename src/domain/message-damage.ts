/**
 * A message whose row was damaged outside our control: part of it may be missing or meaningless. Whatever can do
 * without that part goes on; a message that cannot be sent ends as a dead letter that says why. It never blocks another
 * message.
 */
import type { Json } from './json.ts'
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

/** Undefined if it cannot be read. */
export function readContent({ content }: Message): Json | undefined {
  try {
    return JSON.parse(content) as Json
  } catch {
    return undefined
  }
}

/** If lost, it is recreated when the message next escalates. */
export function escalationOf({ escalation }: Message): Escalation | null {
  return Array.isArray(escalation?.unanswered) ? escalation : null
}

export function endDamaged(thread: Thread, damage: string, wall: number): Thread {
  const { message, deliveries } = closeThread(thread, 'dead', wall)
  return { message: { ...message, note: damage }, deliveries }
}
