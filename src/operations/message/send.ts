/** Sending: the message and its deliveries are stored before anything goes out. */
import * as z from 'zod'
import { takeAllowance } from '../../domain/allowance.ts'
import { acknowledge } from '../../domain/answer.ts'
import { createMessage, type Thread } from '../../domain/message.ts'
import { nearestNames } from '../../domain/name.ts'
import { type Recipient, unregistered } from '../../domain/recipient.ts'
import { makePolicy } from '../../domain/redelivery-policy.ts'
import { HoldfastError, InvalidError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Caller, Context } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { Loaded } from '../../port/selector.ts'
import * as fields from '../fields.ts'
import { ask, change, type InputWith, need, type OutputOf, operation, type Step, view } from '../operation.ts'
import {
  allowanceChange,
  allRecipients,
  byRef,
  findRecipient,
  maxRecipients,
  messageRef,
  onThread,
  requireMessage,
  sendsOf,
  threadChanges,
} from './thread.ts'
import { messageView, viewThread } from './view.ts'

const maxContentBytes = 10 * 1024

/** The same rule however a message gets here. */
export const messageType = lazily(() =>
  z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, { error: 'must be a word such as INFO or REVIEW-REQUEST' }),
)
export const messageContent = lazily(() => fields.asJsonText(maxContentBytes))
const maxKnown = 1000
const maxLevels = 10
/** Recipients, everybody on the escalation ladder, and the sender. */
const maxNamed = (maxLevels + 1) * maxRecipients + 1
const maxWaitMs = 24 * 60 * 60 * 1000
const wait = lazily(() => fields.whole(0, maxWaitMs))

const recipientNames = lazily(() => z.array(fields.name).min(1).max(maxRecipients))
const everybody = lazily(() => z.literal('*'))

const input = lazily(() => ({
  to: z
    .union([everybody(), fields.name, recipientNames()])
    .describe('One recipient, several, or * for everybody else.'),
  type: messageType()
    .default('INFO')
    .describe('What kind of message it is: QUESTION, INFO, BLOCKED, …, or a word of your own.'),
  content: messageContent().describe('Any JSON value, at most 10 KB as text.'),
  context: fields.text(200).min(1).optional().describe('What it is about: a task, a conversation.'),
  parent: messageRef().optional().describe('The message this one replies to; a reply also acknowledges it.'),
  priority: fields.priority,
  quorum: z
    .union([z.enum(['all', 'any']), fields.whole(1, maxRecipients)])
    .default('all')
    .describe('How many recipients must answer.'),
  timeoutMs: z
    .int()
    .min(1_000, { error: 'must be at least 1 s' })
    .max(300_000, { error: 'must be at most 300 s' })
    .optional()
    .describe('Wait before the first retry, ms; default 30 s.'),
  delaysMs: z
    .array(wait().min(1))
    .max(20)
    .optional()
    .describe(
      'Waits before each retry, ms; default [30 s, 60 s, 120 s]. The last one is also the wait after the last retry, and that of an escalation level without a ladder.',
    ),
  escalateImmediately: z
    .boolean()
    .optional()
    .describe('Escalate with the last retry instead of waiting for an answer to it.'),
  ladder: z
    .array(z.strictObject({ to: z.union([everybody(), recipientNames()]), waitMs: wait() }))
    .max(maxLevels)
    .optional()
    .describe('Whom to escalate to, level by level; default everybody.'),
  escalationsPerMinute: fields
    .whole(0, 1000)
    .optional()
    .describe('Escalations per minute; more are delayed. Default 5, 0 = no limit.'),
}))
type Input = InputWith<typeof input>

function sendNeeds(asked: Input, { agent }: Caller) {
  return need({
    named: { select: 'recipients', names: namesIn(asked, agent), limit: maxNamed },
    everybody: asked.to === '*' ? { select: 'recipients', names: null, limit: maxKnown } : null,
    allowance: { select: 'allowances', names: [sendsOf(agent)] },
    parent: asked.parent === undefined ? null : byRef(asked.parent),
  })
}
type Rows = Loaded<ReturnType<typeof sendNeeds>>

const sent = view(() => ({
  message: messageView(),
  /** How long the sender's limit delays it. */
  deferredMs: z.number(),
}))
/** What became of a message that was sent. */
export type Sent = OutputOf<typeof sent>

