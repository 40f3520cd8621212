/**
 * The claim loop: claim, run the handler, finish, claim the next. Finishing an item and claiming the next are requested
 * in the same tick, so they share a transaction. Prefetched items are held under leases like any other.
 */
import * as z from 'zod'
import {
  isLeftToOthers,
  spreadAfterItem,
  spreadAfterNothing,
  spreadAfterSilence,
} from '../../domain/crowding.ts'
import { failureFacts, failureOf, retryableIn, textOf } from '../../domain/failure.ts'
import { nearestName } from '../../domain/name.ts'
import { processingLockName } from '../../domain/queue.ts'
import { shown } from '../../domain/text.ts'
import { type Environment, settlesWithin } from '../../environment.ts'
import { HoldfastError, isClosedError, isHoldfastError } from '../../errors.ts'
import * as fields from '../../operations/fields.ts'
import { parseInput } from '../../operations/operation.ts'
import type { ItemView } from '../../operations/view.ts'
import { answerThatEnded, type Lease, whenLost } from '../../runtime/lease/held-lease.ts'
import { assertSignal, given, optionsOf } from '../../runtime/session/input.ts'
import type { LockUse, Session } from '../../runtime/session/session.ts'
import type { Queue } from '../queue/queue.ts'
import type { QueueItem } from '../queue/queue-answers.ts'
import type { BackoffOptions } from '../queue/queue-options.ts'
import {
  type WorkerEventName,
  type WorkerListener,
  WorkerListeners,
  workerEventNames,
} from './worker-events.ts'

/** What a handler gets besides its item. */
export interface WorkContext {
  /** Fires when the lease is lost, the item is cancelled, or the worker stops and no longer waits for this handler. */
  readonly signal: AbortSignal
  /** The lease on the item. */
  readonly lease: Lease
  /** Records progress of the item. */
  progress(progress: unknown): Promise<void>
}

/** Handles one item. Returning completes it, with the returned value as its result; throwing reports a failure. */
export type Handler<Payload> = (item: QueueItem<Payload>, context: WorkContext) => unknown

/** How a worker claims and runs items. */
export interface WorkOptions {
  /** Handlers at once; default 1. A queue with a processing lock always runs one. */
  readonly concurrency?: number | undefined
  /** Items claimed ahead of free handlers; default 0. */
  readonly prefetch?: number | undefined
  /** Length of the leases, ms, at least 500; default is the queue's, then the handle's. */
  readonly leaseMs?: number | undefined
  /** How the waits between retries grow; default that of the queue. */
  readonly backoff?: BackoffOptions | undefined
  /**
   * Look for work at least this often, even when nothing rings, ms. By default every second, and less and less often, down
   * to every five seconds, while there is nothing to do and rings are known to arrive.
   */
  readonly pollEveryMs?: number | undefined
  /** Stops the worker like `stop()`. */
  readonly signal?: AbortSignal | undefined
  /**
   * On SIGINT and SIGTERM, drains for at most 8 s, gives back what is left, and lets the signal end the process unless
   * the program listens for it too; a second signal gives back at once. Default true; false leaves it to the program.
   */
  readonly stopOnSignals?: boolean | undefined
}

interface Claimed<Payload> {
  readonly item: QueueItem<Payload>
  readonly lease: Lease
}

/** A time in which there was nothing to claim. Monotonic ms. */
interface Idleness {
  /** When it began. */
  readonly since: number
  /** Since when every look has found work that was left to others. */
  readonly seenAt?: number | undefined
  /** When the last claim was answered. */
  readonly claimedAt: number
}

/** How an item should end. */
interface Ending {
  readonly send: () => Promise<unknown>
  /** What its handler threw. */
  readonly error?: unknown
}

/** A handler that is running. */
interface Running<Payload> {
  readonly claimed: Claimed<Payload>
  /** Created together with the signal, when the handler first asks for it. */
  stop: AbortController | null
  isAbandoned: boolean
  done: Promise<void>
}

