/**
 * Runs the handler for one item and sees its end through: an item must not stay held while nobody works on it. Tells the
 * worker's listeners how it ended.
 */
import { failureFacts, failureOf, retryableIn, textOf } from '../../domain/failure.ts'
import { HoldfastError, isClosedError, isHoldfastError } from '../../errors.ts'
import type { ItemView } from '../../operations/view.ts'
import { answerThatEnded, isSameLease, type Lease, whenLost } from '../../runtime/lease/held-lease.ts'
import { given } from '../../runtime/session/input.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { Queue } from '../queue/queue.ts'
import type { QueueItem } from '../queue/queue-answers.ts'
import type { Handler, WorkContext, WorkOptions } from './work-options.ts'
import { WorkerListeners } from './worker-events.ts'

export interface Claimed<Payload> {
  readonly item: QueueItem<Payload>
  readonly lease: Lease
}

/** A handler that is running. */
export interface Running<Payload> {
  readonly claimed: Claimed<Payload>
  /** Created together with the signal, when the handler first asks for it. */
  stop: AbortController | null
  isAbandoned: boolean
  done: Promise<void>
}

/** How an item should end. */
export interface Ending {
  readonly send: () => Promise<unknown>
  /** What its handler threw. */
  readonly error?: unknown
}

/**
 * If a repeated request is refused, it is made once more to learn why. Then the item is failed, and if that is refused
 * too, it is left to lapse.
 */
const maxFinishes = 3

