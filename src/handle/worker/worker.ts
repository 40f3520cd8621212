/**
 * The claim loop: claims, runs a handler, finishes, claims the next. Finishing one item and claiming the next are
 * asked in the same turn, so both share a transaction. Items fetched ahead are held under leases like any other.
 */
import * as z from 'zod'
import { failureFacts, failureOf, retryableIn, textOf } from '../../domain/failure.ts'
import { nearestName } from '../../domain/name.ts'
import { processingLockName } from '../../domain/queue.ts'
import { shown } from '../../domain/text.ts'
import { type Environment, settlesWithin } from '../../environment.ts'
import { HoldfastError, isClosedError, isHoldfastError } from '../../errors.ts'
import * as fields from '../../operations/fields.ts'
import { parseInput } from '../../operations/operation.ts'
import type { ItemView } from '../../operations/view.ts'
import { answerThatEnded, type Lease, whenLost } from '../../runtime/lease/keeper.ts'
import { assertSignal, optionsOf } from '../../runtime/session/input.ts'
import type { LockUse, Session } from '../../runtime/session/session.ts'
import type { BackoffOptions, Queue, QueueItem } from '../queue.ts'
import {
  type WorkerEventName,
  type WorkerListener,
  WorkerListeners,
  workerEventNames,
} from './worker-events.ts'

export interface WorkContext {
  /** Fires when the lease is lost, the item is cancelled, or the worker stops and does not wait any longer. */
  readonly signal: AbortSignal
  readonly lease: Lease
  /** Records progress of the item. */
  progress(progress: unknown): Promise<void>
}

export type Handler<Payload> = (item: QueueItem<Payload>, context: WorkContext) => unknown

export interface WorkOptions {
  /** Handlers at once; default 1. A queue with a processing lock always runs one. */
  readonly concurrency?: number
  /** Items claimed ahead of free handlers; default 0. */
  readonly prefetch?: number
  /** Length of the leases, ms, at least 500; default is the queue's, then the handle's. */
  readonly leaseMs?: number
  /** How the waits between retries grow; default that of the queue. */
  readonly backoff?: BackoffOptions
  /**
   * Look for work at least this often even when nothing rings, ms. By default every second, and less and less often, down
   * to every five seconds, while there is nothing to do and rings are known to arrive.
   */
  readonly pollEveryMs?: number
  /** Stops the worker like `stop()`. */
  readonly signal?: AbortSignal
  /**
   * On SIGINT and SIGTERM, drains for at most 8 s, gives back what is left, and lets the signal end the process unless
   * the program listens for it too; a second signal gives back at once. Default true; false leaves it to the program.
   */
  readonly stopOnSignals?: boolean
}

interface Claimed<Payload> {
  readonly item: QueueItem<Payload>
  readonly lease: Lease
}

/** Nothing was there to claim; monotonic ms. */
interface Idleness {
  /** When it began. */
  readonly since: number
  /** Since when each look has found something that could not be asked for yet. */
  readonly seenAt?: number | undefined
  /** When the last claim was answered. */
  readonly claimedAt: number
}

/** How an item is to end. */
interface Ending {
  readonly send: () => Promise<unknown>
  /** What its handler threw. */
  readonly error?: unknown
}

/** A handler at work. */
interface Running<Payload> {
  readonly claimed: Claimed<Payload>
  /** Made with the signal, when a handler asks for it. */
  stop: AbortController | null
  isAbandoned: boolean
  done: Promise<void>
}

const defaults = Object.freeze({ concurrency: 1, prefetch: 0, pollEveryMs: 1000, stopOnSignals: true })
/** Where rings are heard and nobody says how often to look. */
const maxPollEveryMs = 5000
/** As often as a running process heals: a claim heals what a look does not see. */
const claimEveryMs = 5000
/** However crowded a queue is, an item that nobody takes is seen within this time. */
const maxSpreadMs = 500
/** How much later to look after the first look in vain; it doubles with each further one. */
const spreadMsFirst = 4
/** A queue that nobody rings for is not crowded any more: the spread halves in this time. */
const spreadHalfLifeMs = 1000
/** What is due by our clock may not be by the store's. */
const lookAtLeastMs = 20
const optionNames = [...Object.keys(defaults), 'leaseMs', 'backoff', 'signal']

