/** `hf.queue(name)`: the operations of one queue as methods. */
import type { Failure } from '../domain/failure.ts'
import { failureFacts, failureOf } from '../domain/failure.ts'
import { processingLockName } from '../domain/queue.ts'
import type { QueuePosition } from '../domain/queue-position.ts'
import { fitText } from '../domain/text.ts'
import { InvalidError, isHoldfastError } from '../errors.ts'
import type { EventView } from '../operations/event/event.ts'
import { type LeaseRef, lockNameOf, lockRef } from '../operations/lease/lease.ts'
import type { ClaimOutcome } from '../operations/queue/claim.ts'
import type { QueueView } from '../operations/queue/define.ts'
import type { RecoveryReport } from '../operations/recovery/report.ts'
import type { RecoveryStats } from '../operations/recovery/stats.ts'
import {
  type AskedOf,
  type InputOf,
  type OperationName,
  operations,
  type ResultOf,
} from '../operations/table.ts'
import type { ItemView, LeaseView, LockView } from '../operations/view.ts'
import type { Lease } from '../runtime/lease/keeper.ts'
import { type LeaseLeft, leftByRelease } from '../runtime/lease/lease-ending.ts'
import {
  askInPieces,
  assertSignal,
  given,
  keyOfPiece,
  knownOptionsOf,
  optionsOf,
  orReject,
  sumOf,
} from '../runtime/session/input.ts'
import {
  type CallOptions,
  type OptionsOf,
  type Request,
  requestOf,
  type Session,
} from '../runtime/session/session.ts'
import { waitForWork, waitIsOver } from '../runtime/waiting/claim-wait.ts'
import {
  assertWait,
  type ClaimOptions,
  type MutationOptions,
  type OwnClaimOptions,
  type TokenOptions,
  type WaitOptions,
} from './call-options.ts'
import { historyOf } from './history.ts'
import { parsed, payloadOf, storable } from './payload.ts'
import type { Claim, ManyClaims, ProcessingLock, QueueItem, QueueStats } from './queue-answers.ts'
import type {
  AddOptions,
  FailOptions,
  ListOptions,
  NewItem,
  OperatorOptions,
  QueueOptions,
  ReclaimOptions,
  SubmitOptions,
} from './queue-options.ts'

/** A claim without the round it belongs to. */
interface ClaimRequest<Name extends ItemClaim> {
  readonly operation: Name
  readonly options: ClaimOptions
  readonly named: Partial<InputOf<Name>>
  readonly patienceMs?: number | undefined
}

type ItemClaim = 'queue.next' | 'queue.nextWithLock' | 'queue.claimMany'

/** Operations that take a queue; the handle fills in its name. */
type QueueOperation = {
  [Name in OperationName]: { readonly queue: string } extends Pick<
    InputOf<Name>,
    keyof InputOf<Name> & 'queue'
  >
    ? Name
    : never
}[OperationName]

/** Options of a method on a queue, minus the fields that the method passes itself. */
type OptionsHere<Name extends QueueOperation, Named extends PropertyKey = never> = OptionsOf<
  Name,
  Named | 'queue'
>

/** Writes that return the item they changed. */
type ItemWrite = {
  [Name in QueueOperation]: ResultOf<Name> extends ItemView ? Name : never
}[QueueOperation]

/** The same answer with typed payloads. */
type Typed<Answer, Payload> = Answer extends ItemView
  ? Omit<Answer, 'payload'> & { readonly payload: Payload }
  : Answer extends { item: ItemView }
    ? Omit<Answer, 'item'> & { readonly item: QueueItem<Payload> }
    : Answer extends { items: ItemView[] }
      ? Omit<Answer, 'items'> & { items: QueueItem<Payload>[] }
      : Answer

/** An item as the request refers to it (`sent`), and as its grant is remembered here (`id`). */
interface Named {
  readonly sent: string
  readonly id: string
  readonly token: number | undefined
}

/**
 * A claim repeated under its idempotency key turned out to have met an item that does not fit the schema. The caller
 * claims the next one.
 */
const passedOver = Symbol()

/**
 * One queue of the store. A queue is created on first use; nothing is read or written before that. `add` takes an
 * `Input`, which is stored as JSON and shown that way by `get`, `list` and `peek`. Claims and handlers get the `Output`
 * that the queue's schema makes of it; without a schema both are the same.
 */
