/** A connection that is found again whenever it is lost, however long it takes: a restart or a failover ends. */
import { type Environment, pause } from '../../environment.ts'
import { type HoldfastError, isHoldfastError } from '../../errors.ts'
import type { Connection } from './connection.ts'
import { jittered } from './jitter.ts'
import { isMoreTelling, type Search } from './servers.ts'

/** Backoff for a server that was found and lost again at once. */
const reconnectMs = { first: 20, max: 2_000 }
/** Hosts fail at different times, so the most telling reason is kept for this long. */
const toldForMs = 5_000

export interface FindOptions {
  readonly environment: Environment
  /** Searches for as long as it takes. */
  connect(search: Search): Promise<Connection>
  /** Found again as soon as it is lost, even when idle, because we listen on it. */
  readonly staysConnected: boolean
}

export class FoundConnection {
  readonly #options: FindOptions
  readonly #over = new AbortController()
  #current: Connection
  #searching: Promise<void> | null = null
  #lastFailure: { readonly error: unknown; readonly at: number } | null = null
  #unfit: HoldfastError | null = null

  constructor(connection: Connection, options: FindOptions) {
    this.#options = options
    this.#current = connection
    this.#use(connection)
  }

  /** Open or lost. */
  get current(): Connection {
    return this.#current
  }

  /** Why it was not found again at the last attempt. */
  get lastFailure(): unknown {
    return this.#lastFailure?.error ?? null
  }

  /**
   * Returns the open connection; null if it was not found again in that time, or before `over` was aborted. Throws if
   * there is a server that cannot be used.
   */
  async within(ms: number, over = new AbortController()): Promise<Connection | null> {
    if (this.#current.isOpen) return this.#current
    await Promise.race([this.#search(), pause(this.#options.environment, Math.max(0, ms), over.signal)])
    over.abort()
    if (this.#unfit !== null) throw this.#unfit
    return this.#current.isOpen ? this.#current : null
  }

  searchNoMore(): void {
    this.#over.abort()
  }

  /** Only one search runs at a time, whoever asks. */
  #search(): Promise<void> {
    this.#searching ??= this.#searchUntilFound().finally(() => {
      this.#searching = null
    })
    return this.#searching
  }

  async #searchUntilFound(): Promise<void> {
    const { environment, connect } = this.#options
    this.#unfit = null
    const onFailure = (error: unknown) => this.#noteFailure(error)
    for (let attempt = 1; !this.#current.isOpen && !this.#over.signal.aborted; attempt++) {
      try {
        const connection = await connect({ signal: this.#over.signal, onFailure })
        if (this.#over.signal.aborted) connection.destroy(new Error('the store was closed meanwhile'))
        else this.#use(connection)
        return
      } catch (error) {
        onFailure(error)
        if (isHoldfastError(error) && error.code === 'STORE_UNFIT') {
          this.#unfit = error
          return
        }
        await pause(environment, jittered(reconnectMs, attempt, environment), this.#over.signal)
      }
    }
  }

  #noteFailure(error: unknown): void {
    const now = this.#options.environment.monotonic()
    const last = this.#lastFailure
    if (last === null || now - last.at > toldForMs || !isMoreTelling(last.error, error))
      this.#lastFailure = { error, at: now }
  }

  #use(connection: Connection): void {
    this.#current = connection
    if (!this.#options.staysConnected) return
    connection.onEnd(() => {
      if (!this.#over.signal.aborted) void this.#search()
    })
  }
}
