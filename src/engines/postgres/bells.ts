/**
 * Tells other processes what a commit concerns: NOTIFY with the numbers of its bells after the commit, each bell at
 * most every ten milliseconds, in a separate transaction (inside a batch it would halve the rate). One channel for all
 * bells, because a LISTEN for each thing would cost a round trip before every wait. A hint only; polling is the truth.
 */
import { isOfThings, maxBells } from '../../domain/bell.ts'
import type { Environment } from '../../environment.ts'
import { Hearing } from '../hearing.ts'
import { Listeners } from '../listeners.ts'
import type { Address } from './address.ts'
import type { Connection } from './connection.ts'
import type { Query } from './plan.ts'

const coalesceMs = 10
/** A hint need not be on disk before it is sent: that wait would be most of its latency. */
const tell = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

export interface BellRope {
  /** What is sent may be lost: a hint that does not arrive costs others a poll, never correctness. */
  send(query: Query): void
  /** Another process announced more than new events, or may have done so while nobody listened. */
  onOthers(): void
}

export class Bells {
  readonly #listeners = new Listeners<number>()
  readonly #environment: Environment
  readonly #channel: string
  readonly #self: string
  readonly #rope: BellRope
  readonly #hearing: Hearing
  readonly #owed = new Set<number>()
  readonly #rungAt = new Map<number, number>()
  #cancelOwed: (() => void) | null = null
  /** The connection we listen on. */
  #heardOn: Connection | null = null
  #closed = false

  constructor(environment: Environment, { schema }: Address, rope: BellRope) {
    this.#environment = environment
    this.#rope = rope
    this.#channel = `holdfast_${schema}`.slice(0, 63)
    this.#self = environment.id()
    this.#hearing = new Hearing(environment, () => this.#send([]))
  }

  get areHeard(): boolean {
    return this.#heardOn?.isOpen === true && this.#hearing.isProven
  }

  /** Listens on this connection from now on, and checks at once for anything missed in between. */
  async listenOn(connection: Connection): Promise<void> {
    connection.onNotification(({ payload }) => this.#heard(payload))
    this.#heardOn = connection
    await connection.send({ text: `listen ${this.#channel}`, values: [] })
    this.#rope.onOthers()
    for (const bell of this.#listeners.awaited) this.#listeners.call(bell)
  }

  listen(bell: number, listener: () => void): () => void {
    return this.#listeners.add(bell, listener)
  }

  /**
   * Runs after a commit: calls the listeners of this process at once and reaches other processes through the server.
   */
  ring(bells: ReadonlySet<number>): void {
    const now = this.#environment.monotonic()
    let waitMs = coalesceMs
    for (const bell of bells) {
      this.#listeners.call(bell)
      this.#owed.add(bell)
      waitMs = Math.min(waitMs, (this.#rungAt.get(bell) ?? Number.NEGATIVE_INFINITY) + coalesceMs - now)
    }
    if (this.#owed.size === 0) return
    // One message for all of them, as soon as one has been silent for long enough.
    if (waitMs <= 0 || this.#closed) this.#giveOwed()
    else this.#cancelOwed ??= this.#environment.timer(waitMs, () => this.#giveOwed(), true)
  }

  #giveOwed(): void {
    this.#cancelOwed?.()
    this.#cancelOwed = null
    if (this.#owed.size === 0) return
    for (const bell of this.#owed) this.#rungAt.set(bell, this.#environment.monotonic())
    this.#send([...this.#owed])
    this.#owed.clear()
  }

  #send(bells: readonly number[]): void {
    this.#rope.send({ text: tell, values: [this.#channel, `${this.#self} ${bells.join(',')}`] })
  }

  /** The server also tells us of our own rings. We know those already, but they prove that we hear. */
  #heard(payload: string | undefined): void {
    this.#hearing.heard()
    const [who, bells = ''] = (payload ?? '').split(' ')
    if (who === this.#self) return
    const rung = bells === '' ? [] : bells.split(',').map(Number).filter(isBell)
    if (rung.some(isOfThings)) this.#rope.onOthers()
    for (const bell of rung) this.#listeners.call(bell)
  }

  /** From now on nothing is delayed: the last commits are announced at once. */
  close(): void {
    this.#closed = true
    this.#giveOwed()
  }
}

/** Anybody who may use the database can send on a channel. */
function isBell(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number < maxBells
}