export class Queue<Input = unknown, Output = Input> {
  /** The name of the queue. */
  readonly name: string
  readonly #session: Session
  readonly #options: QueueOptions<Input, Output>
  readonly #hasSettings: boolean
  #defined: Promise<unknown> | null = null

  constructor(session: Session, name: string, options: QueueOptions<Input, Output> = {}) {
    this.name = name
    this.#session = session
    this.#options = optionsOf('queue', options)
    const { schema, ...settings } = this.#options
    assertSchema(schema)
    this.#hasSettings = Object.values(settings).some((value) => value !== undefined)
  }

  /** Creates the queue now, with its workflow and limits, instead of on first use. */
  async define(): Promise<QueueView> {
    const { schema, workflow, ...limits } = this.#options
    if (typeof workflow === 'object') await this.#session.call('workflow.define', { workflow })
    const named = typeof workflow === 'object' ? workflow.name : workflow
    return this.#session.ask('queue.define', { workflow: named, queue: this.name }, limits)
  }

  /** Adds an item and returns it with its position. DUPLICATE while its key or dedupe key belongs to an open item. */
  async add(payload: Input, options: AddOptions = {}): Promise<{ item: QueueItem<Input> } & QueuePosition> {
    const asked = withWallTime(optionsOf('queue.add', options))
    // Awaited here so that the stack trace of a refusal includes the caller.
    return await this.#write('queue.add', { payload: await this.#storable(payload) }, asked)
  }

  /** Adds up to 1,000 plain items in one transaction, all or none. */
  async addMany(items: readonly NewItem<Input>[], options: MutationOptions = {}): Promise<{ ids: string[] }> {
    // The operation's schema refuses anything but a list, in its own words.
    if (!Array.isArray(items)) return this.#write('queue.addMany', { items: items as never }, options)
    const checked = await Promise.all(
      items.map(async (each) =>
        each !== Object(each)
          ? each
          : given({ ...withWallTime(each), payload: await this.#storable(each.payload) }),
      ),
    )
    return await this.#write('queue.addMany', { items: checked }, options)
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
    return await this.#write('queue.submit', { key, payload }, asked)
  }

  /** A missing payload is stored as null, which has to fit the schema too. An open change keeps the payload it has. */
  async #submitted(key: string, { payload }: Pick<SubmitOptions<Input>, 'payload'>): Promise<unknown> {
    if (payload !== undefined) return this.#storable(payload)
    if (!this.#options.schema) return undefined
    await this.#storable(null).catch(async (error) => {
      if ((await this.get(key))?.outcome !== null) throw error
    })
    return undefined
  }

  /** The item that would be claimed next, or null. Claims nothing. */
  peek(): Promise<QueueItem<Input> | null> {
    return this.#read('queue.peek', {}, {})
  }

  /**
   * Claims one item. For this handle's own agent, the lease is renewed until the item is finished or released. With
   * `waitMs`, waits while there is nothing to claim, the processing lock is held, or the queue is paused.
   */
  next(options?: OwnClaimOptions & WaitOptions): Promise<Claim<Output, Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  next(options: ClaimOptions & WaitOptions): Promise<Claim<Output>>
  next(options: ClaimOptions & WaitOptions = {}): Promise<Claim<Output>> {
    return orReject(() => this.#claimWaiting('queue.next', 1, optionsOf('queue.next', options)))
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
    return orReject(() =>
      this.#claimWaiting('queue.nextWithLock', 2, optionsOf('queue.nextWithLock', options)),
    )
  }

  #claimWaiting(
    operation: 'queue.next' | 'queue.nextWithLock',
    leases: number,
    { waitMs = 0, signal, ...options }: ClaimOptions & WaitOptions,
  ): Promise<Claim<Output>> {
    assertWait(operation, waitMs, options.idempotencyKey)
    assertSignal(operation, signal)
    signal?.throwIfAborted()
    const taken: LeaseRef[] = []
    const claim = (patienceMs?: number) =>
      this.#session.withRoom(leases, options, () =>
        this.#claim(operation, options, taken, { signal, patienceMs }),
      )
    if (waitMs === 0) return claim()
    const isEnough = ({ outcome }: Claim<Output>) => outcome === 'claimed'
    const giveBack = () => this.#giveBack(taken, options)
    const { agent } = options
    return waitForWork(this.#session, { queue: this.name, waitMs, signal, agent, claim, isEnough, giveBack })
  }

