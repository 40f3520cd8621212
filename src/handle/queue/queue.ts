/**
 * `hf.queue(name)`: the operations of one queue as methods. Long because a program sees one class with one method per
 * call; what a call does besides asking the store is in the files beside it.
 */
import type { Failure } from '../../domain/failure.ts'
import { failureOf } from '../../domain/failure.ts'
import type { QueuePosition } from '../../domain/queue-position.ts'
import { fitText } from '../../domain/text.ts'
import { InvalidError } from '../../errors.ts'
import type { EventView } from '../../operations/event/event.ts'
import type { QueueView } from '../../operations/queue/define.ts'
import type { RecoveryReport } from '../../operations/recovery/report.ts'
import type { RecoveryStats } from '../../operations/recovery/stats.ts'
import type { AskedOf } from '../../operations/table.ts'
import type { LockView } from '../../operations/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import {
  askInPieces,
  given,
  knownOptionsOf,
  optionsOf,
  orReject,
  sumOf,
} from '../../runtime/session/input.ts'
import type { RecoverOptions } from '../../runtime/session/recovery.ts'
import type { Session } from '../../runtime/session/session.ts'
import type {
  ClaimOptions,
  MutationOptions,
  OptionsFor,
  Own,
  OwnClaimOptions,
  TokenOptions,
  WaitOptions,
} from '../call-options.ts'
import { HeldItems } from '../held-items.ts'
import { historyOf } from '../history.ts'
import { ItemClaims } from './item-claims.ts'
import { OwnProcessingLock } from './processing-lock.ts'
import type {
  Claim,
  ManyClaims,
  ProcessingLock,
  QueueItem,
  QueueStats,
  RetryReport,
} from './queue-answers.ts'
import type {
  AddOptions,
  FailOptions,
  ListOptions,
  NewItem,
  OperatorOptions,
  ProcessingLockOptions,
  QueueOptions,
  ReclaimOptions,
  RetryFailedOptions,
  SubmitOptions,
} from './queue-options.ts'
import { type QueueOperation, QueueRequests } from './queue-requests.ts'
import { retryFailed } from './retry-failed.ts'

/**
 * One queue of the store. A queue is created on first use; nothing is read or written before that. `add` takes an
 * `Input`, which is stored as JSON and shown that way by `get`, `list` and `peek`. Claims and handlers get the `Output`
 * that the queue's schema makes of it; without a schema both are the same.
 */
export class Queue<Input = unknown, Output = Input> {
  /** The name of the queue. */
  readonly name: string
  readonly #session: Session
  readonly #requests: QueueRequests<Input, Output>
  readonly #held: HeldItems<QueueOperation, QueueItem<Input>>
  readonly #lock: OwnProcessingLock
  readonly #claims: ItemClaims<Input, Output>

  constructor(session: Session, name: string, options: QueueOptions<Input, Output> = {}) {
    this.name = name
    this.#session = session
    const settings = optionsOf('queue', options)
    assertSchema(settings.schema)
    this.#requests = new QueueRequests(session, name, settings)
    this.#held = new HeldItems(this.#requests)
    this.#lock = new OwnProcessingLock(this.#requests)
    this.#claims = new ItemClaims(this.#requests, this.#held, this.#lock)
  }

  /** Creates the queue now, with its workflow and limits, instead of on first use. */
  define(): Promise<QueueView> {
    return this.#requests.define()
  }

  /** Adds an item and returns it with its position. DUPLICATE while its key or dedupe key belongs to an open item. */
  async add(payload: Input, options: AddOptions = {}): Promise<{ item: QueueItem<Input> } & QueuePosition> {
    const asked = withWallTime(optionsOf('queue.add', options))
    // Awaited here so that the stack trace of a refusal includes the caller.
    return await this.#requests.write('queue.add', { payload: await this.#requests.storable(payload) }, asked)
  }

  /** Adds up to 1,000 plain items in one transaction, all or none. */
  async addMany(items: readonly NewItem<Input>[], options: MutationOptions = {}): Promise<{ ids: string[] }> {
    // The operation's schema refuses anything but a list, in its own words.
    if (!Array.isArray(items))
      return this.#requests.write('queue.addMany', { items: items as never }, options)
    const checked = await Promise.all(
      items.map(async (each) =>
        each !== Object(each)
          ? each
          : given({ ...withWallTime(each), payload: await this.#requests.storable(each.payload) }),
      ),
    )
    return await this.#requests.write('queue.addMany', { items: checked }, options)
  }

  /**
   * Submits a change under the key of its workspace: adds it (`new`), updates the open one (`updated`) or reopens a
   * finished one (`resubmitted`). An update sets the fields you give and merges `data` field by field; submitting the
   * same again changes nothing. While somebody holds the change, only its head, priority and `maxAttempts` can be
   * updated; HELD if anything else differs.
   */
  async submit(
    key: string,
    options: SubmitOptions<Input>,
  ): Promise<{ outcome: 'new' | 'updated' | 'resubmitted'; item: QueueItem<Input> } & QueuePosition> {
    const asked = withWallTime(optionsOf('queue.submit', options))
    const payload = await this.#submitted(key, asked)
    return await this.#requests.write('queue.submit', { key, payload }, asked)
  }

  /** A missing payload is stored as null, which has to fit the schema too. An open change keeps the payload it has. */
  async #submitted(key: string, { payload }: Pick<SubmitOptions<Input>, 'payload'>): Promise<unknown> {
    if (payload !== undefined) return this.#requests.storable(payload)
    if (!this.#requests.hasSchema) return undefined
    await this.#requests.storable(null).catch(async (error) => {
      if ((await this.get(key))?.outcome !== null) throw error
    })
    return undefined
  }