export const sendWithAck = operation({
  name: 'messages.sendWithAck',
  summary: 'Send a message that must be acknowledged. It is retried and escalated until it is.',
  effect: 'write',
  introduces: 'everybody',
  freshIds: () => 1,
  input,
  output: sent,
  needs: sendNeeds,
  decide(rows, asked, context): Step<Sent> {
    const parent = rows.parent && requireMessage(rows.parent, asked.parent as string)
    // The sender of a message can always be answered, even if nothing else is known about it any more.
    const isKnown = (name: string) => name === context.agent || name === parent?.sender
    const unknown = namesIn(asked, context.agent).find(
      (name) => !isKnown(name) && !findRecipient(rows.named, name),
    )
    if (unknown !== undefined) return refuseUnknown(unknown)
    if (!parent) return send(rows, asked, context, null)
    return onThread(parent, (thread) => send(rows, asked, context, thread))
  },
})

function send(rows: Rows, asked: Input, context: Context, parent: Thread | null): Decision<Sent> {
  const { agent, now, wall } = context
  const recipients = recipientsOf(rows, asked, agent)
  const limit = (findRecipient(rows.named, agent) ?? unregistered(agent)).sendsPerMinute
  const [allowance = null] = rows.allowance
  const allowed = takeAllowance(allowance?.marks ?? [], limit, now)
  const request = {
    id: context.ids[0] as string,
    sender: agent,
    type: asked.type,
    content: asked.content,
    context: asked.context ?? null,
    parent: parent?.message.id ?? null,
    priority: asked.priority ?? 5,
    quorum: quorumOf(asked.quorum, recipients.length),
    policy: makePolicy({ ...asked, recipients: recipients.length }),
  }
  const thread = createMessage(request, recipients, { now, wall, firstAt: allowed.at })
  const changes: Change[] = [
    ...newThreadChanges(thread, agent, 'message.created'),
    ...allowanceChange(sendsOf(agent), allowance, allowed.marks),
    ...(parent ? threadChanges(parent, acknowledge(parent, agent, wall).thread, context) : []),
  ]
  return {
    changes,
    result: { message: viewThread(thread, now), deferredMs: allowed.at - now },
  }
}

export function newThreadChanges(
  { message, deliveries }: Thread,
  agent: string,
  kind: 'message.created' | 'message.imported',
): Change[] {
  return [
    change('message', null, message, kind, { agent }),
    ...deliveries.map((after): Change => change('delivery', null, after, 'delivery.created', { agent })),
  ]
}

/** Everybody who is named: recipients, those on the escalation ladder, and the sender, whose limits apply. */
function namesIn({ to, ladder }: Input, agent: string): string[] {
  const escalated = (ladder ?? []).flatMap((level) => (level.to === '*' ? [] : level.to))
  const asked = to === '*' ? [] : [to].flat()
  return [...new Set([...asked, ...escalated, agent])]
}

function recipientsOf(rows: Rows, { to }: Input, agent: string): Recipient[] {
  if (to !== '*') {
    // Unknown names were refused earlier. The fallback covers a sender that writes to itself, and the author of the
    // message being answered.
    return [...new Set([to].flat())].map((name) => findRecipient(rows.named, name) ?? unregistered(name))
  }
  const others = allRecipients(rows.everybody as NonNullable<Rows['everybody']>).filter(
    ({ name }) => name !== agent,
  )
  if (others.length === 0) return unknownRecipient('*', [])
  if (others.length <= maxRecipients) return others
  throw new InvalidError({
    what: `a message to everybody would go to ${others.length} recipients, the limit is ${maxRecipients}`,
    next: 'name the recipients',
    facts: { recipients: others.length, maxRecipients },
  })
}

/** Loads all recipients, only to suggest the nearest name. */
function refuseUnknown(name: string): Step<Sent> {
  const anybody = { select: 'recipients', names: null, limit: maxKnown, isAnybody: true } as const
  return ask({ known: anybody }, ({ known }) => {
    const names = allRecipients(known).map((recipient) => recipient.name)
    return unknownRecipient(name, nearestNames(name, names, 3))
  })
}

function unknownRecipient(recipient: string, nearest: readonly string[]): never {
  const known = nearest.map((name) => `"${name}"`).join(', ')
  throw new HoldfastError('UNKNOWN_RECIPIENT', {
    what: recipient === '*' ? 'nobody else is known here' : `nobody here is called "${recipient}"`,
    next: known === '' ? 'register the recipient first' : `nearest are ${known}; or register it first`,
    facts: { recipient, nearest },
  })
}

function quorumOf(quorum: Input['quorum'], recipients: number): number {
  if (quorum === 'all') return recipients
  if (quorum === 'any') return 1
  if (quorum <= recipients) return quorum
  throw new InvalidError({
    what: `a quorum of ${quorum} was asked for, but there are ${recipients} recipients`,
    next: 'ask for at most as many answers as there are recipients',
    facts: { quorum, recipients },
  })
}
