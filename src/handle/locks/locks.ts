/**
 * `hf.locks`: named locks, with a waiting line, and path reservations. Long because a program sees one class with one
 * method per call.
 */
import { settlesWithin } from '../../environment.ts'
import { InvalidError } from '../../errors.ts'
import { isReservation, type LeaseRef, lockNameOf } from '../../operations/lease/lease.ts'
import type { LockInfo } from '../../operations/lock/read.ts'
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import type { AskedOf, ResultOf } from '../../operations/table.ts'
import type { LockView } from '../../operations/view.ts'
import { answerThatEnded, type Lease } from '../../runtime/lease/held-lease.ts'
import {
  askInPieces,
  given,
  knownOptionsOf,
  optionsOf,
  orReject,
  sumOf,
} from '../../runtime/session/input.ts'
import { requestOf } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'
import { LineWatches } from '../../runtime/waiting/line-watch.ts'
import { type LockAnswer, waitForLock } from '../../runtime/waiting/lock-wait.ts'
import {
  type MutationOptions,
  type OptionsFor,
  type Own,
  type TokenOptions,
  waitIn,
} from '../call-options.ts'
import { defaultLock, type Runs } from '../runs.ts'
import { Batch } from '../worker/batch.ts'
import { assertBatch, type BatchHandler, type BatchItems } from '../worker/batch-options.ts'
import { drainDefaultMs } from '../worker/worker.ts'
import type { AcquiredLock, BatchReport, LockedWork, ReservedPaths, StartupReport } from './lock-answers.ts'
import {
  type AcquireOptions,
  type ReserveOptions,
  type RunBatchOptions,
  type WithLockOptions,
  withLockOptions,
} from './lock-options.ts'
import { releaseGrant } from './lock-release.ts'
import { recoverOnStartup } from './startup-recovery.ts'

/** Named locks and path reservations, all under leases. */
export class Locks {
  readonly #session: Session
  readonly #runs: Runs
  readonly #lines: LineWatches
  readonly #closing = new AbortController()
  /** Waits, batches and work under locks that have not ended yet. */
  readonly #pending = new Set<Promise<unknown>>()
  /** What recovery did when the store was opened, until somebody asks for it. */
  #atOpen: RecoveryReport | null

  constructor(session: Session, runs: Runs, atOpen: RecoveryReport | null) {
    this.#session = session
    this.#runs = runs
    this.#lines = new LineWatches(session)
    this.#atOpen = atOpen
  }

