/**
 * Whether rings arrive in this process. That a watch was accepted proves nothing: on some file systems it never fires, and
 * a server may have dropped the connection that listens. Any ring that was heard proves it, and when there was none for a
 * while a test ring of our own does. So in a fleet that waits for the same thing, one test serves all.
 */
import type { Environment } from '../environment.ts'

const provenForMs = 30_000
/** Begun well before the last proof is too old, at a different time in each process. */
const testAfterMs = 15_000
const testAgainMs = 1_000

export class Hearing {
  readonly #environment: Environment
  readonly #ring: () => void
  #heardAt = Number.NEGATIVE_INFINITY
  #testedAt = Number.NEGATIVE_INFINITY
  #testAfterMs = testAfterMs

  /** `ring`: gives a ring that should be heard here. */
  constructor(environment: Environment, ring: () => void) {
    this.#environment = environment
    this.#ring = ring
  }

  heard(): void {
    this.#heardAt = this.#environment.monotonic()
  }

  /** Where somebody moves the time, no number of its milliseconds tells how long a ring may take. */
  get isProven(): boolean {
    if (this.#environment.isLocal) return false
    const now = this.#environment.monotonic()
    if (now - this.#heardAt >= this.#testAfterMs && now - this.#testedAt >= testAgainMs) {
      this.#testedAt = now
      this.#testAfterMs = testAfterMs * (1 + 0.5 * this.#environment.random())
      this.#ring()
    }
    return now - this.#heardAt < provenForMs
  }
}
