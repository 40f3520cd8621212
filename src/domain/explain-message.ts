/** Why a message is still waiting, or how it ended. */
import { counted } from './count.ts'
import { isOpen } from './delivery.ts'
import { type Explanation, explanation, type SafeAct } from './explain.ts'
import type { Message, Thread } from './message.ts'
import { damageOf } from './message-damage.ts'

export function explainMessage({ message, deliveries }: Thread, now: number): Explanation {
  const open = deliveries.filter(isOpen)
  const answered = deliveries.filter(({ ackedAt }) => ackedAt !== null)
  const evidence = [
    `${counted(answered.length, 'answer')} of the ${message.quorum} that are needed`,
    ...deliveries.map(
      ({ recipient, state, attempts, note }) =>
        `${recipient}: ${state} after ${counted(attempts, 'attempt')}${note === null ? '' : `, "${note}"`}`,
    ),
  ]
  if (message.state === 'dead') return explainDead(message, answered.length, evidence)
  if (message.closedAt !== null) return explanation('closed', `it is ${message.state}`, { evidence })
  const waits = open.map(({ recipient }) => recipient).join(', ')
  return explanation('waiting', waits === '' ? 'it is about to escalate' : `it waits for ${waits}`, {
    evidence,
    next: open.flatMap(({ recipient, nextDueAt, givesUpAt }) => [
      ...(nextDueAt === null
        ? []
        : [{ what: `it is sent to ${recipient} again`, inMs: Math.max(0, nextDueAt - now) }]),
      ...(givesUpAt === null
        ? []
        : [{ what: `${recipient} counts as not answering`, inMs: Math.max(0, givesUpAt - now) }]),
    ]),
  })
}

/** One that is damaged cannot be sent again. */
function explainDead(message: Message, answers: number, evidence: readonly string[]): Explanation {
  const damage = damageOf(message)
  if (damage !== null) return explanation('stuck', `${damage}: it is a dead letter`, { evidence })
  const redrive: SafeAct = {
    operation: 'messages.redrive',
    input: { message: message.id },
    because: 'sends it again to those who did not answer',
  }
  const who = answers === 0 ? 'nobody' : 'too few'
  return explanation('stuck', `${who} acknowledged it on any level: it is a dead letter`, {
    evidence,
    can: [redrive],
  })
}
