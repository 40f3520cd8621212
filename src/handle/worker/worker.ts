/**
 * The claim loop: claim, run the handler, finish, claim the next. Finishing an item and claiming the next are requested
 * in the same tick, so they share a transaction. Prefetched items are held under leases like any other. Above 300 lines
 * because the public class keeps the state that claiming, draining and stopping share.
 */
import { onAbort } from '../../abort.ts'
import { processingLockName } from '../../domain/queue.ts'
import { shown } from '../../domain/text.ts'
import { type Environment, settlesWithin } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { parseInput } from '../../operations/operation.ts'
import { assertSignal, given } from '../../runtime/session/input.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { WaitOptions } from '../call-options.ts'
import type { Queue } from '../queue/queue.ts'
import { type Claimed, type Ending, ItemWork, type Running } from './item-work.ts'
import { type ClaimAnswer, LockedClaims } from './locked-claims.ts'
import { Pace } from './pace.ts'
import { type Handler, stopOptions, type WorkOptions, workSettings } from './work-options.ts'
import { type WorkerEventName, type WorkerListener, workerEventNames } from './worker-events.ts'

export const drainDefaultMs = 30_000
/** Time for the store's answers after the drain. */
export const lastAnswersMs = 2_000

/** Runs a handler for each item of a queue. Created by `hf.work()`. */
export class Worker<Payload> {
  readonly #session: Session
  readonly #queue: Queue<unknown, Payload>
  readonly #settings: ReturnType<typeof workSettings>
  readonly #environment: Environment
  readonly #work: ItemWork<Payload>
  readonly #pace: Pace
  readonly #locked: LockedClaims<Payload>
  readonly #ahead: Claimed<Payload>[] = []
  /** Not by id: an item that was lost and claimed again is in two handlers. */
  readonly #running = new Set<Running<Payload>>()
  readonly #finishing = new Set<Promise<unknown>>()
  /** Called when a claim was answered, an item has ended, or the worker stops. */
  readonly #onChange = new Set<() => void>()
  #unwake: () => void = () => {}
  readonly #unexpect: () => void
  #unsignal: () => void = () => {}
  readonly #onStopped: () => void
  #claiming: Promise<void> | null = null
  #claimsSoon = false
  #cancelPoll: () => void = () => {}
  #rung = false
  #cancelDelay: () => void = () => {}
  /** This process has just added work. */
  #isExpecting = false
  /** Number of claims so far, and of the last one that found nothing; 0 if items have ended since. */
  #claims = 0
  #emptyClaim = 0
  #stopped = false
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
    this.#settings = workSettings(session, options)
    this.#session = session
    this.#queue = queue
    this.#environment = session.environment
    this.#work = new ItemWork(session, queue, handler, this.#settings)
    this.#pace = new Pace(session, this.#settings.pollEveryMs)
    this.#locked = new LockedClaims(session, queue, { isAtWork: () => this.#isAtWork })
    this.#listen()
    this.#unexpect = session.expectedWork.add(queue.name, () => this.#expect())
    this.#unsignal = onAbort(options.signal, this.#stopUnheard)
    if (!this.#stopped) this.#fill()
  }

