/** Escalation: what happens to a message that its recipients did not answer in time. */
import { createDelivery, endUnanswered, hasGivenUp, isOpen, neverSent, wasTried } from './delivery.ts'
import type { Clocks } from './item.ts'
import { changeDeliveries, closeThread, type Escalation, isInReach, type Thread } from './message.ts'
import { escalationOf } from './message-damage.ts'
import type { Recipient } from './recipient.ts'
import type { EscalationLevel } from './redelivery-policy.ts'

/** Marks deliveries whose wait has ended as unanswered. */
export function giveUp(thread: Thread, at: Clocks): Thread {
  return changeDeliveries(thread, (delivery) =>
    hasGivenUp(delivery, at.now) ? endUnanswered(delivery, at.wall) : delivery,
  )
}

/** True if the quorum is out of reach, or if the time of an escalation level is over. */
export function shouldEscalate(thread: Thread, now: number): boolean {
  const { message } = thread
  if (message.state === 'pending') return !isInReach(thread)
  return message.state === 'escalated' && message.dueAt !== null && message.dueAt <= now
}

/**
 * Moves to the next level, once: those it names are notified by deliveries of the same message. After the last level
 * the message becomes a dead letter. `find` resolves the names.
 */
export function escalate(
  thread: Thread,
  find: (to: EscalationLevel['to']) => readonly Recipient[],
  at: Clocks,
): Thread {
  const { message, deliveries } = thread
  const next = message.policy.ladder[message.level]
  const recipients = next ? find(next.to) : []
  if (!next || recipients.length === 0) return endUnansweredThread(thread, at.wall)
  const level = message.level + 1
  const made = recipients.map((recipient, index) => {
    const of = { message: message.id, number: deliveries.length + index, level, priority: message.priority }
    return createDelivery(of, recipient, { nextDueAt: at.now, givesUpAt: null }, at.wall)
  })
  return {
    message: {
      ...message,
      state: 'escalated',
      level,
      dueAt: at.now + next.waitMs,
      escalation: escalationOf(message) ?? { at: at.wall, unanswered: unanswered(thread) },
      version: message.version + 1,
    },
    deliveries: [...deliveries, ...made],
  }
}

/** Nobody answered on any level. If the message was never sent, its note says why. */
function endUnansweredThread(thread: Thread, wall: number): Thread {
  const { message, deliveries } = closeThread(
    changeDeliveries(thread, (delivery) => (isOpen(delivery) ? endUnanswered(delivery, wall) : delivery)),
    'dead',
    wall,
  )
  const unsentReason = deliveries.some(wasTried) ? null : neverSent(deliveries)
  return { message: { ...message, note: message.note ?? unsentReason }, deliveries }
}

function unanswered({ deliveries }: Thread): Escalation['unanswered'] {
  return deliveries
    .filter(({ level, state }) => level === 0 && state !== 'acked')
    .map(({ recipient, attempts }) => ({ recipient, attempts }))
}
