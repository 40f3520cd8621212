/** `hf.queue(name)`: a thin view on the operations of one queue. */
import { processingLockName } from './domain/queue.ts'
import type { Workflow } from './domain/workflow.ts'
import { InvalidError } from './errors.ts'
import type { EventView } from './operations/event.ts'
import { lockRef } from './operations/lease.ts'
import type { AcquireOutcome } from './operations/processing-lock.ts'
import type { ClaimManyOutcome, ClaimOutcome } from './operations/queue-claim.ts'
import type { QueueView } from './operations/queue-define.ts'
import type { RecoveryReport } from './operations/recovery.ts'
import type { ItemView, LockView } from './operations/view.ts'
import { checkPayload, type PayloadSchema } from './payload.ts'
import type { Lease } from './runtime/keeper.ts'
import type { CallOptions, Session } from './session.ts'

/** An item with its payload typed. */
export interface QueueItem<Payload> extends Omit<ItemView, 'payload'> {
  readonly payload: Payload
}

export interface QueueOptions<Payload> {
  /** `job` (default), `merge`, `task`, the name of a defined workflow, or a definition. */
  readonly workflow?: string | Workflow
  readonly slots?: number
  readonly attemptsMax?: number
  readonly crashesMax?: number
  /** Any Standard Schema (zod, valibot, arktype, …); checked on add and on claim. */
  readonly schema?: PayloadSchema<Payload>
}

export interface MutationOptions {
  readonly agent?: string
  readonly idempotencyKey?: string
}
export interface TokenOptions extends MutationOptions {
  readonly token?: number
}
export interface ClaimOptions extends TokenOptions {
  readonly leaseMs?: number
  /** False: a manual lease that this process does not renew. */
  readonly renew?: boolean
}
export interface AddOptions extends MutationOptions {
  readonly priority?: number
  readonly key?: string
  readonly dedupeKey?: string
  readonly parent?: string
  readonly blockers?: readonly string[]
  readonly runAt?: number | Date
  readonly attemptsMax?: number
  readonly data?: Record<string, unknown>
}
export interface SubmitOptions<Payload> extends Omit<AddOptions, 'key'> {
  readonly headSha: string
  readonly bead?: string
  readonly payload?: Payload
}
export interface FailOptions extends TokenOptions {
  readonly retryable?: boolean
  readonly backoff?: { baseMs: number; factor: number; maxMs: number }
}
export interface OperatorOptions extends MutationOptions {
  readonly reason?: string
  readonly expectedVersion?: number
}
export interface ListOptions {
  readonly states?: readonly string[]
  readonly standing?: 'ready' | 'waiting' | 'held' | 'closed'
  readonly quarantined?: boolean
  readonly limit?: number
  readonly after?: string
}

export type Claim<Payload> =
  | {
      readonly outcome: 'claimed'
      readonly item: QueueItem<Payload>
      readonly lease: Lease | null
      readonly lock?: LockView
    }
  | Exclude<ClaimOutcome, { outcome: 'claimed' }>

type Failure = Error | string | { message: string; code?: string }

export class Queue<Payload = unknown> {
  readonly name: string
  readonly #session: Session
  readonly #options: QueueOptions<Payload>
  #defined: Promise<unknown> | null = null

  constructor(session: Session, name: string, options: QueueOptions<Payload> = {}) {
    this.name = name
    this.#session = session
    this.#options = options
  }