  async #giveBack(taken: readonly LeaseRef[], options: CallOptions): Promise<void> {
    const by = given({ agent: options.agent }) as { agent?: string }
    for (const { kind, id, token } of taken) {
      if (kind === 'item') await this.release(id, { ...by, token, reason: waitIsOver })
      else await this.releaseProcessingLock({ ...by, token })
    }
  }

  /** Adds to `taken` only what this claim newly acquired: a holder may be granted again what it already has. */
  async #claim(
    operation: 'queue.next' | 'queue.nextWithLock',
    options: ClaimOptions,
    taken: LeaseRef[],
    { signal, patienceMs }: { signal: AbortSignal | undefined; patienceMs: number | undefined },
  ): Promise<Claim<Output>> {
    const givenBack = this.#session.whenGivenBack((lease) => this.#isClaimedBy(operation, lease), patienceMs)
    if (givenBack !== null) await givenBack
    const newLocks: LeaseRef[] = []
    try {
      for (let round = 0; ; round++) {
        signal?.throwIfAborted()
        const requestedAt = this.#session.environment.monotonic()
        const named = { token: this.#lockToken(options) }
        const answer = await this.#claimRound({ operation, options, named, patienceMs }, round)
        if (answer === passedOver) continue
        if (answer.outcome !== 'claimed') return answer
        const fresh = this.#newIn(answer, options)
        taken.push(...fresh)
        newLocks.push(...fresh.filter(({ kind }) => kind === 'lock'))
        if (answer.lock) this.#grantedLock(answer.lock, requestedAt, options)
        const lease = this.#grantedItem(answer.item, answer.lease, requestedAt, options)
        const checked = await this.#checkedItem(answer.item, options)
        if ('item' in checked) {
          newLocks.length = 0
          const { item } = checked
          return { outcome: 'claimed', item, lease, ...(answer.lock ? { lock: answer.lock } : {}) }
        }
        // As long as we hold the lock, every further round would return this same item.
        if (answer.lock && !checked.hasFailed) {
          if (newLocks.length === 0) throw checked.error
          await this.#giveBackLocks(newLocks.splice(0), options)
        }
      }
    } finally {
      // Do not keep a lock that was acquired for an item that does not fit the schema.
      if (newLocks.length > 0) await this.#giveBackLocks(newLocks, options)
    }
  }

  /** Each round is its own request under its own key. A repeated one may have met an item that did not fit. */
  async #claimRound<Name extends ItemClaim>(
    { operation, options, named, patienceMs }: ClaimRequest<Name>,
    round: number,
  ): Promise<ResultOf<Name> | typeof passedOver> {
    const { idempotencyKey } = options
    const asked = round === 0 ? options : { ...options, ...keyOfPiece(idempotencyKey, round) }
    try {
      return await this.#ask(this.#request(operation, named, asked), patienceMs)
    } catch (error) {
      if (idempotencyKey === undefined || !(await this.#isOfUnfit(error))) throw error
      return passedOver
    }
  }

  /** Whether a claim could not be repeated because none of the items it had claimed fitted the schema. */
  async #isOfUnfit(error: unknown): Promise<boolean> {
    if (!this.#options.schema || !isHoldfastError(error) || error.code !== 'LEASE_LOST') return false
    const { lost = [] } = error.facts
    const items = lost.filter(({ kind }) => kind === 'item')
    if (items.length === 0) return false
    for (const item of items) if (!(await this.#wasUnfit(item))) return false
    return true
  }

  /** Whether an item was found unfit when it was claimed and then failed under that same grant. */
  async #wasUnfit({ id, token }: LeaseRef): Promise<boolean> {
    const item = await this.get(id)
    if (item?.outcome !== 'failed' || item.token !== token) return false
    return this.#parsed(item.payload).then(
      () => false,
      () => true,
    )
  }

  /** Stops renewing a lock that cannot be given back. */
  async #giveBackLocks(locks: readonly LeaseRef[], { agent }: CallOptions): Promise<void> {
    const by = given({ agent }) as { agent?: string }
    for (const { token } of locks) {
      try {
        await this.releaseProcessingLock({ ...by, token })
      } catch (error) {
        this.#session.grants.ended('lock', this.#lockName, token, by)
        this.#session.logger.warn({ queue: this.name, error: String(error) }, 'worker.failed')
      }
    }
  }

  /** Whether the claim may return this lease: the processing lock or, with `nextWithLock`, an unfinished item. */
  #isClaimedBy(operation: string, { kind, id }: LeaseRef): boolean {
    return kind === 'item' ? operation === 'queue.nextWithLock' : lockNameOf(id) === this.#lockName
  }

  #newIn({ item, lease, lock }: Extract<ClaimOutcome, { outcome: 'claimed' }>, options: ClaimOptions) {
    const refs: LeaseRef[] = []
    const known = this.#session.grants.tokenFor('item', item.id, given({ agent: options.agent }))
    if (lease.token !== known) refs.push({ kind: 'item', id: item.id, token: lease.token })
    if (lock && lock.lease.token !== this.#lockToken(options))
      refs.push({ kind: 'lock', id: lockRef(lock), token: lock.lease.token })
    return refs
  }

  /**
   * Claims up to `limit` items, each under its own lease. Repeated under its idempotency key, returns those that are
   * still held; LEASE_LOST when none is.
   */
  claimMany(limit: number, options?: Omit<OwnClaimOptions, 'token'>): Promise<ManyClaims<Output, Lease>>
  /** The same with manual leases: `lease` is null when nobody renews it. */
  claimMany(limit: number, options: Omit<ClaimOptions, 'token'>): Promise<ManyClaims<Output>>
  async claimMany(limit: number, options: Omit<ClaimOptions, 'token'> = {}): Promise<ManyClaims<Output>> {
    optionsOf('queue.claimMany', options)
    return this.#session.withRoom(limit, options, () => this.#claimMany(limit, options))
  }

  /** Claims the next items when none of the claimed ones fits the schema. */
  async #claimMany(limit: number, options: ClaimOptions): Promise<ManyClaims<Output>> {
    const request = { operation: 'queue.claimMany', options, named: { limit } } as const
    for (let round = 0; ; round++) {
      const requestedAt = this.#session.environment.monotonic()
      const answer = await this.#claimRound(request, round)
      if (answer === passedOver) continue
      if (answer.outcome !== 'claimed') return answer
      const items = await this.#fitting(answer.items, requestedAt, options)
      if (items.length > 0) return { outcome: 'claimed', items }
    }
  }

  async #fitting(items: readonly ItemView[], requestedAt: number, options: ClaimOptions) {
    const claims = items.map((item) => ({
      item,
      lease: this.#grantedItem(item, item.lease as LeaseView, requestedAt, options),
    }))
    const checked = await Promise.all(
      claims.map(async ({ item, lease }) => ({ ...(await this.#checkedItem(item, options)), lease })),
    )
    return checked.flatMap((each) => ('item' in each ? [{ item: each.item, lease: each.lease }] : []))
  }

  #grantedItem(
    { id, key }: Pick<ItemView, 'id' | 'key'>,
    { token, leaseMs }: LeaseView,
    requestedAt: number,
    options: CallOptions,
  ): Lease | null {
    const ref = { kind: 'item', id, token, leaseMs: leaseMs ?? 0, requestedAt } as const
    return this.#session.granted(id, ref, options, { item: { queue: this.name, key } })
  }

  #grantedLock(lock: LockView, requestedAt: number, options: CallOptions): Lease | null {
    const { token, leaseMs } = lock.lease
    const ref = { kind: 'lock', id: lockRef(lock), token, leaseMs: leaseMs ?? 0, requestedAt } as const
    return this.#session.granted(this.#lockName, ref, options)
  }

  /** Fails an item for good when its payload no longer fits the queue's schema, so that it never reaches a handler. */
  async #checkedItem(
    item: ItemView,
    options: CallOptions,
  ): Promise<{ item: QueueItem<Output> } | { error: unknown; hasFailed: boolean }> {
    if (!this.#options.schema) return { item: item as QueueItem<Output> }
    try {
      return { item: { ...item, payload: await this.#parsed(item.payload) } }
    } catch (error) {
      return { error, hasFailed: await this.#failUnfit(item, error, options) }
    }
  }

  /**
   * Lets the item lapse if it cannot be failed: its trouble must not cost the caller the other items of the same claim.
   */
  async #failUnfit(item: ItemView, error: unknown, options: CallOptions): Promise<boolean> {
    const { id, token } = item
    const failure = failureOf(error)
    this.#session.logger.warn(failureFacts(item, failure), 'item.failed')
    try {
      await this.fail(id, failure, { ...given({ agent: options.agent }), token, retryable: false })
      return true
    } catch (refusal) {
      // A request without an answer is retried, so its lease must be kept until then.
      const isAsked = this.#session.endings.countOf({ kind: 'item', id, token }) > 0
      if (!isAsked) this.#session.grants.ended('item', id, token, options)
      this.#session.logger.warn({ queue: this.name, error: String(refusal) }, 'worker.failed')
      return false
    }
  }

  /** Renews a lease by hand, for its full length from now. LEASE_LOST once somebody else has the item. */
  renew(
    ref: string,
    options: TokenOptions & { leaseMs?: number | undefined } = {},
  ): Promise<QueueItem<Input>> {
    return this.#guarded('queue.renew', ref, {}, options)
  }

  /** Records progress (any JSON). Progress shows that the work is sound, so it resets the item's crash count to 0. */
  progress(
    ref: string,
    progress: unknown,
    options: TokenOptions & { data?: Record<string, unknown> | undefined } = {},
  ): Promise<QueueItem<Input>> {
    return this.#guarded('queue.progress', ref, { progress }, options)
  }

  /** Moves an item to another state of its workflow. ILLEGAL_MOVE names both states. */
  move(
    ref: string,
    to: string,
    options: TokenOptions & {
      data?: Record<string, unknown> | undefined
      expectedVersion?: number | undefined
    } = {},
  ): Promise<QueueItem<Input>> {
    return this.#guarded('queue.move', ref, { to }, options)
  }

  /** Completes an item. LEASE_LOST when it is no longer yours. Repeating it is harmless. */
  complete(
    ref: string,
    options: TokenOptions & { result?: unknown; expectedVersion?: number | undefined } = {},
  ): Promise<QueueItem<Input>> {
    return this.#complete('queue.complete', ref, {}, options)
  }

  /**
   * Reports a handled failure: whatever was thrown, or a text. The item is retried, with growing waits, while attempts are left; then it fails for
   * good.
   */
  fail(ref: string, error: unknown, options: FailOptions = {}): Promise<QueueItem<Input>> {
    return this.#finish('queue.fail', ref, { error: reported(error) }, options)
  }

  /** Gives an item back unfinished. False, with nothing changed, when it was no longer yours. */
  async release(ref: string, options: TokenOptions & { reason?: string | undefined } = {}): Promise<boolean> {
    optionsOf('queue.release', options)
    const { sent, id, token } = this.#granted(ref, options) ?? (await this.#found(ref, options))
    const request = this.#request('queue.release', { ref: sent, token }, options)
    return await this.#session.endGrant(request, { kind: 'item', name: id, token }, leftByRelease)
  }

  /** An item by id or key; null when there is none. */
  get(ref: string): Promise<QueueItem<Input> | null> {
    return this.#read('queue.get', { ref }, {})
  }

  /** Items in claim order, one page at a time. Pass `next` as `after` to get the next page. */
  list(options: ListOptions = {}): Promise<{ items: QueueItem<Input>[]; next: string | null }> {
    return this.#read('queue.list', {}, options)
  }

  /** Position of an item among those that can be claimed, counting from 1; null when it cannot be claimed. */
  position(ref: string): Promise<number | null> {
    return this.#read('queue.position', { ref }, {})
  }

  /**
   * The exact number of items in each state; none for a queue that nobody has used. The cost grows with the number of
   * items, about 0.4 s for a million. `fleet.status()` counts only up to 10,000 and costs the same however long the
   * queue is.
   */
  stats(): Promise<QueueStats> {
    return this.#read('queue.stats', {}, {})
  }

  /** Retries a failed item. DUPLICATE when another open item has taken its key or dedupe key. */
  retry(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#write('queue.retry', { ref }, options)
  }

  /** Cancels an item. A holder loses it, together with the processing lock it was claimed under. */
  cancel(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#write('queue.cancel', { ref }, options)
  }

  /** Changes the priority of an item. Lower numbers come first. */
  setPriority(ref: string, priority: number, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#write('queue.setPriority', { ref, priority }, options)
  }

  /** Releases an item from quarantine and resets its crash count. */
  releaseFromQuarantine(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Input>> {
    return this.#write('queue.releaseFromQuarantine', { ref }, options)
  }

  /**
   * Removes an item; its events stay. False when there is none. Refused while other items wait for it. HELD while
   * somebody holds it, unless forced.
   */
  remove(ref: string, options: OperatorOptions & { force?: boolean | undefined } = {}): Promise<boolean> {
    return this.#write('queue.remove', { ref }, options)
  }

  /**
   * Removes items that finished longer ago than `maxAgeMs` (0 = all finished ones) and returns how many. When the wall
   * clock and the lease clock disagree, the one that yields the smaller age counts, so a date that has just jumped
   * ahead removes nothing.
   */
  async cleanup(options: Omit<AskedOf<'queue.cleanup'>, 'queue'> & MutationOptions): Promise<number> {
    const pieces = await askInPieces('queue.cleanup', options, (asked) =>
      this.#write('queue.cleanup', {}, asked),
    )
    return sumOf(pieces, ({ removed }) => removed)
  }

  /** Stops new claims; held items carry on. False when the queue was already paused. */
  async pause(options: MutationOptions & { reason?: string | undefined } = {}): Promise<boolean> {
    return (await this.#write('queue.pause', {}, options)).changed
  }

  /** Allows claims again. False when the queue was not paused. */
  async resume(options: MutationOptions = {}): Promise<boolean> {
    return (await this.#write('queue.resume', {}, options)).changed
  }

  /**
   * Acquires the processing lock of the queue, or says who holds it. A lock you already hold is renewed; a lapsed one
   * is taken over.
   */
  acquireProcessingLock(
    options?: OwnClaimOptions & { reason?: string | undefined },
  ): Promise<ProcessingLock<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  acquireProcessingLock(options: ClaimOptions & { reason?: string | undefined }): Promise<ProcessingLock>
  async acquireProcessingLock(
    options: ClaimOptions & { reason?: string | undefined } = {},
  ): Promise<ProcessingLock> {
    optionsOf('queue.acquireProcessingLock', options)
    return this.#session.withRoom(1, options, () => this.#acquireProcessingLock(options))
  }

  async #acquireProcessingLock(
    options: ClaimOptions & { reason?: string | undefined },
  ): Promise<ProcessingLock> {
    const givenBack = this.#session.whenGivenBack(({ id }) => lockNameOf(id) === this.#lockName)
    if (givenBack !== null) await givenBack
    const requestedAt = this.#session.environment.monotonic()
    const answer = await this.#write(
      'queue.acquireProcessingLock',
      { token: this.#lockToken(options) },
      options,
    )
    if (answer.outcome !== 'acquired') return answer
    return { ...answer, lease: this.#grantedLock(answer.lock, requestedAt, options) }
  }

  /** Gives the processing lock back; its item stays claimed. False when the lock is not yours. */
  async releaseProcessingLock(options: TokenOptions = {}): Promise<boolean> {
    const token = this.#lockToken(optionsOf('queue.releaseProcessingLock', options))
    const request = requestOf('queue.releaseProcessingLock', { queue: this.name, token }, options)
    const grant = { kind: 'lock', name: this.#lockName, token } as const
    return await this.#session.endGrant(request, grant, leftByRelease)
  }

  /** The processing lock, lapsed or not (see `stale`); null when nobody has it. */
  getProcessingLock(): Promise<LockView | null> {
    return this.#read('queue.getProcessingLock', {}, {})
  }

  /** Whether items of this queue are claimed under its processing lock. */
  async usesProcessingLock(): Promise<boolean> {
    if (this.#hasSettings) await this.#defineOnce()
    const queue = await this.#read('queue.describe', {}, {})
    return queue !== null && queue.slots !== null
  }

  /** Whether somebody has the processing lock and its lease has lapsed. */
  isLockStale(): Promise<boolean> {
    return this.#read('queue.isLockStale', {}, {})
  }

  /** Extends the lock and the item claimed with it. LEASE_LOST once the lock has lapsed. */
  extendLock(options: TokenOptions & { extraMs: number }): Promise<LockView & { capped: boolean }> {
    return this.#guardedLock('queue.extendLock', options)
  }

  /** Renews the lock and the item claimed with it, both for their full length from now. */
  renewLock(options: TokenOptions & { leaseMs?: number | undefined } = {}): Promise<LockView> {
    return this.#guardedLock('queue.renewLock', options)
  }

  /**
   * For operators: reclaims items that are held and gave no sign of life for `thresholdMs` (default 300 s), up to 1,000 per call, and
   * lapsed processing locks. Returns the number of items. `force` also takes them from live processes that renew; it
   * needs a `reason`.
   */
  async reclaimStale(options: ReclaimOptions = {}): Promise<number> {
    return (await this.#write('queue.reclaimStale', {}, options)).entriesReclaimed
  }

  /** Gives back everything in this queue whose lease has lapsed. Also runs by itself, before claims and on a timer. */
  detectAndRecoverStale(options: { dryRun?: boolean | undefined } = {}): Promise<RecoveryReport> {
    return orReject(() =>
      this.#session.recover({
        ...knownOptionsOf('queue.detectAndRecoverStale', options, ['dryRun']),
        queue: this.name,
      }),
    )
  }

  /** What a recovery would do now, and what past recoveries did. Changes nothing. */
  getRecoveryStats(): Promise<RecoveryStats> {
    return this.#session.recoveryStats({ queue: this.name })
  }

  /**
   * Records a finished rebase (its head, and the commit it is tested against) and moves the change from rebasing to
   * testing.
   */
  updateRebaseMetadata(
    ref: string,
    options: TokenOptions & { headSha: string; testedAgainstSha: string },
  ): Promise<QueueItem<Input>> {
    return this.#guarded('queue.updateRebaseMetadata', ref, {}, options)
  }

  /** Whether the change was tested against the commit the target is at now. False if it has not been tested at all. */
  isFresh(ref: string, mainSha: string): Promise<boolean> {
    return this.#read('queue.isFresh', { ref, mainSha }, {})
  }

  /** Sends a change back to rebasing because the target has moved to `mainSha`. */
  returnToRebasing(ref: string, mainSha: string, options: TokenOptions = {}): Promise<QueueItem<Input>> {
    return this.#guarded('queue.returnToRebasing', ref, { mainSha }, options)
  }

  /**
   * Moves a change from ready_to_merge to merging. With `mainSha`, the commit the target is at now, ILLEGAL_MOVE unless
   * the change was tested against it. Without it nothing is checked, and the event says so.
   */
  beginMerge(
    ref: string,
    options: TokenOptions & {
      mainSha?: string | undefined
      journal?: Record<string, unknown> | undefined
    } = {},
  ): Promise<QueueItem<Input>> {
    return this.#guarded('queue.beginMerge', ref, {}, options)
  }

  /** Records that a change has landed as `mergedSha`, and frees the changes stacked on it. Repeating it is harmless. */
  completeMerge(ref: string, mergedSha: string, options: TokenOptions = {}): Promise<QueueItem<Input>> {
    return this.#complete('queue.completeMerge', ref, { mergedSha }, options)
  }

  /** Reports a failed merge. The change fails for good unless you mark the failure as retryable. */
  failMerge(ref: string, error: unknown, options: FailOptions = {}): Promise<QueueItem<Input>> {
    return this.#finish('queue.failMerge', ref, { error: reported(error) }, options)
  }

  /** Events of one item, oldest first. With `limit`, only the newest ones. */
  async events(ref: string, options: { limit?: number | undefined } = {}): Promise<EventView[]> {
    knownOptionsOf('queue.events', options, ['limit'])
    const id = (await this.get(ref))?.id ?? ref
    if (options.limit === undefined) return historyOf(this.#session, 'item', id)
    const page = await this.#session.call('events.list', { subject: 'item', id, newest: true, ...options })
    return page.events
  }

  get #lockName(): string {
    return processingLockName(this.name)
  }

  #lockToken(options: CallOptions & { token?: number | undefined }): number | undefined {
    return this.#session.grants.tokenFor('lock', this.#lockName, options)
  }

  async #guardedLock<Name extends 'queue.extendLock' | 'queue.renewLock'>(
    operation: Name,
    options: OptionsHere<Name>,
  ): Promise<ResultOf<Name>> {
    const token = this.#lockToken(optionsOf(operation, options) as TokenOptions)
    try {
      return await this.#ask(this.#request(operation, { token }, options))
    } catch (error) {
      this.#session.grants.refused(error, 'lock', this.#lockName, token, options)
      throw error
    }
  }

  /** A write by the holder. Fills in its token, and forgets the grant once the item is no longer held. */
  async #guarded<Name extends ItemWrite, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    named: Named,
    options: OptionsHere<Name, keyof Named | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const { sent, id, token } = this.#granted(ref, by) ?? (await this.#found(ref, by))
    try {
      const item: ItemView = await this.#ask(this.#request(operation, { ...named, ref: sent, token }, by))
      if (item.phase !== 'held') this.#session.grants.ended('item', item.id, token, by, item)
      return item as QueueItem<Input>
    } catch (error) {
      this.#session.grants.refused(error, 'item', id, token, by)
      throw error
    }
  }

  /** A write by which the holder gives up the item, successfully or not. */
  async #finish<Name extends ItemWrite, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    named: Named,
    options: OptionsHere<Name, keyof Named | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#granted(ref, by) ?? (await this.#found(ref, by))
    return await this.#end(operation, subject, named, by)
  }

  /** Without a token, a repeated completion refers to the grant that was completed through this handle. */
  async #complete<Name extends ItemWrite, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    ref: string,
    named: Named,
    options: OptionsHere<Name, keyof Named | 'ref'>,
  ): Promise<QueueItem<Input>> {
    const by = optionsOf(operation, options) as TokenOptions
    const subject = this.#granted(ref, by) ?? (await this.#found(ref, by))
    const token = subject.token ?? this.#session.grants.completedUnder(subject.id, by)
    const item = await this.#end(operation, { ...subject, token }, named, by)
    if (token !== undefined && by.token === undefined) this.#session.grants.noteCompleted(item.id, token, by)
    return item
  }

  /** Skips defining the queue: it exists, since somebody holds an item of it. */
  async #end(
    operation: ItemWrite,
    { sent, id, token }: Named,
    named: object,
    by: TokenOptions,
  ): Promise<QueueItem<Input>> {
    const request = this.#request(operation, { ...named, ref: sent, token }, by)
    const item = await this.#session.endGrant(request, { kind: 'item', name: id, token }, leftBy)
    return item as QueueItem<Input>
  }

  /**
   * The grant of an item whose token is known. Awaits nothing, so that completing an item and claiming the next in the
   * same tick share a transaction, in that order. The request names the item as the caller did, so it stays the same
   * request when it is repeated after the grant was forgotten.
   */
  #granted(ref: string, options: TokenOptions): Named | null {
    const token = this.#session.grants.tokenFor('item', ref, options)
    if (token !== undefined)
      return { sent: ref, id: this.#session.grants.idOf(this.name, ref, token, options), token }
    const kept = this.#session.grants.keptUnder(this.name, ref, options)
    return kept && { sent: kept.id, id: kept.id, token: kept.token }
  }

  /** Grants are remembered by id, so a key is looked up first. */
  async #found(ref: string, options: TokenOptions): Promise<Named> {
    const id = (await this.get(ref))?.id ?? ref
    return { sent: id, id, token: this.#session.grants.tokenFor('item', id, options) }
  }

  async #storable(payload: unknown): Promise<unknown> {
    return (await storable(this.#options.schema, payload, payloadOf(this.name))).input
  }

  #parsed(stored: unknown): Promise<Output> {
    return parsed(this.#options.schema, stored, payloadOf(this.name))
  }

  #request<Name extends QueueOperation>(operation: Name, named: object, options: object): Request<Name> {
    const request = requestOf<Name, object>(operation, named, options as never)
    ;(request.input as { queue: string }).queue = this.name
    return request
  }

  #write<Name extends QueueOperation, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    named: Named,
    options: OptionsHere<Name, keyof Named>,
  ): Promise<Typed<ResultOf<Name>, Input>> {
    return orReject(() => this.#ask(this.#request(operation, named, options))) as Promise<
      Typed<ResultOf<Name>, Input>
    >
  }

  #ask<Name extends QueueOperation>(
    { operation, input, options }: Request<Name>,
    patienceMs?: number,
  ): Promise<ResultOf<Name>> {
    const by = patienceMs === undefined ? options : { ...options, patienceMs }
    const write = () => {
      const answer = this.#session.call(operation, input, by)
      if (operations.get(operation)?.addsWork) this.#session.expectWork(this.name)
      return answer
    }
    return this.#hasSettings ? this.#defineOnce().then(write) : write()
  }

  /** Runs before the first write: a queue with another workflow must refuse before anything is added to it. */
  #defineOnce(): Promise<unknown> {
    this.#defined ??= this.define().catch((error) => {
      // The next write tries again: the cause of a refusal may have been fixed, and a busy store is busy only briefly.
      this.#defined = null
      throw error
    })
    return this.#defined
  }

  #read<Name extends QueueOperation, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    named: Named,
    options: OptionsHere<Name, keyof Named>,
  ): Promise<Typed<ResultOf<Name>, Input>> {
    return orReject(() => {
      const { input } = this.#request(operation, named, options)
      return this.#session.call(operation, input) as Promise<Typed<ResultOf<Name>, Input>>
    })
  }
}

function leftBy({ phase }: Pick<ItemView, 'phase'>): LeaseLeft {
  return phase === 'held' ? 'held' : 'ended'
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
