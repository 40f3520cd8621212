/**
 * Telling other processes that something became claimable: NOTIFY after the commit, at most every ten milliseconds,
 * in a transaction of its own (inside a batch it would halve the rate). A hint only; polling is the truth.
 */
import type { Environment } from '../../environment.ts'
import type { Address } from './address.ts'
import type { Connection } from './connection.ts'
import type { Query } from './plan.ts'

const coalesceMs = 10
/** What is only a hint need not be on disk before it is given: the wait for that would be most of its way. */
const tell = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

export class Wake {
  readonly #listeners = new Set<() => void>()
  readonly #commitListeners = new Set<() => void>()
  readonly #environment: Environment
  readonly #channel: string
  readonly #self: string
  readonly #send: (query: Query) => void
  readonly #hint: Query
  #ringing = false
  #ringsAgain = false

  /** What is sent may be lost: a hint that could not be given costs others a poll, never correctness. */
  constructor(environment: Environment, { schema }: Address, send: (query: Query) => void) {
    this.#environment = environment
    this.#send = send
    this.#channel = `holdfast_${schema}`.slice(0, 63)
    this.#self = environment.id()
    this.#hint = { text: tell, values: [this.#channel, this.#self] }
  }

  /** Hears others on this connection from now on; what was missed meanwhile is looked for at once. */
  async listenOn(connection: Connection): Promise<void> {
    connection.onNotification(({ payload }) => {
      if (payload !== this.#self) this.#heard()
    })
    await connection.send({ text: `listen ${this.#channel}`, values: [] })
    this.#heard()
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  listenToCommits(listener: () => void): () => void {
    this.#commitListeners.add(listener)
    return () => {
      this.#commitListeners.delete(listener)
    }
  }

  /** After any commit of this process. */
  committed(): void {
    for (const listener of this.#commitListeners) listener()
  }

  /** After a commit that concerns others: listeners of this process at once, other processes through the server. */
  ring(): void {
    for (const listener of this.#listeners) listener()
    if (this.#ringing) {
      this.#ringsAgain = true
      return
    }
    this.#ringing = true
    this.#send(this.#hint)
    this.#environment.timer(coalesceMs, () => {
      this.#ringing = false
      if (!this.#ringsAgain) return
      this.#ringsAgain = false
      this.#ringing = true
      this.#send(this.#hint)
      this.#ringing = false
    })
  }

  #heard(): void {
    for (const listener of this.#listeners) listener()
    this.committed()
  }

  close(): void {
    this.#listeners.clear()
    this.#commitListeners.clear()
  }
}