/** Checked before anything is claimed: refused with each failure, it would end items for good. */
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
/** For the answers of the store, once the drain is over. */
export const lastAnswersMs = 2_000
/** A request that was refused when it was repeated is made once more, to learn why; then the item fails, then it lapses. */
const maxFinishes = 3
/** A day. Timers of Node know nothing longer than 24 of them: they would fire at once. */
const maxTimeMs = 24 * 60 * 60 * 1000

export class Worker<Payload> {
  readonly #session: Session
  readonly #queue: Queue<Payload>
  readonly #handler: Handler<Payload>
  readonly #options: Required<Omit<WorkOptions, 'leaseMs' | 'backoff' | 'signal'>> &
    Pick<WorkOptions, 'leaseMs' | 'backoff'>
  readonly #environment: Environment
  /** Nobody said how often to look. */
  readonly #mayRest: boolean
  readonly #ahead: Claimed<Payload>[] = []
  /** Not by id: an item that was lost and claimed again is in two handlers. */
  readonly #running = new Set<Running<Payload>>()
  readonly #finishing = new Set<Promise<unknown>>()
  readonly #listeners = new WorkerListeners<Payload>((error, name) =>
    this.#logTrouble(error, { event: name }),
  )
  /** Told when a claim was answered, an item has ended, or the worker stops. */
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
  /** How long after a ring it looks at the latest, and when the last ring was heard, monotonic ms. */
  #spreadMs = 0
  #heardAt = 0
  #cancelDelay: () => void = () => {}
  /** Work was added by this process. */
  #isExpecting = false
  #failures = 0
  /** Claims so far, and the last of them that found nothing to claim; 0 where items have ended since. */
  #claims = 0
  #emptyClaim = 0
  #stopped = false
  #hasLock = false
  readonly #lockUse: LockUse = {
    isAtWork: () =>
      this.#claiming !== null ||
      this.#finishing.size + this.#ahead.length > 0 ||
      (this.#running.size > 0 && this.#session.keepsLock(processingLockName(this.#queue.name))),
  }
  #takesLock: boolean | null = null

  /** `onStopped` is told each time a stop has come to its end. */
  constructor(
    session: Session,
    queue: Queue<Payload>,
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
    this.#options = { ...defaults, ...options }
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

  /** Nobody waits for it, so nobody would hear of its failure. */
  readonly #stopUnheard = () => void this.stop().catch((error) => this.#warn(error))

  /** Items in handlers now. */
  get running(): number {
    return this.#running.size
  }

  /**
   * Calls `listener` for each event of this name, and returns how to stop that. Listeners are called in the order of
   * asking; the worker does not wait for them, and logs what they throw as `worker.failed`.
   */
  on<Name extends WorkerEventName>(name: Name, listener: WorkerListener<Payload, Name>): () => void {
    assertListener(name, listener)
    return this.#listeners.add(name, listener)
  }

  /**
   * Resolves to true once this worker holds no item and a claim has found nothing ready in its queue; to false when the
   * worker is stopped first. Items that are delayed, blocked or waiting for their next try are not ready. What others
   * hold is not waited for. While the queue is paused, or its processing lock is held by others, it goes on waiting:
   * `signal` gives up, and the promise rejects with its reason.
   */
  async idle({ signal }: { signal?: AbortSignal } = {}): Promise<boolean> {
    assertSignal('worker.idle', signal)
    const claimsBefore = this.#claims
    // One that is under way may have been decided before what the caller has just added.
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

  /** Nothing is held, and nothing was asked that may bring something. */
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
   * Claims nothing more, gives back what was only fetched ahead, waits for handlers up to `drainMs`, then fires
   * their signals and gives their items back.
   */
  async stop({ drainMs = drainDefaultMs }: { drainMs?: number } = {}): Promise<void> {
    assertWhole('drainMs', drainMs, 0, maxTimeMs)
    try {
      await this.#stop(drainMs)
    } finally {
      this.#session.leaveLock(this.#queue.name, this.#lockUse)
      // It leaves work behind, perhaps: another worker of this process need not find that out by itself.
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
    // What a store that is away does not answer by then is asked again without us, until its lease has lapsed.
    await settlesWithin(this.#environment, lastAnswersMs, Promise.allSettled(this.#abandon()))
  }

  /** Every handler has returned, and the store has answered what came of it. */
  async #drained(): Promise<void> {
    await this.#claimedLast()
    await Promise.all([...this.#running].map(({ done }) => done))
    await Promise.all(this.#finishing)
    await this.#leaveLock()
  }

  async #leaveLock(): Promise<void> {
    if (!this.#hasLock) return
    this.#hasLock = false
    // Not what another worker of this process took when this one had lost it.
    if (this.#session.useLock(this.#queue.name, this.#lockUse)) await this.#queue.releaseProcessingLock()
  }

  /** The last claim is answered, and what it brought is on its way back. */
  async #claimedLast(): Promise<void> {
    await this.#claiming
    await Promise.all(this.#ahead.splice(0).map((claimed) => this.#giveBack(claimed)))
  }

  /** What is left is asked for once more, and so is the last claim, which may bring something. */
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

  /** Renewed no longer: it is given back when its lease ends. Nothing happens where it has ended already. */
  #letLapse({ id, token }: QueueItem<Payload>): void {
    this.#session.keeper.lose({ kind: 'item', id, token }, 'its worker could not finish it')
    this.#session.ended('item', id, token, {})
  }

  /**
   * All idle workers of a queue are rung for the same item. One that gets what it asks for looks at once. One that came too
   * late looks a little later from then on, each at a random time, so that of forty workers one looks first, takes the item,
   * and the others are spared most looks and nearly all claims.
   */
  #heard(): void {
    const now = this.#environment.monotonic()
    this.#spreadMs *= 0.5 ** ((now - this.#heardAt) / spreadHalfLifeMs)
    this.#heardAt = now
    const delayMs = this.#spreadMs * this.#environment.random()
    if (delayMs < 1) {
      this.#ring()
      return
    }
    // Not listening meanwhile: to hear a hundred rings a second costs forty processes a whole core.
    this.#unwake()
    this.#cancelDelay = this.#environment.timer(delayMs, () => {
      this.#listen()
      this.#ring()
    })
  }

  #listen(): void {
    this.#unwake = this.#session.onRing({ kind: 'queue', name: this.#queue.name }, () => this.#heard())
  }

  /**
   * While others stand in line to write, one of them most likely takes what was seen. Forty idle workers that joined the line
   * for one item would make everybody wait for forty turns. Left alone for long, it is asked for all the same.
   */
  #leavesItToOthers(idle: Idleness): boolean {
    const now = this.#environment.monotonic()
    if (now - (idle.seenAt ?? now) >= maxSpreadMs || this.#session.engine.isCrowded?.() !== true) return false
    this.#idle = { ...idle, seenAt: idle.seenAt ?? now }
    return true
  }

  #cameTooLate(): void {
    this.#spreadMs = Math.min(maxSpreadMs, 2 * Math.max(spreadMsFirst, this.#spreadMs))
  }

  #ring(): void {
    this.#rung = true
    this.#fill()
  }

  /** Work is being added by this process: an idle worker claims behind it, in the same transaction. */
  #expect(): void {
    if (this.#idle === null || this.#claiming !== null) return
    this.#isExpecting = true
    this.#claimSoon()
  }

  /** Starts what is at hand, then asks for more. */
  #fill(): void {
    while (!this.#stopped && this.#running.size < this.#concurrency && this.#ahead.length > 0) {
      const claimed = this.#ahead.shift() as Claimed<Payload>
      // Lost while it waited for its turn: it is another's now.
      if (claimed.lease.isHeld) this.#start(claimed)
    }
    this.#claimSoon()
  }

  /** Once everything that ends in this turn has ended: one claim for all free handlers, in their transaction. */
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
        this.#spreadMs /= 2
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
      // Asked anew: there may have been no queue when it was asked first.
      this.#takesLock = null
      this.#warn(error)
      this.#failures++
      return errorWaitMs(this.#failures)
    }
  }

  /**
   * All idle workers of a queue are rung for each item, and one gets it: they read first, or each ring would cost one write
   * transaction per worker. How long it may stay idle after all, 0 when it should claim.
   */
  async #stillQuietMs(): Promise<number> {
    const idle = this.#idle
    const now = this.#environment.monotonic()
    if (idle === null || this.#isExpecting || this.#takesLock || now - idle.claimedAt >= claimEveryMs)
      return 0
    const look = await this.#session.call('queue.look', { queue: this.#queue.name, lapses: true })
    // Once for each lapse: what stays although its lease is over is asked for no more often than anything else.
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
    // Asked before the last item is finished, the store would answer with that item once more.
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
      // Nobody sits on the lock without an item: others may want it, and a pause may last. Noted when it is given back, so
      // that a failure is made good after the next look.
      if (this.#hasLock && answer.outcome !== 'held') await this.#queue.releaseProcessingLock()
      this.#hasLock = false
      return answer
    } finally {
      // Nobody is woken: others would find no more than this one did, and would wake each other for ever.
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
    // Expired means later than its end. What lapsed and stays is no reason to hurry.
    const isLapsing = lapseInMs != null && lapseInMs >= 0
    return Math.min(pollMs, dueMs, isLapsing ? Math.max(lookAtLeastMs, lapseInMs + 1) : pollMs)
  }

  /** As long again as it has been idle: a queue that is quiet now will mostly stay so, and rings are heard. */
  #pollMs(): number {
    const { pollEveryMs } = this.#options
    if (!this.#mayRest || this.#idle === null || !this.#session.engine.hearsRings) return pollEveryMs
    const idleForMs = this.#environment.monotonic() - this.#idle.since
    return Math.min(Math.max(pollEveryMs, idleForMs), maxPollEveryMs)
  }

  #start(claimed: Claimed<Payload>): void {
    const running: Running<Payload> = { claimed, stop: null, isAbandoned: false, done: Promise.resolve() }
    // Noted before it begins: a handler may throw before it first waits.
    this.#running.add(running)
    running.done = this.#run(running)
  }

  async #run(running: Running<Payload>): Promise<void> {
    const { item } = running.claimed
    try {
      const finish = await this.#handle(running)
      if (!running.isAbandoned) void this.#finish(running.claimed, finish)
    } catch (error) {
      // A fault of our own. Nobody works on the item any more, so nobody may renew it.
      this.#warn(error, item.id)
      this.#letLapse(item)
    } finally {
      this.#running.delete(running)
      this.#fill()
      this.#tellChange()
    }
  }

  /** Runs the handler; answers with how the item is then to end. */
  async #handle(running: Running<Payload>): Promise<Ending> {
    const { item, lease } = running.claimed
    const context: WorkContext = {
      // Made when asked for: most handlers of short items never look at it.
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
      // It needed the store that this very process is closing: no fault of the item.
      if (this.#session.isClosed && isClosedError(error)) return { send: () => this.#release(item) }
      const failure = failureOf(error)
      // What is given back or lost already has not failed: such a handler mostly throws because it was told to stop.
      const level = running.isAbandoned || !lease.isHeld ? 'info' : 'warn'
      this.#session.logger[level]?.(failureFacts(item, failure), 'item.failed')
      const says = { token: item.token, ...this.#backoff, ...retryableOf(error) }
      return { send: () => this.#queue.fail(item.id, failure, says), error }
    }
  }

  /** The work is done, whatever its handler happened to return: a result that cannot be kept is told of and left out. */
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

  /** Not waited for here: the next claim is asked in the same turn and shares the transaction. */
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
   * Until the store has answered or the lease is gone: an item must not stay held with nobody at work on it. What a
   * workflow lets neither be completed nor fail lapses.
   */
  async #untilAnswered(claimed: Claimed<Payload>, first: Ending): Promise<void> {
    const { item, lease } = claimed
    // The handler may have asked for that itself, as merge handlers do. Only if it was refused there is something to do.
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
        // Cannot be completed where it stands (a merge handler that returned early): then it has failed.
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

  /** Tells what the store answered, whether the worker asked for it or its handler did; false where there is no answer. */
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

  /** Resolves when what was asked for this lease is answered; null when nothing was. */
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

/** An error may say of itself that trying again is pointless. */
function retryableOf(error: unknown): { retryable?: boolean } {
  if (isHoldfastError(error)) return {}
  const retryable = retryableIn(error)
  return retryable === undefined ? {} : { retryable }
}

/** A misspelt name would never be told anything. */
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
