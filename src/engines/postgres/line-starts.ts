/**
 * Where the claims of this process last began in each line. What was claimed stays in the index until no snapshot can
 * see it any more; from the head of a line, each claim would pass over all of that. Before the place remembered nothing
 * was ready, so it serves until something may be: this process made an item ready, another rang, or a moment passed.
 */

import type { LinePosition } from '../../domain/item.ts'
import type { Environment } from '../../environment.ts'

/** A ring may be lost, and not everything that moves an item to the front rings. */
const servesMs = 100

export class LineStarts {
  readonly #environment: Environment
  readonly #starts = new Map<string, LinePosition>()
  #forgottenAt = Number.NEGATIVE_INFINITY
  /** Counts how often everything was forgotten. */
  #age = 0

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get age(): number {
    return this.#age
  }

  of(line: string): LinePosition | null {
    if (this.#environment.monotonic() - this.#forgottenAt >= servesMs) this.forget()
    return this.#starts.get(line) ?? null
  }

  /** The first that was found; `age` as it was when it was searched for. */
  note(line: string, start: LinePosition, age: number): void {
    if (age === this.#age) this.#starts.set(line, start)
  }

  forget(): void {
    this.#age++
    this.#forgottenAt = this.#environment.monotonic()
    this.#starts.clear()
  }
}
