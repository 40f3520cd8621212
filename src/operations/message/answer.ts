/** Answers from recipients: acknowledged, refused, in progress, read. An answer wins over a retry that is under way. */
import * as z from 'zod'
import { takeAllowance } from '../../domain/allowance.ts'
import { acknowledge, askAgain, progress, refuse } from '../../domain/answer.ts'
import { isOpen, markRead } from '../../domain/delivery.ts'
import { changeDeliveries, type Message, type Thread } from '../../domain/message.ts'
import { unregistered } from '../../domain/recipient.ts'
import { lazily } from '../../lazily.ts'
import type { Caller, Context } from '../../port/command.ts'
import type { Decision, Remark } from '../../port/decision.ts'
import type { Loaded } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { type InputWith, need, type OutputOf, operation, reply, type Step, view } from '../operation.ts'
import {
  acksOf,
  allowanceChange,
  byRef,
  findMessage,
  findRecipient,
  messageRef,
  onThread,
  threadChanges,
} from './thread.ts'
import { messageView, viewThread } from './view.ts'

const maxExtendMs = 60 * 60 * 1000
const ref = lazily(() => ({ message: messageRef() }))
const note = lazily(() => fields.text(2000).optional())

/** What all answers have in common: the caller is the recipient, who can be written to from then on. */
const byRecipient = { effect: 'write', agentIdentifies: 'request', introduces: 'everybody' } as const

const ackResult = view(() => ({
  outcome: z.enum(['acked', 'already_acked', 'not_found', 'not_recipient', 'cancelled', 'rate_limited']),
  message: messageView().nullable(),
  retryAfterMs: z.number(),
}))
/** The outcome of an acknowledgement. */
export type AckAnswer = OutputOf<typeof ackResult>

const ackNeeds = ({ message }: InputWith<typeof ref>, { agent }: Caller) =>
  need({
    found: byRef(message),
    allowance: { select: 'allowances', names: [acksOf(agent)] },
    known: { select: 'recipients', names: [agent], limit: 1 },
  })
type AckRows = Loaded<ReturnType<typeof ackNeeds>>

export const receiveAck = operation({
  name: 'messages.receiveAck',
  summary: 'Acknowledge a message as one of its recipients. Safe to repeat.',
  ...byRecipient,
  input: ref,
  output: ackResult,
  needs: ackNeeds,
  decide(rows, input, context): Step<AckAnswer> {
    const message = findMessage(rows.found, input.message)
    if (!message) return reply({ outcome: 'not_found', message: null, retryAfterMs: 0 })
    return onThread(message, (thread) => ack(thread, rows, context))
  },
})

/** Only a valid answer counts against the limit. Mistakes, and answers by agents that are not recipients, do not. */
function ack(thread: Thread, { allowance, known }: AckRows, context: Context): Decision<AckAnswer> {
  const { agent, now, wall } = context
  const { outcome, thread: after } = acknowledge(thread, agent, wall)
  const result = { outcome, message: viewThread(after, now), retryAfterMs: 0 }
  if (outcome === 'not_recipient') {
    return { changes: [], remarks: [stranger(thread.message, agent, 'ack')], result }
  }
  if (outcome !== 'acked') return reply(result)
  const limit = (findRecipient(known, agent) ?? unregistered(agent)).acksPerMinute
  const [before = null] = allowance
  const allowed = takeAllowance(before?.marks ?? [], limit, now)
  if (allowed.at > now) {
    const late = { outcome: 'rate_limited' as const, message: viewThread(thread, now) }
    return reply({ ...late, retryAfterMs: allowed.at - now })
  }
  return {
    changes: [
      ...threadChanges(thread, after, context),
      ...allowanceChange(acksOf(agent), before, allowed.marks),
    ],
    result,
  }
}

/** Somebody answered for another agent. The message keeps waiting. */
function stranger({ id }: Message, agent: string, act: string): Remark {
  const subject = { subject: 'message', id, queue: null, token: null } as const
  return { kind: 'message.refused', agent, ...subject, detail: { act } }
}