interface Defaults {
  readonly concurrency: number
  readonly prefetch: number
  readonly pollEveryMs: number
  readonly stopOnSignals: boolean
}
const defaults: Defaults = Object.freeze({
  concurrency: 1,
  prefetch: 0,
  pollEveryMs: 1000,
  stopOnSignals: true,
})
/** The longest poll interval when notifications arrive and the caller has set none. */
const maxPollEveryMs = 5000
/** As often as a running process recovers: a claim also reclaims what a look does not see. */
const claimEveryMs = 5000
/** What is due by our clock may not be due yet by the store's. */
const lookAtLeastMs = 20
const optionNames = [...Object.keys(defaults), 'leaseMs', 'backoff', 'signal']

/** Checked before anything is claimed: if it were refused with each failure, items would fail for good. */
function assertBackoff(backoff: unknown): void {
  if (backoff === undefined) return
  parseInput({ name: 'work', input: z.strictObject({ backoff: fields.backoff() }) }, { backoff })
}

function assertKnown(options: object): void {
  const unknown = Object.keys(options).find((name) => !optionNames.includes(name))
  if (unknown === undefined) return
  const nearest = nearestName(unknown, optionNames)
  throw new HoldfastError('INVALID', {
    what: `unknown option "${unknown}" of work`,
    next: nearest ? `did you mean "${nearest}"?` : `known options: ${optionNames.join(', ')}`,
  })
}

/** A handler may run for longer than any manual lease. */
function assertRenewing(session: Session): void {
  if (session.instance !== null) return
  throw new HoldfastError('INVALID', {
    what: 'this handle was opened with background: false, so nothing would renew the leases of a worker',
    next: 'open the store without that option',
  })
}

const retryAfterErrorMs = { base: 100, max: 5000 }
export const drainDefaultMs = 30_000
/** Time for the store's answers after the drain. */
export const lastAnswersMs = 2_000
/**
 * If a repeated request is refused, it is made once more to learn why. Then the item is failed, and if that is refused
 * too, it is left to lapse.
 */
const maxFinishes = 3
/** One day. Node timers cannot run for more than 24 days: a longer one would fire at once. */
const maxTimeMs = 24 * 60 * 60 * 1000