  /** Makes the queue with its workflow and limits now, instead of at the first use. */
  async define(): Promise<QueueView> {
    const { workflow, slots, attemptsMax, crashesMax } = this.#options
    if (typeof workflow === 'object') await this.#session.call('workflow.define', { workflow })
    return this.#session.call(
      'queue.define',
      without({
        queue: this.name,
        workflow: typeof workflow === 'object' ? workflow.name : workflow,
        slots,
        attemptsMax,
        crashesMax,
      }),
    )
  }

  /** Adds an item. DUPLICATE while its key or dedupe key belongs to an open item. */
  async add(
    payload: Payload,
    options: AddOptions = {},
  ): Promise<{ item: QueueItem<Payload>; position: number | null; totalPending: number }> {
    const { agent, idempotencyKey, runAt, ...rest } = options
    const checked = await this.#checked(payload)
    return this.#write(
      'queue.add',
      { ...rest, runAt: wallTime(runAt), payload: checked },
      { agent, idempotencyKey },
    )
  }

  /** Adds up to 1,000 plain items at once, all or none. */
  async addMany(
    items: readonly { payload: Payload; priority?: number; runAt?: number | Date; attemptsMax?: number }[],
    options: MutationOptions = {},
  ): Promise<{ ids: string[] }> {
    const checked = await Promise.all(
      items.map(async (each) =>
        without({ ...each, runAt: wallTime(each.runAt), payload: await this.#checked(each.payload) }),
      ),
    )
    return this.#write('queue.addMany', { items: checked }, options)
  }

  /** Submits a change under its workspace: new, updated (open) or resubmitted (finished). */
  async submit(
    key: string,
    options: SubmitOptions<Payload>,
  ): Promise<{
    outcome: 'new' | 'updated' | 'resubmitted'
    item: QueueItem<Payload>
    position: number | null
    totalPending: number
  }> {
    const { agent, idempotencyKey, runAt, payload, ...rest } = options
    const checked = payload === undefined ? null : await this.#checked(payload)
    return this.#write(
      'queue.submit',
      { ...rest, key, runAt: wallTime(runAt), payload: checked },
      { agent, idempotencyKey },
    )
  }

  /** The item that would be claimed next. */
  peek(): Promise<QueueItem<Payload> | null> {
    return this.#read('queue.peek', {})
  }

  /** Claims one item. Through this handle's own agent the lease is renewed until it is finished or released. */
  next(options: ClaimOptions = {}): Promise<Claim<Payload>> {
    return this.#claim('queue.next', options)
  }

  /** Takes the processing lock and the next item together; called again by the holder, its unfinished item. */
  nextWithLock(options: ClaimOptions = {}): Promise<Claim<Payload>> {
    return this.#claim('queue.nextWithLock', options)
  }

  async #claim(operation: string, options: ClaimOptions): Promise<Claim<Payload>> {
    const { leaseMs, agent, renew, idempotencyKey } = options
    const call = { agent, renew, idempotencyKey }
    const requestedAt = this.#session.environment.monotonic()
    const token = this.#session.tokenFor('lock', lockRef({ name: processingLockName(this.name), slot: 0 }), {
      ...call,
      token: options.token,
    })
    const answer = await this.#write<ClaimOutcome>(
      operation,
      { leaseMs: this.#session.leaseMs(leaseMs, call), token },
      call,
    )
    if (answer.outcome !== 'claimed') return answer
    if (answer.lock)
      this.#session.granted(grantOf('lock', lockRef(answer.lock), answer.lock.lease, requestedAt), call)
    const lease = this.#session.granted(grantOf('item', answer.item.id, answer.lease, requestedAt), call)
    const item = await this.#checkedItem(answer.item, answer.item.token)
    if (item === null) return this.#claim(operation, options)
    return { outcome: 'claimed', item, lease: lease ?? null, ...(answer.lock ? { lock: answer.lock } : {}) }
  }

  /** Claims up to `limit` items, each under a lease of its own. */
  async claimMany(
    limit: number,
    options: ClaimOptions = {},
  ): Promise<
    | { outcome: 'claimed'; items: { item: QueueItem<Payload>; lease: Lease | null }[] }
    | Exclude<ClaimManyOutcome, { outcome: 'claimed' }>
  > {
    const { leaseMs, agent, renew, idempotencyKey } = options
    const call = { agent, renew, idempotencyKey }
    const requestedAt = this.#session.environment.monotonic()
    const answer = await this.#write<ClaimManyOutcome>(
      'queue.claimMany',
      { limit, leaseMs: this.#session.leaseMs(leaseMs, call) },
      call,
    )
    if (answer.outcome !== 'claimed') return answer
    const claims = answer.items.map((item) => ({
      item,
      lease:
        this.#session.granted(
          grantOf('item', item.id, item.lease as NonNullable<ItemView['lease']>, requestedAt),
          call,
        ) ?? null,
    }))
    const checked = await Promise.all(
      claims.map(async ({ item, lease }) => ({ item: await this.#checkedItem(item, item.token), lease })),
    )
    return {
      outcome: 'claimed',
      items: checked.flatMap(({ item, lease }) => (item ? [{ item, lease }] : [])),
    }
  }

  /** What no longer fits the queue's schema fails for good, instead of reaching a handler. */
  async #checkedItem(item: ItemView, token: number): Promise<QueueItem<Payload> | null> {
    if (!this.#options.schema) return item as QueueItem<Payload>
    try {
      return { ...item, payload: await checkPayload(this.#options.schema, item.payload, this.name) }
    } catch (error) {
      await this.fail(item.id, error as Error, { token, retryable: false })
      return null
    }
  }

  /** Renews a lease by hand: it runs for its whole length from now. LEASE_LOST once it is another's. */
  renew(ref: string, options: TokenOptions & { leaseMs?: number } = {}): Promise<QueueItem<Payload>> {
    return this.#guarded('queue.renew', ref, { leaseMs: options.leaseMs }, options)
  }

  /** Records progress (any JSON): shows the work is sound, so its crash count starts again at 0. */
  progress(
    ref: string,
    progress: unknown,
    options: TokenOptions & { data?: Record<string, unknown> } = {},
  ): Promise<QueueItem<Payload>> {
    return this.#guarded('queue.progress', ref, { progress, data: options.data }, options)
  }

  /** Moves along the workflow. ILLEGAL_MOVE names both states. */
  move(
    ref: string,
    to: string,
    options: TokenOptions & { data?: Record<string, unknown>; expectedVersion?: number } = {},
  ): Promise<QueueItem<Payload>> {
    return this.#guarded(
      'queue.move',
      ref,
      { to, data: options.data, expectedVersion: options.expectedVersion },
      options,
    )
  }

  /** Finishes an item well. LEASE_LOST when it is no longer yours; repeating it is harmless. */
  complete(
    ref: string,
    options: TokenOptions & { result?: unknown; expectedVersion?: number } = {},
  ): Promise<QueueItem<Payload>> {
    return this.#guarded(
      'queue.complete',
      ref,
      { result: options.result, expectedVersion: options.expectedVersion },
      options,
    )
  }

  /** Reports a handled failure; tried again with growing delays while attempts are left. */
  fail(ref: string, error: Failure, options: FailOptions = {}): Promise<QueueItem<Payload>> {
    return this.#guarded(
      'queue.fail',
      ref,
      { error: failureOf(error), retryable: options.retryable, backoff: options.backoff },
      options,
    )
  }

  /** Gives an item back unfinished. False, and nothing changed, when it was no longer yours. */
  async release(ref: string, options: TokenOptions & { reason?: string } = {}): Promise<boolean> {
    const { id, token, call } = await this.#holderCall(ref, options)
    const released = await this.#write<boolean>(
      'queue.release',
      { ref: id, token, reason: options.reason },
      call,
    )
    this.#session.ended('item', id, token)
    return released
  }

  get(ref: string): Promise<QueueItem<Payload> | null> {
    return this.#read('queue.get', { ref })
  }

  list(options: ListOptions = {}): Promise<{ items: QueueItem<Payload>[]; next: string | null }> {
    return this.#read('queue.list', { ...options })
  }

  /** 1-based place among what can be claimed; null when it is not in line. */
  position(ref: string): Promise<number | null> {
    return this.#read('queue.position', { ref })
  }

  stats(): Promise<QueueStats> {
    return this.#read('queue.stats', {})
  }

  retry(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Payload>> {
    return this.#operate('queue.retry', ref, {}, options)
  }

  cancel(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Payload>> {
    return this.#operate('queue.cancel', ref, {}, options)
  }

  setPriority(ref: string, priority: number, options: OperatorOptions = {}): Promise<QueueItem<Payload>> {
    return this.#operate('queue.setPriority', ref, { priority }, options)
  }

  releaseFromQuarantine(ref: string, options: OperatorOptions = {}): Promise<QueueItem<Payload>> {
    return this.#operate('queue.releaseFromQuarantine', ref, {}, options)
  }

  /** Removes an item; its events stay. False when there is none. */
  remove(ref: string, options: OperatorOptions & { force?: boolean } = {}): Promise<boolean> {
    return this.#operate('queue.remove', ref, { force: options.force }, options)
  }

  /** Removes finished items older than an age; 0 = all finished. */
  async cleanup(options: { maxAgeMs: number } & MutationOptions): Promise<number> {
    let removed = 0
    for (let more = true; more; ) {
      const answer = await this.#write<{ removed: number; more: boolean }>(
        'queue.cleanup',
        { maxAgeMs: options.maxAgeMs },
        options,
      )
      removed += answer.removed
      more = answer.more
    }
    return removed
  }

  /** Stops new claims; what is held goes on. False when it was paused already. */
  async pause(options: MutationOptions & { reason?: string } = {}): Promise<boolean> {
    const { changed } = await this.#write<{ changed: boolean }>(
      'queue.pause',
      { reason: options.reason },
      options,
    )
    return changed
  }

  async resume(options: MutationOptions = {}): Promise<boolean> {
    const { changed } = await this.#write<{ changed: boolean }>('queue.resume', {}, options)
    return changed
  }

  async acquireProcessingLock(
    options: ClaimOptions & { reason?: string } = {},
  ): Promise<
    | { outcome: 'claimed'; lock: LockView; lease: Lease | null }
    | Exclude<AcquireOutcome, { outcome: 'claimed' }>
  > {
    const { leaseMs, agent, renew, idempotencyKey, reason } = options
    const call = { agent, renew, idempotencyKey }
    const requestedAt = this.#session.environment.monotonic()
    const answer = await this.#write<AcquireOutcome>(
      'queue.acquireProcessingLock',
      { leaseMs: this.#session.leaseMs(leaseMs, call), token: this.#lockToken(options), reason },
      call,
    )
    if (answer.outcome !== 'claimed') return answer
    const lease = this.#session.granted(
      grantOf('lock', lockRef(answer.lock), answer.lock.lease, requestedAt),
      call,
    )
    return { ...answer, lease: lease ?? null }
  }

  /** Gives the processing lock back; its item stays claimed. False when it is not yours. */
  async releaseProcessingLock(options: TokenOptions = {}): Promise<boolean> {
    const token = this.#lockToken(options)
    const released = await this.#write<boolean>('queue.releaseProcessingLock', { token }, options)
    this.#session.ended('lock', this.#lockRef, token)
    return released
  }

  /** The lock, lapsed or not, with `stale`; null when nobody has it. */
  getProcessingLock(): Promise<LockView | null> {
    return this.#read('queue.getProcessingLock', {})
  }

  /** Whether items of this queue are claimed through its processing lock. */
  async isLocked(): Promise<boolean> {
    const { workflow, slots } = this.#options
    if (workflow !== undefined || slots !== undefined) await this.#defineOnce()
    const queue = await this.#read<QueueView | null>('queue.describe', {})
    return queue !== null && queue.slots !== null
  }

  isLockStale(): Promise<boolean> {
    return this.#read('queue.isLockStale', {})
  }

  /** Adds time to the lock and to the item claimed with it. LEASE_LOST once it has lapsed. */
  extendLock(options: TokenOptions & { extraMs: number }): Promise<LockView & { capped: boolean }> {
    return this.#lockWrite('queue.extendLock', { extraMs: options.extraMs }, options)
  }

  /** Lock and item run for their length from now. */
  renewLock(options: TokenOptions & { leaseMs?: number } = {}): Promise<LockView> {
    return this.#lockWrite('queue.renewLock', { leaseMs: options.leaseMs }, options)
  }

  /** An operator's tool: takes held items without a sign of life for `thresholdMs`. Returns how many. */
  reclaimStale(
    options: { thresholdMs: number; force?: boolean; reason?: string } & MutationOptions,
  ): Promise<number> {
    const { thresholdMs, force, reason } = options
    if (force && !reason) {
      throw new InvalidError({
        what: 'reclaimStale with force takes work from live processes',
        next: 'say why: give a reason',
      })
    }
    return this.#write('queue.reclaimStale', { thresholdMs, force, reason }, options)
  }

  /** Gives back everything lapsed in this queue. Runs by itself before claims and on a timer. */
  async detectAndRecoverStale(options: { dryRun?: boolean } = {}): Promise<RecoveryReport> {
    return recoverAll(this.#session, { queue: this.name, dryRun: options.dryRun })
  }

  /** What a recovery would do now, and what past ones did. Changes nothing. */
  getRecoveryStats(): Promise<RecoveryStats> {
    return this.#session.call('recovery.stats', { queue: this.name })
  }

  updateRebaseMetadata(
    ref: string,
    options: TokenOptions & { headSha: string; testedAgainstSha: string },
  ): Promise<QueueItem<Payload>> {
    return this.#guarded(
      'queue.updateRebaseMetadata',
      ref,
      { headSha: options.headSha, testedAgainstSha: options.testedAgainstSha },
      options,
    )
  }

  /** Was it tested against what the target is now? No baseline counts as no. */
  isFresh(ref: string, mainSha: string): Promise<boolean> {
    return this.#read('queue.isFresh', { ref, mainSha })
  }

  returnToRebasing(ref: string, mainSha: string, options: TokenOptions = {}): Promise<QueueItem<Payload>> {
    return this.#guarded('queue.returnToRebasing', ref, { mainSha }, options)
  }

  beginMerge(
    ref: string,
    options: TokenOptions & { journal?: Record<string, unknown> } = {},
  ): Promise<QueueItem<Payload>> {
    return this.#guarded('queue.beginMerge', ref, { journal: options.journal }, options)
  }

  completeMerge(ref: string, mergedSha: string, options: TokenOptions = {}): Promise<QueueItem<Payload>> {
    return this.#guarded('queue.completeMerge', ref, { mergedSha }, options)
  }

  failMerge(ref: string, error: Failure, options: FailOptions = {}): Promise<QueueItem<Payload>> {
    return this.#guarded(
      'queue.failMerge',
      ref,
      { error: failureOf(error), retryable: options.retryable },
      options,
    )
  }

  /** Events of one item, oldest first; the last `limit` of them when given. */
  async events(ref: string, options: { limit?: number } = {}): Promise<EventView[]> {
    const item = await this.get(ref)
    const newest = options.limit !== undefined
    return this.#session.call(
      'events.list',
      without({ subject: 'item', id: item?.id ?? ref, limit: options.limit ?? 1000, newest }),
    )
  }

  get #lockRef(): string {
    return lockRef({ name: processingLockName(this.name), slot: 0 })
  }

  #lockToken(options: CallOptions & { token?: number | undefined }): number | undefined {
    return this.#session.tokenFor('lock', this.#lockRef, options)
  }

  async #lockWrite<Result>(operation: string, input: object, options: TokenOptions): Promise<Result> {
    const token = this.#lockToken(options)
    return this.#session.guarded('lock', this.#lockRef, token, () =>
      this.#write<Result>(operation, { ...input, token }, options),
    )
  }

  /** A write by the holder: its token found, and the grant forgotten when the item is no longer held. */
  async #guarded(
    operation: string,
    ref: string,
    input: object,
    options: TokenOptions,
  ): Promise<QueueItem<Payload>> {
    const { id, token, call } = await this.#holderCall(ref, options)
    const item = await this.#session.guarded('item', id, token, () =>
      this.#write<QueueItem<Payload>>(operation, { ...input, ref: id, token }, call),
    )
    if (item.standing !== 'held') this.#session.ended('item', item.id, token)
    return item
  }

  /** Grants are remembered by id; a key is looked up first unless the caller brings the token. */
  async #holderCall(ref: string, options: TokenOptions) {
    const call = { agent: options.agent, idempotencyKey: options.idempotencyKey }
    const direct = this.#session.tokenFor('item', ref, { ...call, token: options.token })
    if (direct !== undefined) return { id: ref, token: direct, call }
    const id = (await this.get(ref))?.id ?? ref
    return { id, token: this.#session.tokenFor('item', id, call), call }
  }

  #operate<Result>(operation: string, ref: string, input: object, options: OperatorOptions): Promise<Result> {
    return this.#write(
      operation,
      { ...input, ref, reason: options.reason, expectedVersion: options.expectedVersion },
      options,
    )
  }

  #checked(payload: unknown): Promise<Payload> {
    return checkPayload(this.#options.schema, payload, this.name)
  }

  async #write<Result>(operation: string, input: object, options: CallOptions): Promise<Result> {
    const { workflow, slots, attemptsMax, crashesMax } = this.#options
    const hasSettings =
      workflow !== undefined || slots !== undefined || attemptsMax !== undefined || crashesMax !== undefined
    if (hasSettings) await this.#defineOnce()
    const { agent, renew, idempotencyKey } = options
    return this.#session.call(operation, without({ ...input, queue: this.name }), {
      agent,
      renew,
      idempotencyKey,
    })
  }

  /** Before the first write: a queue of another workflow must refuse before anything is added to it. */
  #defineOnce(): Promise<unknown> {
    this.#defined ??= this.define()
    return this.#defined
  }

  #read<Result>(operation: string, input: object): Promise<Result> {
    return this.#session.call(operation, without({ ...input, queue: this.name }))
  }
}