  /** The item that would be claimed next, or null. Claims nothing. */
  peek(): Promise<QueueItem<Input> | null> {
    return this.#requests.read('queue.peek', {}, {})
  }

  /**
   * Claims one item. For this handle's own agent, the lease is renewed until the item is finished or released. With
   * `waitMs`, waits while there is nothing to claim, the processing lock is held, or the queue is paused.
   */
  next(options?: OwnClaimOptions & WaitOptions): Promise<Claim<Output, Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  next(options: ClaimOptions & WaitOptions): Promise<Claim<Output>>
  next(options: ClaimOptions & WaitOptions = {}): Promise<Claim<Output>> {
    return orReject(() => this.#claims.one('queue.next', 1, options))
  }

  /**
   * Acquires the processing lock and claims the next item in one step. Called again by the holder, returns its
   * unfinished item. On a queue without `slots`, the lock keeps out only other callers of this method: `next()`,
   * `claimMany()` and workers ignore it.
   */
  nextWithLock(options?: OwnClaimOptions & WaitOptions): Promise<Claim<Output, Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  nextWithLock(options: ClaimOptions & WaitOptions): Promise<Claim<Output>>
  nextWithLock(options: ClaimOptions & WaitOptions = {}): Promise<Claim<Output>> {
    return orReject(() => this.#claims.one('queue.nextWithLock', 2, options))
  }

  /**
   * Claims up to `limit` items, each under its own lease. Repeated under its idempotency key, returns those that are
   * still held; LEASE_LOST when none is.
   */
  claimMany(limit: number, options?: Omit<OwnClaimOptions, 'token'>): Promise<ManyClaims<Output, Lease>>
  /** The same with manual leases: `lease` is null when nobody renews it. */
  claimMany(limit: number, options: Omit<ClaimOptions, 'token'>): Promise<ManyClaims<Output>>
  claimMany(limit: number, options: Omit<ClaimOptions, 'token'> = {}): Promise<ManyClaims<Output>> {
    return this.#claims.many(limit, options)
  }

  /** Renews a lease by hand, for its full length from now. LEASE_LOST once somebody else has the item. */
  renew(ref: string, options: OptionsFor<'queue.renew', 'ref'> = {}): Promise<QueueItem<Input>> {
    return this.#held.change('queue.renew', ref, {}, options)
  }

  /** Records progress (any JSON). Progress that is new since the last crash clears the item's crash count, at most ten times. */
  progress(
    ref: string,
    progress: unknown,
    options: OptionsFor<'queue.progress', 'ref' | 'progress'> = {},
  ): Promise<QueueItem<Input>> {
    return this.#held.change('queue.progress', ref, { progress }, options)
  }

  /** Moves an item to another state of its workflow. ILLEGAL_MOVE names both states. */
  move(
    ref: string,
    to: string,
    options: OptionsFor<'queue.move', 'ref' | 'to'> = {},
  ): Promise<QueueItem<Input>> {
    return this.#held.change('queue.move', ref, { to }, options)
  }

  /** Completes an item. LEASE_LOST when it is no longer yours. Repeating it is harmless. */
  complete(ref: string, options: OptionsFor<'queue.complete', 'ref'> = {}): Promise<QueueItem<Input>> {
    return this.#held.complete('queue.complete', ref, {}, options)
  }

  /**
   * Reports a handled failure: whatever was thrown, or a text. The item is retried, with growing waits, while attempts are left; then it fails for
   * good.
   */
  fail(ref: string, error: unknown, options: FailOptions = {}): Promise<QueueItem<Input>> {
    return this.#held.finish('queue.fail', ref, { error: reported(error) }, options)
  }

  /** Gives an item back unfinished. False, with nothing changed, when it was no longer yours. */
  release(ref: string, options: OptionsFor<'queue.release', 'ref'> = {}): Promise<boolean> {
    return this.#held.release('queue.release', ref, options)
  }

  /** An item by id or key; null when there is none. */
  get(ref: string): Promise<QueueItem<Input> | null> {
    return this.#requests.get(ref)
  }

  /** Items in claim order, one page at a time. Pass `next` as `after` to get the next page. */
  list(options: ListOptions = {}): Promise<{ items: QueueItem<Input>[]; next: string | null }> {
    return this.#requests.read('queue.list', {}, options)
  }

  /** Position of an item among those that can be claimed, counting from 1; null when it cannot be claimed. */
  position(ref: string): Promise<number | null> {
    return this.#requests.read('queue.position', { ref }, {})
  }

  /**
   * The exact number of items in each state; none for a queue that nobody has used. The cost grows with the number of
   * items, about 0.4 s for a million. `fleet.status()` counts only up to 10,000 and costs the same however long the
   * queue is.
   */
  stats(): Promise<QueueStats> {
    return this.#requests.read('queue.stats', {}, {})
  }

  /** Retries a failed item. DUPLICATE when another open item has taken its key or dedupe key. */
  retry(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#requests.write('queue.retry', { ref }, options)
  }

  /**
   * Retries every failed item of this queue that can be retried, after a bad deploy for example. An item that cannot be
   * retried stays failed and is reported. Calling it again is safe: it retries what is still failed.
   */
  retryFailed(options: RetryFailedOptions = {}): Promise<RetryReport> {
    return retryFailed(this.#requests, options)
  }

  /** Cancels an item. A holder loses it, together with the processing lock it was claimed under. */
  cancel(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#requests.write('queue.cancel', { ref }, options)
  }

  /** Changes the priority of an item. Lower numbers come first. */
  setPriority(ref: string, priority: number, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#requests.write('queue.setPriority', { ref, priority }, options)
  }

  /** Releases an item from quarantine and resets its crash count. */
  releaseFromQuarantine(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#requests.write('queue.releaseFromQuarantine', { ref }, options)
  }

  /**
   * Removes an item; its events stay. False when there is none. Refused while other items wait for it. HELD while
   * somebody holds it, unless forced.
   */
  remove(ref: string, options: OptionsFor<'queue.remove', 'ref'> = {}): Promise<boolean> {
    return this.#requests.write('queue.remove', { ref }, options)
  }

  /**
   * Removes items that finished longer ago than `maxAgeMs` (0 = all finished ones) and returns how many. When the wall
   * clock and the lease clock disagree, the one that yields the smaller age counts, so a date that has just jumped
   * ahead removes nothing.
   */
  async cleanup(options: OptionsFor<'queue.cleanup'>): Promise<number> {
    const pieces = await askInPieces('queue.cleanup', options, (asked) =>
      this.#requests.write('queue.cleanup', {}, asked),
    )
    return sumOf(pieces, ({ removed }) => removed)
  }

  /** Stops new claims; held items carry on. False when the queue was already paused. */
  async pause(options: OptionsFor<'queue.pause'> = {}): Promise<boolean> {
    return (await this.#requests.write('queue.pause', {}, options)).changed
  }

  /** Allows claims again. False when the queue was not paused. */
  async resume(options: MutationOptions = {}): Promise<boolean> {
    return (await this.#requests.write('queue.resume', {}, options)).changed
  }

  /**
   * Acquires the processing lock of the queue, or says who holds it. A lock you already hold is renewed; a lapsed one
   * is taken over.
   */
  acquireProcessingLock(options?: Own<ProcessingLockOptions>): Promise<ProcessingLock<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  acquireProcessingLock(options: ProcessingLockOptions): Promise<ProcessingLock>
  acquireProcessingLock(options: ProcessingLockOptions = {}): Promise<ProcessingLock> {
    return this.#lock.acquire(options)
  }

  /** Gives the processing lock back; its item stays claimed. False when the lock is not yours. */
  releaseProcessingLock(options: TokenOptions = {}): Promise<boolean> {
    return this.#lock.release(options)
  }

  /** The processing lock, lapsed or not (see `stale`); null when nobody has it. */
  getProcessingLock(): Promise<LockView | null> {
    return this.#requests.read('queue.getProcessingLock', {}, {})
  }

  /** Whether items of this queue are claimed under its processing lock. */
  async usesProcessingLock(): Promise<boolean> {
    await this.#requests.defineOnce()
    const queue = await this.#requests.read('queue.describe', {}, {})
    return queue !== null && queue.slots !== null
  }

  /** Whether somebody has the processing lock and its lease has lapsed. */
  isLockStale(): Promise<boolean> {
    return this.#requests.read('queue.isLockStale', {}, {})
  }

  /** Extends the lock and the item claimed with it. LEASE_LOST once the lock has lapsed. */
  extendLock(options: OptionsFor<'queue.extendLock'>): Promise<LockView & { capped: boolean }> {
    return this.#lock.change('queue.extendLock', options)
  }

  /** Renews the lock and the item claimed with it, both for their full length from now. */
  renewLock(options: OptionsFor<'queue.renewLock'> = {}): Promise<LockView> {
    return this.#lock.change('queue.renewLock', options)
  }

  /**
   * For operators: reclaims items that are held and gave no sign of life for `thresholdMs` (default 300 s), up to 1,000 per call, and
   * lapsed processing locks. Returns the number of items. `force` also takes them from live processes that renew; it
   * needs a `reason`.
   */
  async reclaimStale(options: ReclaimOptions = {}): Promise<number> {
    return (await this.#requests.write('queue.reclaimStale', {}, options)).entriesReclaimed
  }

  /** Gives back everything in this queue whose lease has lapsed. Also runs by itself, before claims and on a timer. */
  detectAndRecoverStale(options: Pick<RecoverOptions, 'dryRun'> = {}): Promise<RecoveryReport> {
    return orReject(() =>
      this.#session.recovery.recover({
        ...knownOptionsOf('queue.detectAndRecoverStale', options, ['dryRun']),
        queue: this.name,
      }),
    )
  }

  /** What a recovery would do now, and what past recoveries did. Changes nothing. */
  getRecoveryStats(): Promise<RecoveryStats> {
    return this.#session.recovery.stats({ queue: this.name })
  }

  /**
   * Records a finished rebase (its head, and the commit it is tested against) and moves the change from rebasing to
   * testing.
   */
  updateRebaseMetadata(
    ref: string,
    options: OptionsFor<'queue.updateRebaseMetadata', 'ref'>,
  ): Promise<QueueItem<Input>> {
    return this.#held.change('queue.updateRebaseMetadata', ref, {}, options)
  }

  /** Whether the change was tested against the commit the target is at now. False if it has not been tested at all. */
  isFresh(ref: string, mainSha: string): Promise<boolean> {
    return this.#requests.read('queue.isFresh', { ref, mainSha }, {})
  }

  /** Sends a change back to rebasing because the target has moved to `mainSha`. */
  returnToRebasing(ref: string, mainSha: string, options: TokenOptions = {}): Promise<QueueItem<Input>> {
    return this.#held.change('queue.returnToRebasing', ref, { mainSha }, options)
  }

  /**
   * Moves a change from ready_to_merge to merging. With `mainSha`, the commit the target is at now, ILLEGAL_MOVE unless
   * the change was tested against it. Without it nothing is checked, and the event says so.
   */
  beginMerge(ref: string, options: OptionsFor<'queue.beginMerge', 'ref'> = {}): Promise<QueueItem<Input>> {
    return this.#held.change('queue.beginMerge', ref, {}, options)
  }

  /** Records that a change has landed as `mergedSha`, and frees the changes stacked on it. Repeating it is harmless. */
  completeMerge(ref: string, mergedSha: string, options: TokenOptions = {}): Promise<QueueItem<Input>> {
    return this.#held.complete('queue.completeMerge', ref, { mergedSha }, options)
  }

  /** Reports a failed merge. The change fails for good unless you mark the failure as retryable. */
  failMerge(ref: string, error: unknown, options: FailOptions = {}): Promise<QueueItem<Input>> {
    return this.#held.finish('queue.failMerge', ref, { error: reported(error) }, options)
  }

  /** Events of one item, oldest first. With `limit`, only the newest ones. */
  async events(ref: string, options: Pick<AskedOf<'events.list'>, 'limit'> = {}): Promise<EventView[]> {
    knownOptionsOf('queue.events', options, ['limit'])
    const id = (await this.get(ref))?.id ?? ref
    if (options.limit === undefined) return historyOf(this.#session, 'item', id)
    const page = await this.#session.call('events.list', { subject: 'item', id, newest: true, ...options })
    return page.events
  }
}

function withWallTime<Options extends { readonly runAt?: number | Date | null | undefined }>(
  options: Options,
) {
  const { runAt } = options
  const asked = runAt instanceof Date ? { ...options, runAt: runAt.getTime() } : options
  return asked as Options & { readonly runAt?: number | null | undefined }
}

/**
 * Storable text of whatever a program threw, cut to fit. Text that the caller wrote is refused when it is too long, and
 * so is undefined: the argument was forgotten.
 */
function reported(error: unknown): Failure {
  if (error === undefined) return error as never
  return typeof error === 'string' ? { message: fitText(error, error.length) } : failureOf(error)
}

/** Fails early: otherwise the mistake would show only with the first payload. */
function assertSchema(schema: unknown): void {
  if (schema === undefined || (Object(schema) === schema && '~standard' in (schema as object))) return
  throw new InvalidError({
    what: 'queue: schema: is not a Standard Schema',
    next: 'give one made with zod, valibot, arktype or the like',
  })
}