/** Runs a handler for each item of a queue. Created by `hf.work()`. */
export class Worker<Payload> {
  readonly #session: Session
  readonly #queue: Queue<unknown, Payload>
  readonly #handler: Handler<Payload>
  readonly #options: Defaults & Pick<WorkOptions, 'leaseMs' | 'backoff'>
  readonly #environment: Environment
  /** Whether the caller left the poll interval to us. */
  readonly #mayRest: boolean
  readonly #ahead: Claimed<Payload>[] = []
  /** Not by id: an item that was lost and claimed again is in two handlers. */
  readonly #running = new Set<Running<Payload>>()
  readonly #finishing = new Set<Promise<unknown>>()
  readonly #listeners = new WorkerListeners<Payload>((error, name) =>
    this.#logTrouble(error, { event: name }),
  )
  /** Called when a claim was answered, an item has ended, or the worker stops. */
  readonly #onChange = new Set<() => void>()
  #unwake: () => void = () => {}
  readonly #unexpect: () => void
  readonly #unsignal: () => void
  readonly #onStopped: () => void
  #claiming: Promise<void> | null = null
  #claimsSoon = false
  #cancelPoll: () => void = () => {}
  #rung = false
  #idle: Idleness | null = null
  /** The longest delay between a notification and the look, and when the last notification came, monotonic ms. */
  #spreadMs = 0
  #heardAt = 0
  #cancelDelay: () => void = () => {}
  /** This process has just added work. */
  #isExpecting = false
  #failures = 0
  /** Number of claims so far, and of the last one that found nothing; 0 if items have ended since. */
  #claims = 0
  #emptyClaim = 0
  #stopped = false
  #hasLock = false
  readonly #lockUse: LockUse = {
    isAtWork: () =>
      this.#claiming !== null ||
      this.#finishing.size + this.#ahead.length > 0 ||
      (this.#running.size > 0 && this.#session.grants.keepsLock(processingLockName(this.#queue.name))),
  }
  #takesLock: boolean | null = null

  /** `onStopped` is called whenever a stop has finished. */
  constructor(
    session: Session,
    queue: Queue<unknown, Payload>,
    handler: Handler<Payload>,
    options: WorkOptions,
    onStopped: () => void,
  ) {
    this.#onStopped = onStopped
    this.#session = session
    this.#queue = queue
    this.#handler = handler
    this.#environment = session.environment
    assertKnown(optionsOf('work', options))
    assertSignal('work', options.signal)
    assertRenewing(session)
    assertBackoff(options.backoff)
    this.#options = { ...defaults, ...given(options) }
    this.#mayRest = options.pollEveryMs === undefined
    assertWhole('concurrency', this.#options.concurrency, 1, 1000)
    assertWhole('prefetch', this.#options.prefetch, 0, 1000)
    assertWhole('pollEveryMs', this.#options.pollEveryMs, 1, maxTimeMs)
    this.#listen()
    this.#unexpect = session.onExpectedWork(queue.name, () => this.#expect())
    this.#unsignal = () => options.signal?.removeEventListener('abort', this.#stopUnheard)
    options.signal?.addEventListener('abort', this.#stopUnheard, { once: true })
    if (options.signal?.aborted) this.#stopUnheard()
    else this.#fill()
  }

  /** Logs a failure, since nobody awaits this stop. */
  readonly #stopUnheard = () => void this.stop().catch((error) => this.#warn(error))

  /** Number of items in handlers now. */
  get running(): number {
    return this.#running.size
  }

  /**
   * Calls `listener` for each event of this name, and returns a function that removes it. Listeners are called in the
   * order they were added. The worker does not wait for them, and logs what they throw as `worker.failed`.
   */
  on<Name extends WorkerEventName>(name: Name, listener: WorkerListener<Payload, Name>): () => void {
    assertListener(name, listener)
    return this.#listeners.add(name, listener)
  }

  /**
   * Resolves to true once this worker holds no item and a claim has found nothing ready in its queue, or to false if
   * the worker is stopped first. Items that are delayed, blocked or waiting for their next attempt are not ready. Items
   * that others hold are not waited for. While the queue is paused, or others hold its processing lock, it keeps
   * waiting: use `signal` to give up, and the promise rejects with its reason.
   */
  async idle({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<boolean> {
    assertSignal('worker.idle', signal)
    const claimsBefore = this.#claims
    // A claim already under way does not count: it may have been decided before the caller added its work.
    let isAskedFor = false
    while (!this.#stopped) {
      signal?.throwIfAborted()
      if (!this.#isAtRest) isAskedFor = false
      else if (this.#emptyClaim > claimsBefore) return true
      else if (!isAskedFor) {
        isAskedFor = true
        this.#isExpecting = true
        this.#claimSoon()
      }
      await this.#changed(signal)
    }
    return false
  }

  /** Nothing is held, and no request is under way that could bring something. */
  get #isAtRest(): boolean {
    return this.#claiming === null && this.#running.size + this.#ahead.length + this.#finishing.size === 0
  }

  #changed(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#onChange.delete(done)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      this.#onChange.add(done)
      signal?.addEventListener('abort', done)
    })
  }

  #tellChange(): void {
    for (const tell of [...this.#onChange]) tell()
  }

  /**
   * Stops claiming, gives back prefetched items, and waits for handlers up to `drainMs` (default 30 s). Then fires the
   * signals of those still running and gives their items back.
   */
  async stop({ drainMs = drainDefaultMs }: { drainMs?: number | undefined } = {}): Promise<void> {
    assertWhole('drainMs', drainMs, 0, maxTimeMs)
    try {
      await this.#stop(drainMs)
    } finally {
      this.#session.leaveLock(this.#queue.name, this.#lockUse)
      // It may leave work behind. Wake the other workers of this process, so they need not find out by polling.
      if (this.#takesLock) this.#session.expectWork(this.#queue.name)
      this.#onStopped()
    }
  }

  async #stop(drainMs: number): Promise<void> {
    this.#stopped = true
    this.#tellChange()
    this.#unwake()
    this.#cancelDelay()
    this.#unexpect()
    this.#unsignal()
    this.#cancelPoll()
    if (await settlesWithin(this.#environment, drainMs, this.#drained())) return
    // Requests that an unavailable store has not answered by then are retried without us until the leases lapse.
    await settlesWithin(this.#environment, lastAnswersMs, Promise.allSettled(this.#abandon()))
  }

  /** Waits until every handler has returned and the store has answered for each item. */
  async #drained(): Promise<void> {
    await this.#claimedLast()
    await Promise.all([...this.#running].map(({ done }) => done))
    await Promise.all(this.#finishing)
    await this.#leaveLock()
  }

  async #leaveLock(): Promise<void> {
    if (!this.#hasLock) return
    this.#hasLock = false
    // Not a lock that another worker of this process acquired after this one had lost it.
    if (this.#session.useLock(this.#queue.name, this.#lockUse)) await this.#queue.releaseProcessingLock()
  }

  /** Waits for the last claim, and gives back what it brought. */
  async #claimedLast(): Promise<void> {
    await this.#claiming
    await Promise.all(this.#ahead.splice(0).map((claimed) => this.#giveBack(claimed)))
  }

  /** Gives back what is left, including what the last claim may still bring. */
  #abandon(): Promise<unknown>[] {
    const left = [...this.#running].map((running) => {
      running.isAbandoned = true
      running.stop?.abort(stopping())
      return this.#giveBack(running.claimed)
    })
    return [...left, this.#claimedLast(), this.#leaveLock()]
  }

  #giveBack(claimed: Claimed<Payload>): Promise<unknown> {
    return this.#finish(claimed, { send: () => this.#release(claimed.item) })
  }

  #release({ id, token }: QueueItem<Payload>): Promise<boolean> {
    return this.#queue.release(id, { token, reason: 'its worker stopped' })
  }

  /** Stops renewing an item, so that it comes back when its lease ends. Does nothing if it has already ended. */
  #letLapse({ id, token }: QueueItem<Payload>): void {
    this.#session.keeper.lose({ kind: 'item', id, token }, 'its worker could not finish it')
    this.#session.grants.ended('item', id, token, {})
  }

  #heard(): void {
    const now = this.#environment.monotonic()
    this.#spreadMs = spreadAfterSilence(this.#spreadMs, now - this.#heardAt)
    this.#heardAt = now
    const delayMs = this.#spreadMs * this.#environment.random()
    if (delayMs < 1) {
      this.#ring()
      return
    }
    // Do not listen in the meantime: receiving a hundred notifications a second costs forty processes a whole core.
    this.#unwake()
    this.#cancelDelay = this.#environment.timer(delayMs, () => {
      this.#listen()
      this.#ring()
    })
  }

  #listen(): void {
    this.#unwake = this.#session.onRing({ kind: 'queue', name: this.#queue.name }, () => this.#heard())
  }

  #leavesItToOthers(idle: Idleness): boolean {
    const now = this.#environment.monotonic()
    const isCrowded = this.#session.engine.isCrowded?.() === true
    if (!isLeftToOthers(now - (idle.seenAt ?? now), isCrowded)) return false
    this.#idle = { ...idle, seenAt: idle.seenAt ?? now }
    return true
  }

  #cameTooLate(): void {
    this.#spreadMs = spreadAfterNothing(this.#spreadMs)
  }

  #ring(): void {
    this.#rung = true
    this.#fill()
  }

  /** This process is adding work: an idle worker claims right behind it, in the same transaction. */
  #expect(): void {
    if (this.#idle === null || this.#claiming !== null) return
    this.#isExpecting = true
    this.#claimSoon()
  }

  /** Starts prefetched items, then asks for more. */
  #fill(): void {
    while (!this.#stopped && this.#running.size < this.#concurrency && this.#ahead.length > 0) {
      const claimed = this.#ahead.shift() as Claimed<Payload>
      // Skip an item whose lease was lost while it waited: somebody else may have it.
      if (claimed.lease.isHeld) this.#start(claimed)
    }
    this.#claimSoon()
  }

  /** Runs after everything that ends in this tick: one claim for all free handlers, in the same transaction. */
  #claimSoon(): void {
    if (this.#claimsSoon) return
    this.#claimsSoon = true
    process.nextTick(() => {
      this.#claimsSoon = false
      this.#claimForFree()
    })
  }

  #claimForFree(): void {
    const room =
      this.#concurrency -
      this.#running.size +
      (this.#takesLock ? 0 : this.#options.prefetch) -
      this.#ahead.length
    if (this.#stopped || this.#claiming || room <= 0) return
    this.#cancelPoll()
    this.#rung = false
    this.#claims++
    this.#claiming = this.#claim(Math.min(room, 100)).then((waitMs) => {
      this.#claiming = null
      if (waitMs === 0 || this.#rung) this.#fill()
      else if (!this.#stopped) this.#cancelPoll = this.#environment.timer(waitMs, () => this.#fill(), true)
      this.#tellChange()
    })
  }

  get #concurrency(): number {
    return this.#takesLock ? 1 : this.#options.concurrency
  }

  /** How long to wait before the next claim, ms; 0 = there may be more. */
  async #claim(limit: number): Promise<number> {
    try {
      this.#takesLock ??= (await this.#queue.usesProcessingLock()) ?? false
      const quietMs = await this.#stillQuietMs()
      if (quietMs > 0) {
        this.#emptyClaim = this.#claims
        return quietMs
      }
      this.#isExpecting = false
      const claimed = this.#takesLock ? await this.#claimUnderLock() : await this.#claimMany(limit)
      this.#failures = 0
      if (Array.isArray(claimed)) {
        for (const { item, lease } of claimed)
          whenLost(lease, (error) => this.#listeners.tell('lost', { item, error }))
        this.#idle = null
        this.#spreadMs = spreadAfterItem(this.#spreadMs)
        this.#ahead.push(...claimed)
        return 0
      }
      if (claimed.outcome === 'empty') this.#emptyClaim = this.#claims
      const now = this.#environment.monotonic()
      this.#cameTooLate()
      this.#idle = { since: this.#idle?.since ?? now, claimedAt: now }
      return this.#untilNext(claimed)
    } catch (error) {
      if (this.#session.isClosed) this.#stopped = true
      // Ask again next time: the queue may not have existed yet.
      this.#takesLock = null
      this.#warn(error)
      this.#failures++
      return errorWaitMs(this.#failures)
    }
  }

  /**
   * Every idle worker of a queue is notified of each item, but only one gets it. So they read first: otherwise each
   * notification would cost one write transaction per worker. Returns how long to stay idle, ms; 0 = claim now.
   */
  async #stillQuietMs(): Promise<number> {
    const idle = this.#idle
    const now = this.#environment.monotonic()
    if (idle === null || this.#isExpecting || this.#takesLock || now - idle.claimedAt >= claimEveryMs)
      return 0
    const look = await this.#session.call('queue.look', { queue: this.#queue.name, lapses: true })
    // Once per lapse: an item that stays put after its lease has ended is not claimed more often than any other.
    const lapsedForMs = -(look.lapseInMs ?? 0)
    const hasLapsed = lapsedForMs > 0 && this.#environment.monotonic() - lapsedForMs >= idle.claimedAt
    if (hasLapsed || (look.ready && !this.#leavesItToOthers(idle))) return 0
    this.#cameTooLate()
    if (look.ready) return Math.max(1, this.#spreadMs * this.#environment.random())
    this.#idle = { ...idle, seenAt: undefined }
    return this.#untilNext(look)
  }

  async #claimMany(
    limit: number,
  ): Promise<Claimed<Payload>[] | { outcome: string; nextDueAt?: number | null }> {
    const answer = await this.#queue.claimMany(limit, this.#claimOptions)
    return answer.outcome === 'claimed' ? (answer.items as Claimed<Payload>[]) : answer
  }

  async #claimUnderLock(): Promise<Claimed<Payload>[] | { outcome: string; nextDueAt?: number | null }> {
    // Asked before the last item is finished, the store would return that item again.
    if (this.#finishing.size > 0) return { outcome: 'unfinished' }
    if (!this.#session.useLock(this.#queue.name, this.#lockUse)) {
      this.#hasLock = false
      return { outcome: 'held' }
    }
    try {
      const answer = await this.#queue.nextWithLock(this.#claimOptions)
      if (answer.outcome === 'claimed') {
        this.#hasLock = true
        return [{ item: answer.item, lease: answer.lease as Lease }]
      }
      // Do not sit on the lock without an item: others may want it, and a pause may last. `#hasLock` is cleared only
      // after the release, so a failed release is repeated after the next look.
      if (this.#hasLock && answer.outcome !== 'held') await this.#queue.releaseProcessingLock()
      this.#hasLock = false
      return answer
    } finally {
      // Wakes nobody: others would find no more than this worker did, and would wake each other for ever.
      if (!this.#hasLock) this.#session.leaveLock(this.#queue.name, this.#lockUse)
    }
  }

  get #claimOptions() {
    return this.#options.leaseMs === undefined ? {} : { leaseMs: this.#options.leaseMs }
  }

  get #backoff() {
    return this.#options.backoff === undefined ? {} : { backoff: this.#options.backoff }
  }

  #untilNext({ nextDueAt, lapseInMs }: { nextDueAt?: number | null; lapseInMs?: number | null }): number {
    const pollMs = this.#pollMs() * (0.75 + 0.5 * this.#environment.random())
    const dueMs = nextDueAt == null ? pollMs : Math.max(1, nextDueAt - this.#environment.now() + 1)
    // A lease has expired only after its end, hence + 1. One that lapsed and stays is no reason to hurry.
    const isLapsing = lapseInMs != null && lapseInMs >= 0
    return Math.min(pollMs, dueMs, isLapsing ? Math.max(lookAtLeastMs, lapseInMs + 1) : pollMs)
  }

  /** Waits as long again as it has been idle: a quiet queue usually stays quiet, and notifications arrive. */
  #pollMs(): number {
    const { pollEveryMs } = this.#options
    if (!this.#mayRest || this.#idle === null || !this.#session.engine.hearsRings) return pollEveryMs
    const idleForMs = this.#environment.monotonic() - this.#idle.since
    return Math.min(Math.max(pollEveryMs, idleForMs), maxPollEveryMs)
  }

  #start(claimed: Claimed<Payload>): void {
    const running: Running<Payload> = { claimed, stop: null, isAbandoned: false, done: Promise.resolve() }
    // Added before it starts: a handler may throw before it first awaits.
    this.#running.add(running)
    running.done = this.#run(running)
  }

  async #run(running: Running<Payload>): Promise<void> {
    const { item } = running.claimed
    try {
      const finish = await this.#handle(running)
      if (!running.isAbandoned) void this.#finish(running.claimed, finish)
    } catch (error) {
      // A bug of ours. Nobody works on the item any more, so it must not be renewed.
      this.#warn(error, item.id)
      this.#letLapse(item)
    } finally {
      this.#running.delete(running)
      this.#fill()
      this.#tellChange()
    }
  }

  /** Runs the handler and returns how the item should end. */
  async #handle(running: Running<Payload>): Promise<Ending> {
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
      if (this.#session.isClosed && isClosedError(error)) return { send: () => this.#release(item) }
      const failure = failureOf(error)
      // An item that was given back or lost has not failed: its handler usually throws because it was told to stop.
      const level = running.isAbandoned || !lease.isHeld ? 'info' : 'warn'
      this.#session.logger[level]?.(failureFacts(item, failure), 'item.failed')
      const says = { token: item.token, ...this.#backoff, ...retryableOf(error) }
      return { send: () => this.#queue.fail(item.id, failure, says), error }
    }
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

  /** Not awaited by the caller: the next claim is requested in the same tick and shares the transaction. */
  #finish(claimed: Claimed<Payload>, ending: Ending): Promise<unknown> {
    const finishing = this.#untilAnswered(claimed, ending).finally(() => {
      this.#finishing.delete(finishing)
      // A failed item may be ready again by now.
      this.#emptyClaim = 0
      if (this.#takesLock) this.#ring()
      this.#tellChange()
    })
    this.#finishing.add(finishing)
    return finishing
  }

  /**
   * Continues until the store has answered or the lease is gone: an item must not stay held while nobody works on it.
   * If the workflow allows it neither to complete nor to fail, it is left to lapse.
   */
  async #untilAnswered(claimed: Claimed<Payload>, first: Ending): Promise<void> {
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
        this.#warn(error, item.id)
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
    if (!this.#tellEnd(claimed, ending.error)) this.#letLapse(item)
  }

  /** Tells listeners what the store answered, no matter who asked (worker or handler). False without an answer. */
  #tellEnd({ item, lease }: Claimed<Payload>, error: unknown): boolean {
    const answer = answerThatEnded(lease) as ItemView | boolean | null
    if (answer === null) return false
    if (typeof answer === 'boolean') return true
    const ended = { ...answer, payload: item.payload }
    if (answer.outcome === 'succeeded') this.#listeners.tell('completed', { item: ended })
    else if (answer.failures > item.failures)
      this.#listeners.tell('failed', {
        item: ended,
        error: error ?? answer.error,
        willRetry: answer.runAt !== null,
      })
    return true
  }

  /** Resolves when all requests to end this lease are answered; null when there are none. */
  #endingOf({ kind, id, token }: Lease): Promise<unknown> | null {
    return this.#session.endings.settled(
      (lease) => lease.kind === kind && lease.id === id && lease.token === token,
    )
  }

  #warn(error: unknown, item?: string): void {
    this.#logTrouble(error, item === undefined ? {} : { item })
    this.#listeners.tell('error', { error, item: item ?? null })
  }

  #logTrouble(error: unknown, facts: object): void {
    this.#session.logger.warn({ queue: this.#queue.name, ...facts, error: textOf(error) }, 'worker.failed')
  }

  /** The same as `stop()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

function stopping(): HoldfastError {
  return new HoldfastError('TIMEOUT', {
    what: 'the worker is stopping',
    next: 'return soon; the item was given back',
  })
}

function errorWaitMs(attempt: number): number {
  return Math.min(retryAfterErrorMs.max, retryAfterErrorMs.base * 2 ** attempt)
}

/** An error may say that retrying is pointless. */
function retryableOf(error: unknown): { retryable?: boolean } {
  if (isHoldfastError(error)) return {}
  const retryable = retryableIn(error)
  return retryable === undefined ? {} : { retryable }
}

/** A listener under a misspelt name would never be called. */
function assertListener(name: unknown, listener: unknown): void {
  if (!(workerEventNames as readonly unknown[]).includes(name)) {
    throw new HoldfastError('INVALID', {
      what: `a worker has no event ${shown(name)}`,
      next: `listen to one of ${workerEventNames.join(', ')}`,
    })
  }
  if (typeof listener === 'function') return
  throw new HoldfastError('INVALID', {
    what: `on("${name}") was given no listener`,
    next: 'give a function as its second argument',
  })
}

function assertWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return
  throw new HoldfastError('INVALID', {
    what: `${name} is ${shown(value)}`,
    next: `give a whole number from ${min} to ${max}`,
  })
}