export interface QueueStats {
  readonly total: number
  readonly pending: number
  readonly processing: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly blocked: number
  readonly quarantined: number
  readonly byState: Readonly<Record<string, number>>
  readonly oldestReadyMs: number | null
  readonly paused: boolean
}

export interface RecoveryStats {
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly recoveryTimestamp: number
  readonly lastRun: {
    at: number
    trigger: string
    by: string
    locksCleaned: number
    entriesReclaimed: number
    quarantined: number
  } | null
  readonly totals: { locksCleaned: number; entriesReclaimed: number }
  readonly lastSweptAt: number | null
}

/** Repeats the bounded command until nothing is left, and adds the reports up. */
export async function recoverAll(
  session: Session,
  options: { queue?: string; dryRun?: boolean | undefined },
): Promise<RecoveryReport> {
  let total: RecoveryReport | null = null
  for (let more = true; more; ) {
    const report = await session.call<RecoveryReport>(
      'recovery.run',
      without({ trigger: 'manual', ...options }),
    )
    total = total ? addReports(total, report) : report
    more = report.more && !options.dryRun
  }
  return total as RecoveryReport
}

function addReports(left: RecoveryReport, right: RecoveryReport): RecoveryReport {
  const byState = { ...left.byState }
  for (const [state, count] of Object.entries(right.byState)) byState[state] = (byState[state] ?? 0) + count
  return {
    locksCleaned: left.locksCleaned + right.locksCleaned,
    entriesReclaimed: left.entriesReclaimed + right.entriesReclaimed,
    quarantined: left.quarantined + right.quarantined,
    promoted: left.promoted + right.promoted,
    instancesEnded: left.instancesEnded + right.instancesEnded,
    recoveryTimestamp: right.recoveryTimestamp,
    ids: [...left.ids, ...right.ids],
    byState,
    reclaimed: [...left.reclaimed, ...right.reclaimed],
    more: right.more,
  }
}

function grantOf(
  kind: 'item' | 'lock',
  id: string,
  lease: { token: number; leaseMs: number | null },
  requestedAt: number,
) {
  return { kind, id, token: lease.token, leaseMs: lease.leaseMs ?? 0, requestedAt }
}

function wallTime(time: number | Date | undefined): number | undefined {
  return time instanceof Date ? time.getTime() : time
}

function failureOf(error: Failure): { message: string; code?: string } {
  if (typeof error === 'string') return { message: error }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  return { message: error.message.slice(0, 10_000), ...code }
}

/** Without the fields nobody gave: an absent option and an undefined one are the same. */
function without(input: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))
}
