/**
 * Whether rings arrive in this process. An accepted watch proves nothing: on some file systems it never fires, and a
 * server may have dropped the listening connection. Any ring heard is proof; when none has been heard for a while, we
 * ring ourselves to test. So in a fleet that waits for the same thing, one test serves all.
 */
import type { Environment } from '../environment.ts'

const provenForMs = 30_000
/** Tests start well before the last proof expires, at a different time in each process. */
const testAfterMs = 15_000
const testAgainMs = 1_000

export class Hearing {
  readonly #environment: Environment
  readonly #ring: () => void
  #heardAt = Number.NEGATIVE_INFINITY
  #testedAt = Number.NEGATIVE_INFINITY
  #testAfterMs = testAfterMs

  /** `ring`: makes a ring that should be heard here. */
  constructor(environment: Environment, ring: () => void) {
    this.#environment = environment
    this.#ring = ring
  }

  heard(): void {
    this.#heardAt = this.#environment.monotonic()
  }

  /**
   * Always false when the environment's time is moved by hand: its milliseconds say nothing about how long a ring may
   * take.
   */
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
