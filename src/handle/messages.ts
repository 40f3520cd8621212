/** `hf.messages`: a thin view on the operations of acknowledged messages. */
import { type Adapter, isAdapter } from '../delivery/adapter.ts'
import { assertName } from '../domain/name.ts'
import { inboxAdapter } from '../domain/recipient.ts'
import type { EscalationLevel } from '../domain/redelivery-policy.ts'
import { InvalidError } from '../errors.ts'
import type { EventView } from '../operations/event/event.ts'
import type { AckAnswer, MessageAnswer } from '../operations/message/answer.ts'
import type { RecipientView } from '../operations/message/control.ts'
import type { LetterPage, MessagePage } from '../operations/message/read.ts'
import type { Sent } from '../operations/message/send.ts'
import type { MessageView } from '../operations/message/view.ts'
import type { InputOf } from '../operations/table.ts'
import type { Redelivery, RetryCounts } from '../runtime/redelivery/redelivery.ts'
import { askInPieces, optionsOf, sumOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'

/** Kinds the source documents know; any other word serves too. */
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

export interface AnswerOptions {
  /** Who acts; default is this handle's own agent. */
  readonly agent?: string
  /** Asked again under the same key within 24 h (`retention.answersMs`), a change is answered and not made twice. */
  readonly idempotencyKey?: string
}
export interface SendOptions extends AnswerOptions {
  /** Any JSON value, at most 10 KB as text. */
  readonly content: unknown
  /** What kind of message it is: QUESTION, INFO, BLOCKED, …, or a word of your own. */
  readonly type?: MessageType
  /** What it is about: a task, a conversation. */
  readonly context?: string
  /** The message this one replies to; a reply also acknowledges it. */
  readonly parent?: string
  /** 0 (first) to 10 (last); default 5. */
  readonly priority?: number
  /** How many recipients must answer. */
  readonly quorum?: 'all' | 'any' | number
  /** Wait before the first retry, ms; default 30 s. */
  readonly timeoutMs?: number
  /** Waits before each retry, ms; default [30 s, 60 s, 120 s]. The last one is also the wait after the last retry, and that of an escalation level without a ladder. */
  readonly delaysMs?: readonly number[]
  /** Escalate with the last retry instead of waiting for an answer to it. */
  readonly escalateImmediately?: boolean
  /** Whom to escalate to, level by level; default everybody. */
  readonly ladder?: readonly EscalationLevel[]
  /** Escalations per minute; more are delayed. Default 5, 0 = no limit. */
  readonly escalationsPerMinute?: number
}
export interface NackOptions extends AnswerOptions {
  /** Why; the sender sees it. */
  readonly reason?: string
  /** Ask for it to be sent again instead of refusing it. */
  readonly retry?: boolean
  /** With retry: wait at least this long, ms. */
  readonly retryAfterMs?: number
}
export interface MessagePageOptions {
  /** How many at most, up to 1000. */
  readonly limit?: number
  /** `next` of the previous page. */
  readonly after?: string
}
export interface RegisterOptions extends AnswerOptions {
  /** Which adapter delivers to it; default inbox. */
  readonly adapter?: string
  /** What that adapter needs to find it, such as a channel. */
  readonly address?: string | null
  /** Messages it may send per minute; default 10, 0 = no limit. */
  readonly sendsPerMinute?: number
  /** Acknowledgements it may send per minute; default 100, 0 = no limit. */
  readonly acksPerMinute?: number
  /** Deliveries to it per minute; default 0 = no limit. */
  readonly deliveriesPerMinute?: number
}

export class Messages {
  readonly #session: Session
  readonly #redelivery: Redelivery

  constructor(session: Session, redelivery: Redelivery) {
    this.#session = session
    this.#redelivery = redelivery
  }

  /**
   * Sends a message that must be acknowledged; it is stored before anything goes out. Delivery is at least once, always
   * under the same id. An inbox is reached at once; by an adapter it goes out in the background, or with
   * `processRetries()` where `redelivery` is off. UNKNOWN_RECIPIENT names the nearest known ones. Over the sender's limit it is put off, and
   * `deferredMs` says for how long.
   */
  async sendWithAck(to: string | readonly string[], options: SendOptions): Promise<Sent> {
    const sent = await this.#session.ask('messages.sendWithAck', { to }, options)
    this.#redelivery.ring()
    return sent
  }

  /**
   * What waits for an answer of this agent, most urgent first; looking marks nothing as read. Who has looked can be
   * written to.
   */
  async inbox(options: InputOf<'messages.inbox'> & { agent?: string } = {}): Promise<LetterPage> {
    const page = await this.#session.ask('messages.inbox', {}, options)
    await this.#session.introduce(options.agent)
    return page
  }

  /** Marks a message as read; false when it was already, or is not there. It still waits for its answer. */
  markAsRead(message: string, options: AnswerOptions = {}): Promise<boolean> {
    return this.#session.ask('messages.markAsRead', { message }, options)
  }

  /** Acknowledges as a recipient, by the id, the id of an attempt, or a unique beginning. Wins over a retry under way. */
  receiveAck(message: string, options: AnswerOptions = {}): Promise<AckAnswer> {
    return this.#session.ask('messages.receiveAck', { message }, options)
  }

  /** Refuses a message, or asks for it again, with a reason. */
  async nack(message: string, options: NackOptions = {}): Promise<MessageAnswer> {
    const answer = await this.#session.ask('messages.nack', { message }, options)
    this.#redelivery.ring()
    return answer
  }

  /** At work on it: neither sent again nor escalated before the time asked for (default 60 s, at most 1 h). */
  progressAck(
    message: string,
    options: AnswerOptions & { note?: string; extendMs?: number } = {},
  ): Promise<MessageAnswer> {
    return this.#session.ask('messages.progressAck', { message }, options)
  }

  /** Sends what is due and escalates what nobody answered; every open process does so by itself. */
  async processRetries(): Promise<Readonly<RetryCounts>> {
    if (this.#session.settings.recovery.onClaim) await this.#session.heal('claim')
    return this.#redelivery.pass()
  }

  /** List messages that are still waiting for an acknowledgement, oldest first. */
  checkPendingAcks(options: InputOf<'messages.checkPendingAcks'> = {}): Promise<MessagePage> {
    return this.#session.ask('messages.checkPendingAcks', {}, options)
  }

  getPendingCount(options: InputOf<'messages.getPendingCount'> = {}): Promise<number> {
    return this.#session.ask('messages.getPendingCount', {}, options)
  }

  /** Cancels what still waits for an answer, all or one sender's; says how many. */
  async clearPendingAcks(
    options: InputOf<'messages.clearPendingAcks'> & AnswerOptions = {},
  ): Promise<number> {
    const { sender } = optionsOf('messages.clearPendingAcks', options)
    const pending = await this.getPendingCount({ sender })
    const pieces = await askInPieces(
      'messages.clearPendingAcks',
      options,
      (asked) => this.#session.ask('messages.clearPendingAcks', {}, asked),
      // Not more than there were when it began: what is sent meanwhile is not meant.
      (done) => sumOf(done, ({ cancelled }) => cancelled) >= pending,
    )
    return sumOf(pieces, ({ cancelled }) => cancelled)
  }

  /** Show a message and its deliveries. */
  get(message: string): Promise<MessageView | null> {
    return this.#session.call('messages.get', { message })
  }

  /** Everything that happened to a message and its deliveries, in order. */
  async timeline(message: string): Promise<EventView[]> {
    const found = await this.get(message)
    if (!found) return []
    const of = async (subject: 'message' | 'delivery', id: string) =>
      (await this.#session.call('events.list', { subject, id, limit: maxTimeline })).events
    const pages = await Promise.all([
      of('message', found.id),
      ...found.deliveries.map(({ id }) => of('delivery', id)),
    ])
    return pages.flat().sort((left, right) => left.seq - right.seq)
  }

  /** Messages nobody answered on any level. */
  listDeadLetters(options: InputOf<'messages.listDeadLetters'> = {}): Promise<MessagePage> {
    return this.#session.ask('messages.listDeadLetters', {}, options)
  }

  /** Sends a dead letter again, from the first attempt on, to those who did not answer. */
  async redrive(message: string, options: AnswerOptions & { reason?: string } = {}): Promise<MessageView> {
    const view = await this.#session.ask('messages.redrive', { message }, options)
    this.#redelivery.ring()
    return view
  }

  /**
   * Makes a recipient known that never opens the store itself, or changes its limits. Its adapter and address are changed
   * by itself alone: FORBIDDEN for others.
   */
  register(name: string, options: RegisterOptions = {}): Promise<RecipientView> {
    return this.#session.ask('messages.register', { name }, options)
  }

  /** Gives this process an adapter; from now on it sends what recipients of that adapter are due. */
  adapter(name: string, adapter: Adapter): void {
    assertName('adapter', name)
    if (name === inboxAdapter) {
      throw new InvalidError({
        what: 'the inbox is always there and cannot be replaced',
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

const maxTimeline = 1000
