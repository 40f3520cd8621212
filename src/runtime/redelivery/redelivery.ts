/**
 * Redelivery: sends whatever is due, in every process that has the store open, for as long as it is open. Each row is
 * claimed under a lease before it is sent and recorded under its token afterwards, so many processes may do this at
 * once. One failing delivery stops none of the others, and one that takes long delays none. It sleeps until something
 * is due.
 */
import { type Adapter, inbox } from '../../delivery/adapter.ts'
import { inboxAdapter } from '../../domain/recipient.ts'
import { settlesWithin } from '../../environment.ts'
import { maxAdapters } from '../../operations/message/retry.ts'
import { chunksOf } from '../session/pages.ts'
import type { Session } from '../session/session.ts'
import { DeliveryPasses, type RetryCounts } from './delivery-passes.ts'

const lookEveryMs = 10_000
const soonMs = 20
/** Longer than `soonMs`: every process has an inbox, so each message rings in all of them. */
const inboxSoonMs = 250
const maxJitterMs = 250
/** How long a pass keeps the next look waiting. What a recipient takes longer for goes on alongside. */
const passMs = 250

export class Redelivery {
  readonly #session: Session
  readonly #adapters = new Map<string, Adapter>([[inboxAdapter, inbox]])
  readonly #stopped = new AbortController()
  readonly #passes: DeliveryPasses
  readonly #underWay = new Set<Promise<unknown>>()
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
    this.#passes = new DeliveryPasses({
      session,
      adapters: this.#adapters,
      stopped: this.#stopped.signal,
      onLaneEnd: () => this.ring(),
    })
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
    for (const adapters of chunksOf(this.#passes.freeAdapters(), maxAdapters)) {
      const { dueInMs } = await this.#session.call('messages.nextDue', { adapters })
      if (dueInMs !== null) due.push(dueInMs)
    }
    return due.length === 0 ? null : Math.min(...due)
  }

  /** Handles everything that is due now: sends first, then settles what nobody answered. */
  pass(): Promise<RetryCounts> {
    const passing = this.#passes.run()
    const ended: Promise<unknown> = passing.then(
      () => this.#underWay.delete(ended),
      () => this.#underWay.delete(ended),
    )
    this.#underWay.add(ended)
    return passing
  }

  /** Stops sending; deliveries claimed but not sent are released at once. */
  async close(): Promise<void> {
    this.#isRunning = false
    this.#stopped.abort()
    this.#cancelTimer()
    for (const unlisten of this.#unlisten.values()) unlisten()
    await Promise.all(this.#underWay)
  }
}