export class ItemWork<Payload> {
  readonly listeners = new WorkerListeners<Payload>((error, event) => this.#logTrouble(error, { event }))
  readonly #session: Session
  readonly #queue: Queue<unknown, Payload>
  readonly #handler: Handler<Payload>
  readonly #retry: Pick<WorkOptions, 'backoff'>

  constructor(
    session: Session,
    queue: Queue<unknown, Payload>,
    handler: Handler<Payload>,
    { backoff }: Pick<WorkOptions, 'backoff'>,
  ) {
    this.#session = session
    this.#queue = queue
    this.#handler = handler
    this.#retry = given({ backoff })
  }

  /** Tells listeners when a claimed item is taken away. */
  watch({ item, lease }: Claimed<Payload>): void {
    whenLost(lease, (error) => this.listeners.tell('lost', { item, error }))
  }

  /** Runs the handler and returns how the item should end. */
  async handle(running: Running<Payload>): Promise<Ending> {
    const { item, lease } = running.claimed
    const context: WorkContext = {
      // Created on first access: most handlers of short items never look at it.
      get signal() {
        running.stop ??= new AbortController()
        if (running.isAbandoned) running.stop.abort(stopping())
        const both = AbortSignal.any([lease.signal, running.stop.signal])
        Object.defineProperty(context, 'signal', { value: both })
        return both
      },
      lease,
      progress: async (progress) => {
        await this.#queue.progress(item.id, progress, { token: item.token })
      },
    }
    try {
      const handler = this.#handler
      const result = await handler(item, context)
      return { send: () => this.#complete(item, result) }
    } catch (error) {
      // The handler needed the store that this process is closing. That is not the item's fault.
      if (this.#session.isClosed && isClosedError(error)) return this.release(item)
      const failure = failureOf(error)
      // An item that was given back or lost has not failed: its handler usually throws because it was told to stop.
      const level = running.isAbandoned || !lease.isHeld ? 'info' : 'warn'
      this.#session.logger[level]?.(failureFacts(item, failure), 'item.failed')
      const says = { token: item.token, ...this.#retry, ...retryableOf(error) }
      return { send: () => this.#queue.fail(item.id, failure, says), error }
    }
  }

  /** Fires the signal of a handler that nobody waits for any more. */
  abandon(running: Running<Payload>): void {
    running.isAbandoned = true
    running.stop?.abort(stopping())
  }

  release({ id, token }: QueueItem<Payload>): Ending {
    return { send: () => this.#queue.release(id, { token, reason: 'its worker stopped' }) }
  }

  /** The work is done, whatever the handler returned. A result that cannot be stored is logged and dropped. */
  async #complete({ id, token }: QueueItem<Payload>, result: unknown): Promise<void> {
    if (result !== undefined) {
      try {
        await this.#queue.complete(id, { token, result })
        return
      } catch (error) {
        if (!isHoldfastError(error) || error.code !== 'INVALID') throw error
        const facts = { queue: this.#queue.name, item: id, error: error.message }
        this.#session.logger.warn(facts, 'result.dropped')
      }
    }
    await this.#queue.complete(id, { token })
  }

  /**
   * Continues until the store has answered or the lease is gone. If the workflow allows it neither to complete nor to
   * fail, it is left to lapse.
   */
  async untilEnded(claimed: Claimed<Payload>, first: Ending): Promise<void> {
    const { item, lease } = claimed
    // The handler may have requested the end itself, as merge handlers do. Then there is only something to do if that
    // was refused.
    const asked = this.#endingOf(lease)
    if (asked !== null) await asked
    let ending = first
    for (let attempt = 1; lease.isHeld && attempt <= maxFinishes; attempt++) {
      try {
        await ending.send()
        break
      } catch (error) {
        this.warn(error, item.id)
        await this.#endingOf(lease)
        // The item cannot be completed in its state (a merge handler that returned early), so it has failed.
        const isRefusal =
          isHoldfastError(error) && (error.code === 'ILLEGAL_MOVE' || error.code === 'INVALID')
        if (!isRefusal || !lease.isHeld || ending !== first) continue
        const failure = failureOf(error)
        this.#session.logger.warn(failureFacts(item, failure), 'item.failed')
        const says = { token: item.token, retryable: false }
        ending = { send: () => this.#queue.fail(item.id, failure, says), error }
      }
    }
    if (!this.#tellEnd(claimed, ending.error)) this.letLapse(item)
  }

  /** Tells listeners what the store answered, no matter who asked (worker or handler). False without an answer. */
  #tellEnd({ item, lease }: Claimed<Payload>, error: unknown): boolean {
    const answer = answerThatEnded(lease) as ItemView | boolean | null
    if (answer === null) return false
    if (typeof answer === 'boolean') return true
    const ended = { ...answer, payload: item.payload }
    if (answer.outcome === 'succeeded') this.listeners.tell('completed', { item: ended })
    else if (answer.failures > item.failures)
      this.listeners.tell('failed', {
        item: ended,
        error: error ?? answer.error,
        willRetry: answer.runAt !== null,
      })
    return true
  }

  /** Resolves when all requests to end this lease are answered; null when there are none. */
  #endingOf(lease: Lease): Promise<unknown> | null {
    return this.#session.endings.settled((each) => isSameLease(each, lease))
  }

  /** Stops renewing an item, so that it comes back when its lease ends. Does nothing if it has already ended. */
  letLapse({ id, token }: QueueItem<Payload>): void {
    this.#session.keeper.lose({ kind: 'item', id, token }, 'its worker could not finish it')
    this.#session.grants.ended('item', id, token, {})
  }

  warn(error: unknown, item?: string): void {
    this.#logTrouble(error, item === undefined ? {} : { item })
    this.listeners.tell('error', { error, item: item ?? null })
  }

  #logTrouble(error: unknown, facts: object): void {
    this.#session.logger.warn({ queue: this.#queue.name, ...facts, error: textOf(error) }, 'worker.failed')
  }
}

function stopping(): HoldfastError {
  return new HoldfastError('TIMEOUT', {
    what: 'the worker is stopping',
    next: 'return soon; the item was given back',
  })
}

/** An error may say that retrying is pointless. */
function retryableOf(error: unknown): { retryable?: boolean } {
  if (isHoldfastError(error)) return {}
  const retryable = retryableIn(error)
  return retryable === undefined ? {} : { retryable }
}
