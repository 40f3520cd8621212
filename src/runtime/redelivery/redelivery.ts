/**
 * Redelivery: sends whatever is due, in every process that has the store open, for as long as it is open. Each row is
 * claimed under a lease before it is sent and recorded under its token afterwards, so many processes may do this at
 * once. One failing delivery stops none of the others, and one that takes long delays none. It sleeps until something
 * is due.
 */
import { type Adapter, type Delivered, inbox } from '../../delivery/adapter.ts'
import { safetyMarginMs } from '../../domain/lease.ts'
import { inboxAdapter } from '../../domain/recipient.ts'
import { fitText } from '../../domain/text.ts'
import { settlesWithin } from '../../environment.ts'
import { isHoldfastError } from '../../errors.ts'
import { type DeliveryClaim, maxAdapters, maxClaimed } from '../../operations/message/retry.ts'
import type { Undeliverable } from '../../operations/message/undeliverable.ts'
import type { InputOf } from '../../operations/table.ts'
import { chunksOf } from '../session/pages.ts'
import type { Session } from '../session/session.ts'
import { attempt, attemptLeaseMs } from './attempt.ts'

/** What one round of redelivery did. */
export interface RetryCounts {
  /** Deliveries claimed, and settled messages. */
  processed: number
  /** Sent, for the first time or again. */
  retried: number
  /** Attempts that failed. */
  failed: number
  /** Messages that went up one level. */
  escalated: number
  /** Messages that became dead letters. */
  dead: number
  /** Postponed by a limit. */
  deferred: number
  /** Sent, but answered or taken over before that could be recorded. */
  superseded: number
}

const lookEveryMs = 10_000
const soonMs = 20
/** Longer than `soonMs`: every process has an inbox, so each message rings in all of them. */
const inboxSoonMs = 250
const maxJitterMs = 250
/** Concurrent deliveries per adapter. */
const maxLanes = 10
/** How long a pass keeps the next look waiting. What a recipient takes longer for goes on alongside. */
const passMs = 250

export class Redelivery {
  readonly #session: Session
  readonly #adapters = new Map<string, Adapter>([[inboxAdapter, inbox]])
  readonly #stopped = new AbortController()
  readonly #passes = new Set<Promise<unknown>>()
  /** How many lanes each adapter has. */
  readonly #lanes = new Map<string, number>()
  /** Adapters that had no free lane at the last look. */
  readonly #passedOver = new Set<string>()
  #cancelTimer: () => void = () => {}
  #wakesAt = Number.POSITIVE_INFINITY
  readonly #unlisten = new Map<string, () => void>()
  #isRunning = false
  /** How soon to look again, because a bell rang during a pass. */
  #againMs: number | null = null
  #isBusy = false

  constructor(session: Session, adapters: Readonly<Record<string, Adapter>>) {
    this.#session = session
    for (const [name, adapter] of Object.entries(adapters)) this.#adapters.set(name, adapter)
  }

  addAdapter(name: string, adapter: Adapter): void {
    this.#adapters.set(name, adapter)
    if (this.#isRunning) this.#listen(name)
    this.ring()
  }

  /** From now on it works without being called. */
  start(): void {
    this.#isRunning = true
    for (const name of this.#adapters.keys()) this.#listen(name)
    this.#sleep(soonMs)
  }

  #listen(name: string): void {
    this.#unlisten.get(name)?.()
    const soon = () => this.#lookIn(name === inboxAdapter ? inboxSoonMs : soonMs)
    this.#unlisten.set(name, this.#session.onRing({ kind: 'inbox', name }, soon))
  }

  /** Something may be due sooner than was known. */
  ring(): void {
    this.#lookIn(soonMs)
  }

  #lookIn(ms: number): void {
    if (!this.#isRunning) return
    if (this.#isBusy) this.#againMs = Math.min(ms, this.#againMs ?? ms)
    else this.#sleep(ms)
  }

  /** Never postpones the wake-up: constant ringing must not keep it asleep. */
  #sleep(ms: number): void {
    const { environment } = this.#session
    const until = environment.monotonic() + ms
    if (this.#isOver || until >= this.#wakesAt) return
    this.#cancelTimer()
    this.#wakesAt = until
    this.#cancelTimer = environment.timer(ms, () => {
      this.#wakesAt = Number.POSITIVE_INFINITY
      void this.#work()
    })
  }

