/** Claims items. An item whose payload no longer fits the queue's schema is failed, and the next one is claimed. */
import { failureFacts, failureOf } from '../../domain/failure.ts'
import { isHoldfastError } from '../../errors.ts'
import { type LeaseRef, lockNameOf, lockRef } from '../../operations/lease/lease.ts'
import type { ClaimOutcome } from '../../operations/queue/claim-outcome.ts'
import type { InputOf, ResultOf } from '../../operations/table.ts'
import type { ItemView, LeaseView } from '../../operations/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import { given, keyOfPiece, optionsOf } from '../../runtime/session/input.ts'
import type { CallOptions } from '../../runtime/session/request.ts'
import { waitForWork, waitIsOver } from '../../runtime/waiting/claim-wait.ts'
import { type ClaimOptions, type WaitOptions, waitIn } from '../call-options.ts'
import type { HeldItems } from '../held-items.ts'
import type { OwnProcessingLock } from './processing-lock.ts'
import type { Claim, ManyClaims, QueueItem } from './queue-answers.ts'
import type { QueueOperation, QueueRequests } from './queue-requests.ts'

/** A claim without the round it belongs to. */
interface ClaimRequest<Name extends ItemClaim> {
  readonly operation: Name
  readonly options: ClaimOptions
  readonly named: Partial<InputOf<Name>>
  readonly patienceMs?: number | undefined
}

type OneClaim = 'queue.next' | 'queue.nextWithLock'
type ItemClaim = OneClaim | 'queue.claimMany'

/**
 * A claim repeated under its idempotency key turned out to have met an item that does not fit the schema. The caller
 * claims the next one.
 */
const passedOver = Symbol()

export class ItemClaims<Input, Output> {
  readonly #requests: QueueRequests<Input, Output>
  readonly #held: HeldItems<QueueOperation, QueueItem<Input>>
  readonly #lock: OwnProcessingLock

  constructor(
    requests: QueueRequests<Input, Output>,
    held: HeldItems<QueueOperation, QueueItem<Input>>,
    lock: OwnProcessingLock,
  ) {
    this.#requests = requests
    this.#held = held
    this.#lock = lock
  }

