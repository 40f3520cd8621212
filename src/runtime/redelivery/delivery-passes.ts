/**
 * One pass of redelivery: claims what is due, sends it, records what came of it, and settles what nobody answered.
 * Passes may overlap: one that waits for a slow recipient must not delay the next.
 */
import { type Adapter, type Delivered, inbox } from '../../delivery/adapter.ts'
import { safetyMarginMs } from '../../domain/lease.ts'
import { fitText } from '../../domain/text.ts'
import { isHoldfastError } from '../../errors.ts'
import { type DeliveryClaim, maxClaimed } from '../../operations/message/retry.ts'
import type { Undeliverable } from '../../operations/message/undeliverable.ts'
import type { InputOf } from '../../operations/table.ts'
import type { Session } from '../session/session.ts'
import { attempt, attemptLeaseMs } from './attempt.ts'

/** What one pass of redelivery did. */
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

interface Parts {
  readonly session: Session
  readonly adapters: ReadonlyMap<string, Adapter>
  readonly stopped: AbortSignal
  /** A lane has ended: its adapter is free again, or what it sent may soon be due again. */
  readonly onLaneEnd: () => void
}

/** Concurrent deliveries per adapter, in all passes together. */
const maxLanes = 10

export class DeliveryPasses {
  readonly #session: Session
  readonly #adapters: ReadonlyMap<string, Adapter>
  readonly #stopped: AbortSignal
  readonly #onLaneEnd: () => void
  /** How many lanes each adapter has. */
  readonly #lanes = new Map<string, number>()
  /** Adapters that had no free lane at the last look. */
  readonly #passedOver = new Set<string>()

  constructor({ session, adapters, stopped, onLaneEnd }: Parts) {
    this.#session = session
    this.#adapters = adapters
    this.#stopped = stopped
    this.#onLaneEnd = onLaneEnd
  }

  /** Those that can send more. The others are passed over until one of their lanes ends. */
  freeAdapters(): string[] {
    const names = [...this.#adapters.keys()]
    for (const name of names) if (this.#freeLanes(name) === 0) this.#passedOver.add(name)
    return names.filter((name) => !this.#passedOver.has(name))
  }

  /** Handles everything that is due now: sends first, then settles what nobody answered. */
  async run(): Promise<RetryCounts> {
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
    let hasSent = false
    let isFreed = false
    try {
      hasSent = await this.#sendDue(name, adapter, limit, counts)
    } finally {
      this.#lanes.set(name, (this.#lanes.get(name) ?? 0) - 1)
      isFreed = this.#passedOver.delete(name)
    }
    // Not after a failure, and not if there was nothing to send while another lane fails: it would fail again at once.
    if (hasSent || isFreed) this.#onLaneEnd()
  }

  /** Whether there was anything to send. */
  async #sendDue(name: string, adapter: Adapter, limit: number, counts: RetryCounts): Promise<boolean> {
    const leaseMs = attemptLeaseMs(adapter)
    let hasSent = false
    while (!this.#stopped.aborted) {
      const requestedAt = this.#session.environment.monotonic()
      const { claims, deferred, failed, undeliverable } = await this.#session.call('messages.claimDue', {
        adapters: [name],
        limit,
        leaseMs,
      })
      if (claims.length + deferred + failed + undeliverable.length === 0) return hasSent
      counts.processed += claims.length + deferred + failed
      counts.deferred += deferred
      counts.failed += failed
      this.#logUndeliverable(undeliverable, counts)
      const deadline = requestedAt + leaseMs - safetyMarginMs(leaseMs)
      await settleAll(claims.map((claim) => this.#send(adapter, claim, deadline, counts)))
      hasSent ||= claims.length > 0
    }
    return hasSent
  }

  /** Sends a claimed delivery and records the result. Fails only if the store cannot be written. */
  async #send(adapter: Adapter, claim: DeliveryClaim, deadline: number, counts: RetryCounts): Promise<void> {
    const { id, token, version, envelope } = claim
    const { environment, logger } = this.#session
    environment.reached?.('delivery.claimed')
    const limits = { deadline, stopped: this.#stopped }
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
    for (let more = true; more && !this.#stopped.aborted; ) {
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
