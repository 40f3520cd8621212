/** Shared by operations on messages: finding one by its id or a prefix, and the changes an operation makes to it. */
import * as z from 'zod'
import { type Allowance, keepMarks, type Marks, takeAllowance } from '../../domain/allowance.ts'
import type { Delivery } from '../../domain/delivery.ts'
import type { EventKind } from '../../domain/event.ts'
import type { Message, Thread } from '../../domain/message.ts'
import { type Recipient, unregistered } from '../../domain/recipient.ts'
import { InvalidError, NotFoundError } from '../../errors.ts'
import { lazily } from '../../lazily.ts'
import type { Caller } from '../../port/command.ts'
import type { Change, Decision } from '../../port/decision.ts'
import type { Selectors } from '../../port/selector.ts'
import { ask } from '../operation.ts'

export const maxRecipients = 100

/** An id, or a prefix of one, with or without the number of an attempt. */
export const messagePattern = /^[A-Za-z0-9_-]{1,64}(?:\.\d{1,6})?$/

export const messageRef = lazily(() =>
  z
    .string()
    .regex(messagePattern, { error: 'must be the id of a message or its beginning' })
    .describe('Id of the message or of one of its attempts, or a unique prefix.'),
)

/** Looks up the id without its attempt number. */
export function byRef(ref: string) {
  return { select: 'messageByRef', ref: ref.replace(/\.\d+$/, '') } as const
}

/** Null when there is none. A prefix that matches two is an error, because a guess could answer the wrong one. */
export function findMessage(found: readonly Message[], ref: string): Message | null {
  const [message, another] = found
  if (message && another) {
    throw new InvalidError({
      what: `"${ref}" is the start of more than one message id, such as ${message.id} and ${another.id}`,
      next: 'give more of the id',
      facts: { ref, ids: [message.id, another.id] },
    })
  }
  return message ?? null
}

export function requireMessage(found: readonly Message[], ref: string): Message {
  const message = findMessage(found, ref)
  if (message) return message
  throw new NotFoundError({
    what: `there is no message "${ref}"`,
    next: 'check the id; finished messages are removed after their retention',
    facts: { ref },
  })
}

export function deliveriesOf(...messages: readonly Message[]) {
  return { select: 'deliveriesOf', messages: messages.map(({ id }) => id) } as const
}

/** Loads the deliveries of a message, for a decision on all of it. */
export function onThread<Output>(message: Message, decide: (thread: Thread) => Decision<Output>) {
  return ask({ deliveries: deliveriesOf(message) }, ({ deliveries }) => decide({ message, deliveries }))
}

export function threadsOf(messages: readonly Message[], deliveries: readonly Delivery[]): Thread[] {
  const byMessage = new Map<string, Delivery[]>(messages.map(({ id }) => [id, []]))
  for (const delivery of deliveries) byMessage.get(delivery.message)?.push(delivery)
  return messages.map((message) => ({ message, deliveries: byMessage.get(message.id) ?? [] }))
}

/** Everything that an operation changed, each change with its event. */
export function threadChanges(
  before: Thread,
  after: Thread,
  { agent }: Pick<Caller, 'agent'>,
  options: { otherwise?: EventKind; detail?: NonNullable<Change['event']>['detail'] } = {},
): Change[] {
  const detail = options.detail ? { detail: options.detail } : {}
  const changes: Change[] = after.deliveries.flatMap((delivery, index): Change[] => {
    const old = before.deliveries[index] ?? null
    if (old === delivery) return []
    const kind = deliveryKind(old, delivery, options.otherwise ?? 'delivery.progressed')
    return [{ table: 'delivery', before: old, after: delivery, event: { kind, agent, ...detail } }]
  })
  if (after.message === before.message) return changes
  const event = { kind: messageKind(before.message, after.message), agent, ...detail }
  return [{ table: 'message', before: before.message, after: after.message, event }, ...changes]
}

function deliveryKind(before: Delivery | null, after: Delivery, otherwise: EventKind): EventKind {
  if (before === null) return 'delivery.created'
  if (before.state === after.state) return otherwise
  switch (after.state) {
    case 'acked':
    case 'unanswered':
    case 'cancelled':
    case 'sent':
    case 'failed':
      return `delivery.${after.state}`
    case 'refused':
      return 'delivery.nacked'
    case 'queued':
      return 'delivery.restarted'
    default:
      return after.state satisfies never
  }
}

function messageKind(before: Message, after: Message): EventKind {
  if (before.state === after.state) {
    return before.level === after.level ? 'message.changed' : 'message.escalated'
  }
  switch (after.state) {
    case 'acked':
    case 'acked_late':
      return 'message.acked'
    case 'escalated':
    case 'dead':
    case 'cancelled':
      return `message.${after.state}`
    case 'pending':
      return 'message.redriven'
    default:
      return after.state satisfies never
  }
}

type Known = Selectors['recipients'][1]

/** A recipient by name: as registered, or reached by inbox because it opened the store; null if it is unknown. */
export function findRecipient({ registered, agents }: Known, name: string): Recipient | null {
  const found = registered.find((recipient) => recipient.name === name)
  if (found) return found
  return agents.includes(name) ? unregistered(name) : null
}

/** All recipients, sorted by name. */
export function allRecipients(known: Known): Recipient[] {
  const names = new Set([...known.registered.map(({ name }) => name), ...known.agents])
  return [...names].sort().map((name) => findRecipient(known, name) ?? unregistered(name))
}

/** Each limit is counted under its own name. */
export const sendsOf = (agent: string) => `send:${agent}`
export const acksOf = (agent: string) => `ack:${agent}`
export const deliveriesTo = (recipient: string) => `deliver:${recipient}`
export const escalations = 'escalate'

export function allowanceChange(name: string, before: Allowance | null, marks: Marks): Change[] {
  const after = keepMarks(name, before, marks)
  return after ? [{ table: 'allowance', before, after }] : []
}

/** Hands out each time slot once. A slot in the future belongs to whoever was deferred to it. */
export class Allowances {
  readonly #before: ReadonlyMap<string, Allowance>
  readonly #marks = new Map<string, Marks>()
  readonly #now: number

  constructor(allowances: readonly Allowance[], now: number) {
    this.#before = new Map(allowances.map((allowance) => [allowance.name, allowance]))
    this.#now = now
  }

  take(name: string, limit: number): number {
    const known = this.#marks.get(name) ?? this.#before.get(name)?.marks ?? []
    const { at, marks } = takeAllowance(known, limit, this.#now)
    this.#marks.set(name, marks)
    return at
  }

  changes(): Change[] {
    return [...this.#marks].flatMap(([name, marks]) =>
      allowanceChange(name, this.#before.get(name) ?? null, marks),
    )
  }
}
