/** `hf.messages`: the operations on acknowledged messages as methods. */
import { type Adapter, isAdapter } from '../delivery/adapter.ts'
import { assertName } from '../domain/name.ts'
import { inboxAdapter } from '../domain/recipient.ts'
import { InvalidError } from '../errors.ts'
import type { EventView } from '../operations/event/event.ts'
import type { AckAnswer, MessageAnswer } from '../operations/message/answer.ts'
import type { RecipientView } from '../operations/message/control.ts'
import type { LetterPage, MessagePage } from '../operations/message/read.ts'
import type { Sent } from '../operations/message/send.ts'
import type { MessageView } from '../operations/message/view.ts'
import type { AskedOf } from '../operations/table.ts'
import type { RetryCounts } from '../runtime/redelivery/delivery-passes.ts'
import type { Redelivery } from '../runtime/redelivery/redelivery.ts'
import { askInPieces, optionsOf, sumOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'
import type { AgentOptions, MutationOptions, OptionsFor } from './call-options.ts'
import { historyOf } from './history.ts'

/** The message types of the source documents; any other word works too. */
export type MessageType =
  | 'QUESTION'
  | 'REVIEW-REQUEST'
  | 'BLOCKED'
  | 'COMPLETED'
  | 'CHALLENGE'
  | 'INFO'
  | 'ACK'
  | 'TASK-DELEGATION'
  | 'TASK-RESULT'
  | 'CONFLICT'
  | 'NEGOTIATION'
  | 'CAPABILITY-QUERY'
  | 'CAPABILITY-RESPONSE'
  | 'REVIEW-FEEDBACK'
  | 'CONTEXT-UPDATE'
  | (string & {})

/** A message, and how it is retried and escalated. */
export interface SendOptions extends OptionsFor<'messages.sendWithAck', 'to' | 'type'> {
  /** What kind of message it is: QUESTION, INFO, BLOCKED, …, or a word of your own. */
  readonly type?: MessageType | undefined
}

/** Why a message is refused, or when to send it again. */
export interface NackOptions extends OptionsFor<'messages.nack', 'message'> {}

/** How a recipient is reached, and its rate limits. */
export interface RegisterOptions extends OptionsFor<'messages.register', 'name'> {}

/** Messages that must be acknowledged. They are retried and escalated until they are. */
export class Messages {
  readonly #session: Session
  readonly #redelivery: Redelivery

  constructor(session: Session, redelivery: Redelivery) {
    this.#session = session
    this.#redelivery = redelivery
  }

  /**
   * Sends a message that must be acknowledged. It is stored before anything is sent. Delivery is at least once, always
   * under the same id. Inboxes are reached at once. Adapters send in the background, or when you call
   * `processRetries()` if `redelivery` is off. UNKNOWN_RECIPIENT suggests the nearest known names. Over the sender's
   * rate limit, the message is delayed, and `deferredMs` says for how long.
   */
  async sendWithAck(to: string | readonly string[], options: SendOptions): Promise<Sent> {
    const sent = await this.#session.ask('messages.sendWithAck', { to }, options)
    this.#redelivery.ring()
    return sent
  }

  /**
   * Messages that wait for an answer from this agent, most urgent first. Reading marks nothing as read. An agent that
   * has read its inbox becomes a known recipient.
   */
  async inbox(options: AskedOf<'messages.inbox'> & AgentOptions = {}): Promise<LetterPage> {
    const page = await this.#session.ask('messages.inbox', {}, options)
    await this.#session.introduce(options.agent)
    return page
  }

  /** Marks a message as read. False when it was already read, or when there is none. It still needs an answer. */
  markAsRead(message: string, options: MutationOptions = {}): Promise<boolean> {
    return this.#session.ask('messages.markAsRead', { message }, options)
  }

  /**
   * Acknowledges a message as one of its recipients, by its id, the id of a delivery attempt, or a unique prefix. Takes
   * precedence over a retry in progress. Safe to repeat.
   */
  receiveAck(message: string, options: MutationOptions = {}): Promise<AckAnswer> {
    return this.#session.ask('messages.receiveAck', { message }, options)
  }

  /** Refuses a message, or asks for it to be sent again, with a reason. */
  async nack(message: string, options: NackOptions = {}): Promise<MessageAnswer> {
    const answer = await this.#session.ask('messages.nack', { message }, options)
    this.#redelivery.ring()
    return answer
  }

  /**
   * Says that you are working on a message: until `extendMs` has passed (default 60 s, at most 1 h), it is neither sent
   * again nor escalated.
   */
  progressAck(
    message: string,
    options: OptionsFor<'messages.progressAck', 'message'> = {},
  ): Promise<MessageAnswer> {
    return this.#session.ask('messages.progressAck', { message }, options)
  }

  /**
   * Sends what is due and escalates what nobody answered. Every open process does this by itself, unless `redelivery`
   * is off.
   */
  async processRetries(): Promise<Readonly<RetryCounts>> {
    if (this.#session.settings.recovery.onClaim) await this.#session.recovery.healIfPossible('claim')
    return this.#redelivery.pass()
  }

  /** Messages that are still waiting for an acknowledgement, oldest first. */
  checkPendingAcks(options: AskedOf<'messages.checkPendingAcks'> = {}): Promise<MessagePage> {
    return this.#session.ask('messages.checkPendingAcks', {}, options)
  }

  /** The number of messages that are still waiting for an acknowledgement. */
  getPendingCount(options: AskedOf<'messages.getPendingCount'> = {}): Promise<number> {
    return this.#session.ask('messages.getPendingCount', {}, options)
  }

  /** Cancels messages that are still waiting for an answer, all of them or those of one sender. Returns how many. */
  async clearPendingAcks(options: OptionsFor<'messages.clearPendingAcks'> = {}): Promise<number> {
    const { sender, idempotencyKey } = optionsOf('messages.clearPendingAcks', options)
    // Stop at the number there is at the start, so that messages sent in the meantime are not cancelled too. Under a
    // key, go on to the end: a repeated call is told of messages that were cancelled before it counted.
    const most =
      idempotencyKey === undefined ? await this.getPendingCount({ sender }) : Number.POSITIVE_INFINITY
    const pieces = await askInPieces(
      'messages.clearPendingAcks',
      options,
      (asked) => this.#session.ask('messages.clearPendingAcks', {}, asked),
      (done) => sumOf(done, ({ cancelled }) => cancelled) >= most,
    )
    return sumOf(pieces, ({ cancelled }) => cancelled)
  }

  /** A message with its deliveries; null when there is none. */
  get(message: string): Promise<MessageView | null> {
    return this.#session.call('messages.get', { message })
  }

  /** All events of a message and its deliveries, in order. */
  async timeline(message: string): Promise<EventView[]> {
    const found = await this.get(message)
    if (!found) return []
    const histories = await Promise.all([
      historyOf(this.#session, 'message', found.id),
      ...found.deliveries.map(({ id }) => historyOf(this.#session, 'delivery', id)),
    ])
    return histories.flat().sort((left, right) => left.seq - right.seq)
  }

  /** Messages that nobody answered at any escalation level, oldest first. */
  listDeadLetters(options: AskedOf<'messages.listDeadLetters'> = {}): Promise<MessagePage> {
    return this.#session.ask('messages.listDeadLetters', {}, options)
  }

  /** Sends a dead letter again, from the first attempt, to everybody who did not answer. */
  async redrive(
    message: string,
    options: OptionsFor<'messages.redrive', 'message'> = {},
  ): Promise<MessageView> {
    const view = await this.#session.ask('messages.redrive', { message }, options)
    this.#redelivery.ring()
    return view
  }

  /**
   * Registers a recipient that never opens the store itself, or changes its limits. Only the recipient itself can
   * change its adapter and address: FORBIDDEN for anybody else.
   */
  register(name: string, options: RegisterOptions = {}): Promise<RecipientView> {
    return this.#session.ask('messages.register', { name }, options)
  }

  /**
   * Adds an adapter to this process. From now on, this process sends the messages that are due for recipients of that
   * adapter.
   */
  adapter(name: string, adapter: Adapter): void {
    assertName('adapter', name)
    if (name === inboxAdapter) {
      throw new InvalidError({
        what: 'the inbox is built in and cannot be replaced',
        next: 'give your adapter another name, and register recipients with it',
      })
    }
    if (!isAdapter(adapter)) {
      throw new InvalidError({
        what: `adapter "${name}" cannot send`,
        next: 'give webhook(…), command(…) or an object with send() and, if any, a timeoutMs and a broadcastTimeoutMs of 1 ms to 1 h',
      })
    }
    this.#redelivery.addAdapter(name, adapter)
  }
}