  /** The loss of a store has already been reported, and a lost store never comes back. */
  get #isOver(): boolean {
    return this.#stopped.signal.aborted || this.#session.engine.isLost === true
  }

  async #work(): Promise<void> {
    this.#isBusy = true
    this.#againMs = null
    let dueInMs: number | null = null
    try {
      dueInMs = await this.#dueInMs()
      if (dueInMs === 0) {
        await this.#passAWhile()
        dueInMs = await this.#dueInMs()
      }
    } catch (error) {
      dueInMs = null
      this.#logFailure(error)
    }
    this.#isBusy = false
    this.#sleep(Math.min(this.#againMs ?? Number.POSITIVE_INFINITY, this.#restMs(dueInMs)))
  }

  /** A recipient that does not answer must not delay the others, nor the messages that are to be settled. */
  async #passAWhile(): Promise<void> {
    const passing = this.pass()
    if (await settlesWithin(this.#session.environment, passMs, passing)) return
    passing.catch((error: unknown) => this.#logFailure(error))
  }

  #logFailure(error: unknown): void {
    // Closing the store interrupts a pass; that is not a failure.
    if (!this.#isOver) this.#session.logger.warn({ error: String(error) }, 'redelivery.failed')
  }

  /** Waits until something is due, plus a random delay per process, so that they do not all look at the same time. */
  #restMs(dueInMs: number | null): number {
    const random = this.#session.environment.random()
    const lookMs = lookEveryMs * (0.9 + 0.1 * random)
    if (dueInMs === null) return lookMs
    return Math.min(lookMs, Math.max(soonMs, dueInMs) + random * Math.min(maxJitterMs, dueInMs / 10))
  }

  /** Not for adapters without a free lane: their lanes go on to whatever is due. */
  async #dueInMs(): Promise<number | null> {
    const due: number[] = []
    const names = [...this.#adapters.keys()]
    for (const name of names) if (this.#freeLanes(name) === 0) this.#passedOver.add(name)
    const free = names.filter((name) => !this.#passedOver.has(name))
    for (const adapters of chunksOf(free, maxAdapters)) {
      const { dueInMs } = await this.#session.call('messages.nextDue', { adapters })
      if (dueInMs !== null) due.push(dueInMs)
    }
    return due.length === 0 ? null : Math.min(...due)
  }

  /** Handles everything that is due now: sends first, then settles what nobody answered. */
  pass(): Promise<RetryCounts> {
    const passing = this.#pass()
    const ended: Promise<unknown> = passing.then(
      () => this.#passes.delete(ended),
      () => this.#passes.delete(ended),
    )
    this.#passes.add(ended)
    return passing
  }

  async #pass(): Promise<RetryCounts> {
    const counts: RetryCounts = {
      processed: 0,
      retried: 0,
      failed: 0,
      escalated: 0,
      dead: 0,
      deferred: 0,
      superseded: 0,
    }
    await this.#sendAll(counts)
    if (await this.#settleAll(counts)) await this.#sendAll(counts)
    return counts
  }

  /** Adapters run concurrently: a slow one keeps no inbox waiting. */
  async #sendAll(counts: RetryCounts): Promise<void> {
    await settleAll([...this.#adapters].map(([name, adapter]) => this.#sendBy(name, adapter, counts)))
  }

  /** Where sending takes time, several lanes with one delivery each: none waits for the slowest of a batch. */
  async #sendBy(name: string, adapter: Adapter, counts: RetryCounts): Promise<void> {
    const lanes = Math.min(adapter === inbox ? 1 : maxLanes, this.#freeLanes(name))
    const limit = adapter === inbox ? maxClaimed : 1
    await settleAll(Array.from({ length: lanes }, () => this.#sendLane(name, adapter, limit, counts)))
  }

  #freeLanes(name: string): number {
    return maxLanes - (this.#lanes.get(name) ?? 0)
  }

  async #sendLane(name: string, adapter: Adapter, limit: number, counts: RetryCounts): Promise<void> {
    this.#lanes.set(name, (this.#lanes.get(name) ?? 0) + 1)
    try {
      await this.#sendDue(name, adapter, limit, counts)
    } finally {
      this.#lanes.set(name, (this.#lanes.get(name) ?? 0) - 1)
      if (this.#passedOver.delete(name)) this.ring()
    }
  }

  async #sendDue(name: string, adapter: Adapter, limit: number, counts: RetryCounts): Promise<void> {
    const leaseMs = attemptLeaseMs(adapter)
    while (!this.#stopped.signal.aborted) {
      const requestedAt = this.#session.environment.monotonic()
      const { claims, deferred, failed, undeliverable } = await this.#session.call('messages.claimDue', {
        adapters: [name],
        limit,
        leaseMs,
      })
      if (claims.length + deferred + failed + undeliverable.length === 0) return
      counts.processed += claims.length + deferred + failed
      counts.deferred += deferred
      counts.failed += failed
      this.#logUndeliverable(undeliverable, counts)
      const deadline = requestedAt + leaseMs - safetyMarginMs(leaseMs)
      await settleAll(claims.map((claim) => this.#send(adapter, claim, deadline, counts)))
    }
  }

  /** Sends a claimed delivery and records the result. Fails only if the store cannot be written. */
  async #send(adapter: Adapter, claim: DeliveryClaim, deadline: number, counts: RetryCounts): Promise<void> {
    const { id, token, version, envelope } = claim
    const { environment, logger } = this.#session
    environment.reached?.('delivery.claimed')
    const limits = { deadline, stopped: this.#stopped.signal }
    const result = await attempt(adapter, envelope, environment, limits)
    environment.reached?.('delivery.sent')
    try {
      await this.#session.call('messages.record', { delivery: id, token, ...recordOf(result) })
    } catch (error) {
      // Answered, taken over or removed meanwhile: the store has newer information than we do.
      if (!isHoldfastError(error) || (error.code !== 'LEASE_LOST' && error.code !== 'NOT_FOUND')) throw error
      counts.superseded++
      const found = error.facts.currentVersion ?? null
      logger.info?.({ delivery: id, expected: version, found, reason: error.what }, 'message.conflict')
      return
    }
    environment.reached?.('delivery.recorded')
    if (result?.outcome === 'delivered') counts.retried++
    if (result?.outcome !== 'failed') return
    counts.failed++
    logger.warn({ delivery: id, recipient: envelope.recipient, error: result.error }, 'delivery.failed')
  }

  /** True if a message was escalated, so that somebody new is to be told. */
  async #settleAll(counts: RetryCounts): Promise<boolean> {
    const { logger } = this.#session
    let isEscalated = false
    for (let more = true; more && !this.#stopped.signal.aborted; ) {
      const settled = await this.#session.call('messages.settle', {})
      counts.processed += settled.escalated.length + settled.dead.length + settled.deferred
      counts.escalated += settled.escalated.length
      counts.dead += settled.dead.length
      counts.deferred += settled.deferred
      for (const facts of settled.escalated) logger.warn(facts, 'message.escalated')
      for (const facts of settled.dead) logger.warn(facts, 'message.dead')
      this.#logUndeliverable(settled.undeliverable, counts)
      isEscalated ||= settled.escalated.length > 0
      more = settled.more
    }
    return isEscalated
  }

  #logUndeliverable(undeliverable: readonly Undeliverable[], counts: RetryCounts): void {
    counts.processed += undeliverable.length
    counts.failed += undeliverable.length
    for (const { delivery, recipient, error } of undeliverable) {
      this.#session.logger.warn({ delivery, recipient, error }, 'delivery.failed')
    }
  }

  /** Stops sending; deliveries claimed but not sent are released at once. */
  async close(): Promise<void> {
    this.#isRunning = false
    this.#stopped.abort()
    this.#cancelTimer()
    for (const unlisten of this.#unlisten.values()) unlisten()
    await Promise.all(this.#passes)
  }
}

function recordOf(result: Delivered | null): Omit<InputOf<'messages.record'>, 'delivery' | 'token'> {
  if (result === null) return { outcome: 'released' }
  return result.outcome === 'delivered'
    ? { outcome: 'sent' }
    : { outcome: 'failed', error: fitText(result.error, 2000) }
}

/** Waits for all of them to settle before it throws the first failure. */
async function settleAll(promises: readonly Promise<unknown>[]): Promise<void> {
  const all = await Promise.allSettled(promises)
  const failed = all.find((each) => each.status === 'rejected')
  if (failed) throw failed.reason
}