  get #session() {
    return this.#requests.session
  }

  /** Claims one item, which takes up to this many leases. */
  one(operation: OneClaim, leases: number, asked: ClaimOptions & WaitOptions): Promise<Claim<Output>> {
    const { waitMs, signal, options } = waitIn(operation, asked)
    const taken: LeaseRef[] = []
    const claim = (patienceMs?: number) =>
      this.#session.withRoom(leases, options, () =>
        this.#claim(operation, options, taken, { signal, patienceMs }),
      )
    if (waitMs === 0) return claim()
    const isEnough = ({ outcome }: Claim<Output>) => outcome === 'claimed'
    const giveBack = () => this.#giveBack(taken, options)
    const { agent } = options
    const { queue } = this.#requests
    return waitForWork(this.#session, { queue, waitMs, signal, agent, claim, isEnough, giveBack })
  }

  async #giveBack(taken: readonly LeaseRef[], options: CallOptions): Promise<void> {
    const by = agentOf(options)
    for (const { kind, id, token } of taken) {
      if (kind === 'item') await this.#held.release('queue.release', id, { ...by, token, reason: waitIsOver })
      else await this.#lock.release({ ...by, token })
    }
  }

  /** Adds to `taken` only what this claim newly acquired: a holder may be granted again what it already has. */
  async #claim(
    operation: OneClaim,
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
        const named = { token: this.#lock.tokenFor(options) }
        const answer = await this.#claimRound({ operation, options, named, patienceMs }, round)
        if (answer === passedOver) continue
        if (answer.outcome !== 'claimed') return answer
        const fresh = this.#newIn(answer, options)
        taken.push(...fresh)
        newLocks.push(...fresh.filter(({ kind }) => kind === 'lock'))
        if (answer.lock) this.#session.grantedLock(answer.lock, requestedAt, options)
        const lease = this.#granted(answer.item, answer.lease, requestedAt, options)
        const checked = await this.#checked(answer.item, options)
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

  /** Whether the claim may return this lease: the processing lock or, with `nextWithLock`, an unfinished item. */
  #isClaimedBy(operation: string, { kind, id }: LeaseRef): boolean {
    return kind === 'item' ? operation === 'queue.nextWithLock' : lockNameOf(id) === this.#lock.name
  }

  async #giveBackLocks(locks: readonly LeaseRef[], options: CallOptions): Promise<void> {
    for (const { token } of locks) await this.#lock.giveBack(token, agentOf(options))
  }

  #newIn({ item, lease, lock }: Extract<ClaimOutcome, { outcome: 'claimed' }>, options: ClaimOptions) {
    const refs: LeaseRef[] = []
    const known = this.#session.grants.tokenFor('item', item.id, agentOf(options))
    if (lease.token !== known) refs.push({ kind: 'item', id: item.id, token: lease.token })
    if (lock && lock.lease.token !== this.#lock.tokenFor(options))
      refs.push({ kind: 'lock', id: lockRef(lock), token: lock.lease.token })
    return refs
  }

  async many(limit: number, options: ClaimOptions): Promise<ManyClaims<Output>> {
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
      lease: this.#granted(item, item.lease as LeaseView, requestedAt, options),
    }))
    const checked = await Promise.all(
      claims.map(async ({ item, lease }) => ({ ...(await this.#checked(item, options)), lease })),
    )
    return checked.flatMap((each) => ('item' in each ? [{ item: each.item, lease: each.lease }] : []))
  }

  #granted(
    { id, key }: Pick<ItemView, 'id' | 'key'>,
    { token, leaseMs }: LeaseView,
    requestedAt: number,
    options: CallOptions,
  ): Lease | null {
    const ref = { kind: 'item', id, token, leaseMs: leaseMs ?? 0, requestedAt } as const
    return this.#session.granted(id, ref, options, { item: { queue: this.#requests.queue, key } })
  }

  /** Each round is its own request under its own key. A repeated one may have met an item that did not fit. */
  async #claimRound<Name extends ItemClaim>(
    { operation, options, named, patienceMs }: ClaimRequest<Name>,
    round: number,
  ): Promise<ResultOf<Name> | typeof passedOver> {
    const { idempotencyKey } = options
    const asked = round === 0 ? options : { ...options, ...keyOfPiece(idempotencyKey, round) }
    try {
      return await this.#requests.send(this.#requests.of(operation, named, asked), patienceMs)
    } catch (error) {
      if (idempotencyKey === undefined || !(await this.#isOfUnfit(error))) throw error
      return passedOver
    }
  }

  /** Whether a claim could not be repeated because none of the items it had claimed fitted the schema. */
  async #isOfUnfit(error: unknown): Promise<boolean> {
    if (!this.#requests.hasSchema || !isHoldfastError(error) || error.code !== 'LEASE_LOST') return false
    const { lost = [] } = error.facts
    const items = lost.filter(({ kind }) => kind === 'item')
    if (items.length === 0) return false
    for (const item of items) if (!(await this.#wasUnfit(item))) return false
    return true
  }

  /** Whether an item was found unfit when it was claimed and then failed under that same grant. */
  async #wasUnfit({ id, token }: LeaseRef): Promise<boolean> {
    const item = await this.#requests.get(id)
    if (item?.outcome !== 'failed' || item.token !== token) return false
    return this.#requests.parsed(item.payload).then(
      () => false,
      () => true,
    )
  }

  /** Fails an item for good when its payload no longer fits the queue's schema, so that it never reaches a handler. */
  async #checked(
    item: ItemView,
    options: CallOptions,
  ): Promise<{ item: QueueItem<Output> } | { error: unknown; hasFailed: boolean }> {
    if (!this.#requests.hasSchema) return { item: item as QueueItem<Output> }
    try {
      return { item: { ...item, payload: await this.#requests.parsed(item.payload) } }
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
      const says = { ...agentOf(options), token, retryable: false }
      await this.#held.finish('queue.fail', id, { error: failure }, says)
      return true
    } catch (refusal) {
      // A request without an answer is retried, so its lease must be kept until then.
      const isAsked = this.#session.endings.countOf({ kind: 'item', id, token }) > 0
      if (!isAsked) this.#session.grants.ended('item', id, token, options)
      this.#session.logger.warn({ queue: this.#requests.queue, error: String(refusal) }, 'worker.failed')
      return false
    }
  }
}

function agentOf({ agent }: CallOptions): { agent?: string } {
  return given({ agent })
}
