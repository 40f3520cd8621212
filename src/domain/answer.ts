/**
 * Answers from recipients; each applies to the message and all its deliveries. An answer ends the lease of a retry in
 * flight.
 */
import { closeDelivery, isOpen, nextAttemptAt, postpone } from './delivery.ts'
import type { Clocks } from './item.ts'
import { changeDeliveries, closeThread, countAcked, due, isInReach, type Thread } from './message.ts'
import { policyOf } from './message-damage.ts'

export type AckOutcome = 'acked' | 'already_acked' | 'not_recipient' | 'cancelled'

/**
 * Only a recipient may answer, or after an escalation also those notified by it; one answer from the latter settles the
 * whole message. Late answers count, even after it became a dead letter.
 */
export function acknowledge(
  thread: Thread,
  agent: string,
  wall: number,
): { outcome: AckOutcome; thread: Thread } {
  const outcome = answerOf(thread, agent)
  if (outcome !== 'acked') return { outcome, thread }
  const { message } = thread
  const answered = changeDeliveries(thread, (delivery) =>
    delivery.recipient === agent && delivery.state !== 'acked'
      ? closeDelivery(delivery, 'acked', { wall })
      : delivery,
  )
  const wasTold = thread.deliveries.some(({ recipient, level }) => recipient === agent && level > 0)
  const isEnough = wasTold || countAcked(answered) >= message.quorum
  const isSettled = message.state === 'acked' || message.state === 'acked_late'
  if (!isEnough || isSettled) return { outcome, thread: answered }
  return {
    outcome,
    thread: closeThread(answered, message.state === 'pending' ? 'acked' : 'acked_late', wall),
  }
}

function answerOf({ message, deliveries }: Thread, agent: string): AckOutcome {
  const own = deliveries.filter(({ recipient }) => recipient === agent)
  if (own.length === 0) return 'not_recipient'
  if (own.every(({ state }) => state === 'acked')) return 'already_acked'
  return message.state === 'cancelled' ? 'cancelled' : 'acked'
}

/** A recipient refuses. If the others can no longer reach the quorum, the message escalates next. */
export function refuse(thread: Thread, agent: string, reason: string | null, at: Clocks): Thread {
  const refused = changeDeliveries(thread, (delivery) =>
    delivery.recipient === agent && isOpen(delivery)
      ? closeDelivery(delivery, 'refused', { wall: at.wall, note: reason })
      : delivery,
  )
  const { state, dueAt } = thread.message
  return isInReach(refused) || state !== 'pending' || dueAt !== null ? refused : due(refused, at.now)
}

/** A recipient wants to be asked again, now or later; this does not add attempts. */
export function askAgain(
  thread: Thread,
  agent: string,
  { reason, nextAt }: { reason: string | null; nextAt: number },
): Thread {
  return changeDeliveries(thread, (delivery) =>
    delivery.recipient === agent && isOpen(delivery)
      ? postpone(delivery, policyOf(thread.message), { nextAt, note: reason, progressAt: null })
      : delivery,
  )
}

/**
 * A recipient is working on it: its delivery's deadline, or that of the level, is extended. Nothing comes earlier than
 * it would have: others on the level may have asked for more time.
 */
export function progress(
  thread: Thread,
  agent: string,
  { note, extendMs }: { note: string | null; extendMs: number },
  at: Clocks,
): Thread {
  const until = at.now + extendMs
  const policy = policyOf(thread.message)
  const heard = changeDeliveries(thread, (delivery) => {
    if (delivery.recipient !== agent || !isOpen(delivery)) return delivery
    const nextAt = laterOf(until, nextAttemptAt(delivery, policy, at.now))
    const extended = postpone(delivery, policy, { nextAt, note, progressAt: at.wall })
    const { givesUpAt } = extended
    return givesUpAt === null ? extended : { ...extended, givesUpAt: laterOf(givesUpAt, delivery.givesUpAt) }
  })
  const isTold = thread.deliveries.some(
    (delivery) => delivery.recipient === agent && delivery.level > 0 && isOpen(delivery),
  )
  const { state, dueAt } = thread.message
  return isTold && state === 'escalated' ? due(heard, laterOf(until, dueAt)) : heard
}

function laterOf(time: number, planned: number | null): number {
  return planned === null ? time : Math.max(time, planned)
}