const answer = view(() => ({
  outcome: z.enum(['answered', 'not_found', 'not_recipient', 'closed']),
  message: messageView().nullable(),
}))
/** The outcome of any other answer. */
export type MessageAnswer = OutputOf<typeof answer>

/** Finds the message, lets its recipient act on it while it is open, and reports the outcome. */
function actOn(
  found: readonly Message[],
  asked: { message: string; act: string; note?: string | undefined },
  context: Context,
  act: (thread: Thread) => Thread,
): Step<MessageAnswer> {
  const message = findMessage(found, asked.message)
  if (!message) return reply({ outcome: 'not_found', message: null })
  return onThread(message, (thread): Decision<MessageAnswer> => {
    const own = thread.deliveries.filter(({ recipient }) => recipient === context.agent)
    const result = (outcome: MessageAnswer['outcome'], shown: Thread) => ({
      outcome,
      message: viewThread(shown, context.now),
    })
    if (own.length === 0) {
      const remarks = [stranger(message, context.agent, asked.act)]
      return { changes: [], remarks, result: result('not_recipient', thread) }
    }
    if (!own.some(isOpen)) return reply(result('closed', thread))
    const after = act(thread)
    const detail = { act: asked.act, note: asked.note }
    return {
      changes: threadChanges(thread, after, context, { detail }),
      result: result('answered', after),
    }
  })
}

export const nack = operation({
  name: 'messages.nack',
  summary: 'Refuse a message, or ask for it to be sent again, with a reason.',
  ...byRecipient,
  input: () => ({
    ...ref(),
    reason: note().describe('Why; the sender sees it.'),
    retry: z.boolean().default(false).describe('Ask for it to be sent again instead of refusing it.'),
    retryAfterMs: fields
      .whole(0, maxExtendMs)
      .default(0)
      .describe('With retry: wait at least this long, ms.'),
  }),
  output: answer,
  needs: ({ message }) => ({ found: byRef(message) }),
  decide({ found }, { message, reason, retry, retryAfterMs }, context) {
    return actOn(found, { message, act: 'nack', note: reason }, context, (thread) =>
      retry
        ? askAgain(thread, context.agent, { reason: reason ?? null, nextAt: context.now + retryAfterMs })
        : refuse(thread, context.agent, reason ?? null, context),
    )
  },
})

export const progressAck = operation({
  name: 'messages.progressAck',
  summary:
    'Say that you are working on a message: it is neither sent again nor escalated before the time you ask for.',
  ...byRecipient,
  input: () => ({
    ...ref(),
    note: note().describe('Progress; the sender sees it.'),
    extendMs: fields.whole(1_000, maxExtendMs).default(60_000).describe('Time it still needs, ms.'),
  }),
  output: answer,
  needs: ({ message }) => ({ found: byRef(message) }),
  decide({ found }, { message, note: said, extendMs }, context) {
    return actOn(found, { message, act: 'progress', note: said }, context, (thread) =>
      progress(thread, context.agent, { note: said ?? null, extendMs }, context),
    )
  },
})

export const markAsRead = operation({
  name: 'messages.markAsRead',
  summary: 'Mark a message as read. It still needs an acknowledgement.',
  ...byRecipient,
  input: ref,
  output: () => z.boolean(),
  needs: ({ message }) => ({ found: byRef(message) }),
  decide({ found }, input, context) {
    const message = findMessage(found, input.message)
    if (!message) return reply(false)
    return onThread(message, (thread) => {
      const read = changeDeliveries(thread, (delivery) =>
        delivery.recipient === context.agent && delivery.readAt === null
          ? markRead(delivery, context.wall)
          : delivery,
      )
      const changes = threadChanges(thread, read, context, { otherwise: 'delivery.read' })
      return { changes, result: changes.length > 0 }
    })
  },
})
