/**
 * A separate connection to hear others on, where the store's URL leads to a pooler. Retries forever when it is lost.
 */
import { type Environment, pause } from '../../environment.ts'
import type { Connection } from './connection.ts'

const retryMs = { first: 50, max: 5_000 }

export class Listener {
  readonly #environment: Environment
  readonly #connect: () => Promise<Connection>
  readonly #over = new AbortController()
  #connection: Connection | null = null

  /** `connect` returns a connection that already listens. */
  constructor(environment: Environment, connect: () => Promise<Connection>) {
    this.#environment = environment
    this.#connect = connect
    void this.#keep()
  }

  async #keep(): Promise<void> {
    for (let attempt = 1; !this.#over.signal.aborted; attempt++) {
      try {
        const connection = await this.#connect()
        if (this.#over.signal.aborted) return connection.destroy(new Error('the store was closed meanwhile'))
        this.#connection = connection
        attempt = 0
        await new Promise<void>((resolve) => connection.onEnd(() => resolve()))
      } catch {
        // Polling serves meanwhile.
      }
      const waitMs = Math.min(retryMs.max, retryMs.first * 2 ** attempt) * (0.5 + this.#environment.random())
      await pause(this.#environment, waitMs, this.#over.signal)
    }
  }

  /** Closes without a goodbye: a listener leaves nothing behind, and a server that fell silent would not answer it. */
  close(): void {
    this.#over.abort()
    this.#connection?.destroy(new Error('the store was closed'))
  }
}