  /**
   * Acquires a lock that is free or lapsed. Otherwise says who holds it or, with `waitMs`, waits in line, first come,
   * first served. For this handle's own agent, the lock is renewed until it is released; a manual lock lasts 1 h.
   */
  acquireLock(name?: string, options?: Own<AcquireOptions>): Promise<AcquiredLock<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  acquireLock(name: string | undefined, options: AcquireOptions): Promise<AcquiredLock>
  acquireLock(name = defaultLock, options: AcquireOptions = {}): Promise<AcquiredLock> {
    const asked = () => optionsOf('locks.acquireLock', options)
    // Room is reserved for the whole wait, because a lock granted during it has to be renewed.
    return orReject(() => this.#session.withRoom(1, asked(), () => this.#acquire(name, options)))
  }

  async #acquire(name: string, options: AcquireOptions): Promise<AcquiredLock> {
    const { waitMs, signal } = waitIn('locks.acquireLock', options)
    assertNoWaiter(options)
    const isThis = ({ kind, id }: LeaseRef) => kind === 'lock' && lockNameOf(id) === name
    const givenBack = waitMs > 0 ? null : this.#session.whenGivenBack(isThis)
    if (givenBack !== null) await givenBack
    signal?.throwIfAborted()
    const { leaseMs } = options
    const token = options.reentrant ? this.#session.grants.tokenFor('lock', name, options) : options.token
    const request = requestOf('locks.acquireLock', { name, leaseMs, token }, options)
    if (waitMs > 0) {
      const closing = this.#closing.signal
      const wait = { lines: this.#lines, input: request.input, options, waitMs, signal, closing, isThis }
      return this.#granted(await this.#watched(waitForLock(this.#session, wait)), options)
    }
    const requestedAt = this.#session.environment.monotonic()
    const answer = await this.#session.call('locks.acquireLock', request.input, request.options)
    // The answer cannot be `waiting`: this request did not ask to wait in line.
    return this.#granted({ answer: answer as LockAnswer['answer'], requestedAt }, options)
  }

  #granted({ answer, requestedAt }: LockAnswer, options: AcquireOptions): AcquiredLock {
    if (answer.outcome === 'held') return answer
    const { outcome, lock, recoveredFrom } = answer
    return { outcome, lock, lease: this.#session.grantedLock(lock, requestedAt, options), recoveredFrom }
  }

  /**
   * Does some work under a lock: acquires it, waiting in line for `waitMs` if it is held, renews it meanwhile, and
   * releases it however the work ends. The work gets the lease: heed its `signal`, and call its `assertHeld()` right
   * before each effect. Rejects with LEASE_LOST if the lock was lost before the work ended, whatever the work returned.
   */
  withLock<Result>(
    name: string,
    work: (lease: Lease) => Result | PromiseLike<Result>,
    options: WithLockOptions = {},
  ): Promise<LockedWork<Result>> {
    return this.#watched(this.#withLock(name, work, options))
  }

  async #withLock<Result>(
    name: string,
    work: (lease: Lease) => Result | PromiseLike<Result>,
    options: WithLockOptions,
  ): Promise<LockedWork<Result>> {
    assertWork(work)
    const asked = knownOptionsOf('locks.withLock', options, withLockOptions)
    const answer = await this.#under(name, asked, async (lease) => {
      const result = await work(lease)
      return { result, lease, wasHeld: lease.isHeld }
    })
    if (answer.outcome === 'held') return answer
    const { result, lease, wasHeld } = answer.result
    // What the store answered to the release counts. If it did not answer, this process's own clock decides.
    const isOurs = answerThatEnded(lease) !== null || (wasHeld && !lease.signal.aborted)
    if (!isOurs) lease.assertHeld()
    return { outcome: 'finished', result }
  }

  /** Acquires a lock that is renewed, works under it, and releases it. */
  async #under<Result>(
    name: string,
    options: AcquireOptions,
    work: (lease: Lease) => Promise<Result>,
  ): Promise<LockedWork<Result>> {
    const acquired = await this.acquireLock(name, options)
    if (acquired.outcome === 'held') return acquired
    try {
      return { outcome: 'finished', result: await work(acquired.lease ?? unrenewed(name)) }
    } finally {
      // How the work ended is what counts. An unanswered release is retried, or else the lock lapses.
      await this.releaseLock(acquired).catch((error: unknown) => {
        this.#session.logger.warn({ lock: name, error: String(error) }, 'release.failed')
      })
    }
  }

  /** Renews a lock for its full length from now. LEASE_LOST once somebody else has it. */
  async renewLock(
    name = defaultLock,
    options: OptionsFor<'locks.renewLock', 'name'> = {},
  ): Promise<LockView> {
    const token = this.#session.grants.tokenFor('lock', name, optionsOf('locks.renewLock', options))
    try {
      return await this.#session.ask('locks.renewLock', { name, token }, options)
    } catch (error) {
      this.#session.grants.refused(error, 'lock', name, token, options)
      throw error
    }
  }

  /**
   * Releases a lock, given its name or the result that granted it, which includes holder and token. Returns false, and
   * changes nothing, when the token is not the current one.
   */
  async releaseLock(
    lock: string | { readonly lock: LockView },
    options: TokenOptions = {},
  ): Promise<boolean> {
    const { name, by } = grantMeant(lock, optionsOf('locks.releaseLock', options))
    const token = this.#session.grants.tokenFor('lock', name, by)
    const request = requestOf('locks.releaseLock', { name, token }, by)
    return (await releaseGrant(this.#session, request)).released
  }

  /** Whether a lock is held now by an agent (default: this handle's) or for a run. */
  isLockedBy(name = defaultLock, options: Omit<AskedOf<'locks.isLockedBy'>, 'name'> = {}): Promise<boolean> {
    return this.#session.ask('locks.isLockedBy', { name }, options)
  }

  /** Whether any named lock is held now. Processing locks and reservations do not count. */
  isAnyLocked(): Promise<boolean> {
    return this.#session.call('locks.isAnyLocked', {})
  }

  /** Who holds a lock, why, since and until when, who waits for it, and the progress of its run. */
  getCurrentLockInfo(name = defaultLock): Promise<LockInfo> {
    return this.#session.call('locks.getCurrentLockInfo', { name })
  }

  /** Locks by name, including processing locks and reservations. Lapsed ones are marked stale. */
  list(options: AskedOf<'locks.list'> = {}): Promise<ResultOf<'locks.list'>> {
    return this.#session.ask('locks.list', {}, options)
  }

  /** For operators: takes a lock from its holder, whose signal fires. False when nobody held it. */
  async forceRelease(name: string, options: OptionsFor<'locks.forceRelease', 'name'>): Promise<boolean> {
    const { released } = await this.#session.ask('locks.forceRelease', { name }, options)
    return released > 0
  }

  /** For operators: takes every named lock and reservation from an agent. Returns how many. */
  async forceReleaseAgent(
    agent: string,
    options: Omit<AskedOf<'locks.forceReleaseAgent'>, 'agent'> & Pick<MutationOptions, 'idempotencyKey'>,
  ): Promise<number> {
    const pieces = await askInPieces('locks.forceReleaseAgent', options, (asked) =>
      this.#session.ask('locks.forceReleaseAgent', { agent }, asked),
    )
    return sumOf(pieces, ({ released }) => released)
  }

  /** For operators: gives a lock to another agent, as a manual lease under a new token. */
  transfer(name: string, options: OptionsFor<'locks.transfer', 'name'>): Promise<LockView> {
    return this.#session.ask('locks.transfer', { name }, options)
  }

  /** Reserves paths by glob patterns, all or none. Renew and release them like a lock, by the name you get. */
  reserve(patterns: string | readonly string[], options?: Own<ReserveOptions>): Promise<ReservedPaths<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  reserve(patterns: string | readonly string[], options: ReserveOptions): Promise<ReservedPaths>
  reserve(patterns: string | readonly string[], options: ReserveOptions = {}): Promise<ReservedPaths> {
    const asked = () => optionsOf('locks.reserve', options)
    return orReject(() => this.#session.withRoom(1, asked(), () => this.#reserve(patterns, options)))
  }

  async #reserve(patterns: string | readonly string[], options: ReserveOptions): Promise<ReservedPaths> {
    const givenBack = this.#session.whenGivenBack(isReservation)
    if (givenBack !== null) await givenBack
    const requestedAt = this.#session.environment.monotonic()
    const named = { patterns: typeof patterns === 'string' ? [patterns] : patterns, leaseMs: options.leaseMs }
    const answer = await this.#session.ask('locks.reserve', named, options)
    if (answer.outcome === 'held') return answer
    return { ...answer, lease: this.#session.grantedLock(answer.lock, requestedAt, options) }
  }

  /** Who holds a path: the reservations that cover it, and locks of that name. */
  whoHas(path: string): Promise<LockView[]> {
    return this.#session.call('locks.whoHas', { path })
  }

  /**
   * Frees locks that have lapsed or whose process is proven dead, and pauses their runs. Locks that others hold are
   * left alone. Opening the store does the same; the first report includes what it found. `pauseReason` is the reason
   * given to the paused runs; the one used at open is an option of `open`.
   */
  async recoverLocksOnStartup(
    options: Pick<AskedOf<'recovery.run'>, 'pauseReason'> = {},
  ): Promise<StartupReport> {
    const asked = knownOptionsOf('locks.recoverLocksOnStartup', options, ['pauseReason'])
    const atOpen = this.#atOpen
    this.#atOpen = null
    return recoverOnStartup(this.#session, asked, atOpen)
  }

  /**
   * Runs a handler for the items of a run under its lock, several at once, and records the outcome of each. Called
   * again after a pause or a crash, it handles only what is left.
   */
  runBatch<Item extends string | number>(
    run: string,
    items: BatchItems<Item>,
    handler: BatchHandler<Item>,
    options?: RunBatchOptions<Item>,
  ): Promise<BatchReport>
  /** The same for items of any other kind, whose keys only `keyOf` knows. */
  runBatch<Item>(
    run: string,
    items: BatchItems<Item>,
    handler: BatchHandler<Item>,
    options: RunBatchOptions<Item> & { readonly keyOf: (item: Item) => string },
  ): Promise<BatchReport>
  runBatch<Item>(
    run: string,
    items: BatchItems<Item>,
    handler: BatchHandler<Item>,
    options: RunBatchOptions<Item> = {},
  ): Promise<BatchReport> {
    return this.#watched(this.#runBatch(run, items, handler, options))
  }

  /** Makes `close()` wait for it. */
  #watched<Result>(running: Promise<Result>): Promise<Result> {
    const settled: Promise<unknown> = running.then(
      () => this.#pending.delete(settled),
      () => this.#pending.delete(settled),
    )
    this.#pending.add(settled)
    return running
  }

  async #runBatch<Item>(
    run: string,
    items: BatchItems<Item>,
    handler: BatchHandler<Item>,
    options: RunBatchOptions<Item>,
  ): Promise<BatchReport> {
    assertBatch(items, handler, optionsOf('locks.runBatch', options))
    const { lock = defaultLock, reason, user, waitMs, delayMs, leaseMs, ...batch } = options
    const { signal } = batch
    const asked = { run, reason, user, waitMs, delayMs, leaseMs, signal }
    const answer = await this.#under(lock, given(asked) as AcquireOptions, (lease) => {
      const parts = { session: this.#session, runs: this.#runs, run, lock, lease }
      return new Batch({ ...parts, closing: this.#closing.signal }, items, handler, batch).work()
    })
    if (answer.outcome === 'held') return answer
    return { outcome: answer.result.status, progress: answer.result }
  }

  /**
   * Ends the waits and batches of this handle. Work under way is finished, unless that takes too long.
   *
   * @internal
   */
  async close(): Promise<void> {
    this.#closing.abort()
    await settlesWithin(this.#session.environment, drainDefaultMs, Promise.all(this.#pending))
  }
}

/** Only `waitMs` may join the line: a caller that joined it by hand would never ask for the lock when its turn came. */
function assertNoWaiter(options: object): void {
  const option = 'wait' in options ? 'wait' : 'waiter'
  if (!(option in options)) return
  throw new InvalidError({
    what: `locks.acquireLock: unknown option "${option}"`,
    next: 'did you mean "waitMs"?',
    facts: { unknown: [option] },
  })
}

/** Work takes as long as it takes, so its lock has to be renewed. */
function unrenewed(lock: string): never {
  throw new InvalidError({
    what: `lock ${lock} would not be renewed while the work under it runs`,
    next: 'open the store with background: true',
  })
}

function assertWork(work: unknown): void {
  if (typeof work === 'function') return
  throw new InvalidError({
    what: 'locks.withLock: the work is not a function',
    next: 'pass a function that does the work, after the name of the lock',
  })
}

/** Which lock to release, and as whom. The name has no default: that could release somebody else's work by mistake. */
function grantMeant(lock: unknown, options: TokenOptions): { name: string; by: TokenOptions } {
  if (typeof lock === 'string') return { name: lock, by: options }
  const { name, holder, lease } = (lock as { lock?: Partial<LockView> } | null)?.lock ?? {}
  if (typeof name === 'string' && typeof lease?.token === 'number')
    return { name, by: { ...(holder == null ? {} : { agent: holder }), token: lease.token, ...options } }
  throw new InvalidError({
    what: 'locks.releaseLock: no lock was named',
    next: 'pass its name, or what acquireLock or reserve returned when it was granted',
  })
}