  /** Logs a failure, since nobody awaits this stop. */
  readonly #stopUnheard = () => void this.stop().catch((error) => this.#work.warn(error))

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
    return this.#work.listeners.add(name, listener)
  }

  /**
   * Resolves to true once this worker holds no item and a claim has found nothing ready in its queue, or to false if
   * the worker is stopped first. Items that are delayed, blocked or waiting for their next attempt are not ready. Items
   * that others hold are not waited for. While the queue is paused, or others hold its processing lock, it keeps
   * waiting: use `signal` to give up, and the promise rejects with its reason.
   */
  async idle({ signal }: Pick<WaitOptions, 'signal'> = {}): Promise<boolean> {
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

  /** Whether other workers of this process have to wait for it before they use the processing lock. */
  get #isAtWork(): boolean {
    if (this.#claiming !== null || this.#finishing.size + this.#ahead.length > 0) return true
    return this.#running.size > 0 && this.#session.grants.keepsLock(processingLockName(this.#queue.name))
  }

  #changed(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#onChange.delete(done)
        unheard()
        resolve()
      }
      this.#onChange.add(done)
      const unheard = onAbort(signal, done)
    })
  }

  #tellChange(): void {
    for (const tell of [...this.#onChange]) tell()
  }

  /**
   * Stops claiming, gives back prefetched items, and waits for handlers up to `drainMs` (default 30 s). Then fires the
   * signals of those still running and gives their items back.
   */
  async stop({
    drainMs = drainDefaultMs,
  }: {
    /** How long to wait for handlers, ms; default 30 s. */
    drainMs?: number | undefined
  } = {}): Promise<void> {
    parseInput(stopOptions, { drainMs })
    try {
      await this.#stop(drainMs)
    } finally {
      this.#locked.leave()
      // It may leave work behind. Wake the other workers of this process, so they need not find out by polling.
      if (this.#takesLock) this.#session.expectedWork.call(this.#queue.name)
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
    await this.#locked.release()
  }

  /** Waits for the last claim, and gives back what it brought. */
  async #claimedLast(): Promise<void> {
    await this.#claiming
    await Promise.all(this.#ahead.splice(0).map((claimed) => this.#giveBack(claimed)))
  }

  /** Gives back what is left, including what the last claim may still bring. */
  #abandon(): Promise<unknown>[] {
    const left = [...this.#running].map((running) => {
      this.#work.abandon(running)
      return this.#giveBack(running.claimed)
    })
    return [...left, this.#claimedLast(), this.#locked.release()]
  }

  #giveBack(claimed: Claimed<Payload>): Promise<unknown> {
    return this.#finish(claimed, this.#work.release(claimed.item))
  }

  #heard(): void {
    const delayMs = this.#pace.heard()
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

  #ring(): void {
    this.#rung = true
    this.#fill()
  }

  /** This process is adding work: an idle worker claims right behind it, in the same transaction. */
  #expect(): void {
    if (!this.#pace.isIdle || this.#claiming !== null) return
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
      (this.#takesLock ? 0 : this.#settings.prefetch) -
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
    return this.#takesLock ? 1 : this.#settings.concurrency
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
      const answer = this.#takesLock ? await this.#claimUnderLock() : await this.#claimMany(limit)
      if (Array.isArray(answer)) {
        for (const claimed of answer) this.#work.watch(claimed)
        this.#pace.found()
        this.#ahead.push(...answer)
        return 0
      }
      if (answer.outcome === 'empty') this.#emptyClaim = this.#claims
      return this.#pace.foundNothing(answer)
    } catch (error) {
      if (this.#session.isClosed) this.#stopped = true
      // Ask again next time: the queue may not have existed yet.
      this.#takesLock = null
      this.#work.warn(error)
      return this.#pace.failed()
    }
  }

  /** How long there is nothing to do but wait, ms; 0 = claim now. */
  async #stillQuietMs(): Promise<number> {
    if (this.#isExpecting || this.#takesLock || !this.#pace.looksFirst) return 0
    return this.#pace.looked(
      await this.#session.call('queue.look', { queue: this.#queue.name, lapses: true }),
    )
  }

  async #claimMany(limit: number): Promise<ClaimAnswer<Payload>> {
    const answer = await this.#queue.claimMany(limit, this.#claimOptions)
    return answer.outcome === 'claimed' ? answer.items : answer
  }

  async #claimUnderLock(): Promise<ClaimAnswer<Payload>> {
    // Asked before the last item is finished, the store would return that item again.
    return this.#finishing.size > 0 ? { outcome: 'unfinished' } : this.#locked.claim(this.#claimOptions)
  }

  get #claimOptions(): { leaseMs?: number } {
    return given({ leaseMs: this.#settings.leaseMs })
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
      const ending = await this.#work.handle(running)
      if (!running.isAbandoned) void this.#finish(running.claimed, ending)
    } catch (error) {
      // A bug of ours. Nobody works on the item any more, so it must not be renewed.
      this.#work.warn(error, item.id)
      this.#work.letLapse(item)
    } finally {
      this.#running.delete(running)
      this.#fill()
      this.#tellChange()
    }
  }

  /** Not awaited by the caller: the next claim is requested in the same tick and shares the transaction. */
  #finish(claimed: Claimed<Payload>, ending: Ending): Promise<unknown> {
    const finishing = this.#work.untilEnded(claimed, ending).finally(() => {
      this.#finishing.delete(finishing)
      // A failed item may be ready again by now.
      this.#emptyClaim = 0
      if (this.#takesLock) this.#ring()
      this.#tellChange()
    })
    this.#finishing.add(finishing)
    return finishing
  }

  /** The same as `stop()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
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
