/**
 * Where the claims of this process last began in each line. What was claimed stays in the index until no snapshot can
 * see it any more; from the head of a line, each claim would pass over all of that. Before the place remembered nothing
 * was ready, so it serves until something may be: this process made an item ready, another rang, or a moment passed.
 */

import type { LinePlace } from '../../domain/item.ts'
import type { Environment } from '../../environment.ts'

/** A ring may be lost, and not everything that moves an item to the front rings. */
const servesMs = 100

export class LinePlaces {
  readonly #environment: Environment
  readonly #places = new Map<string, LinePlace>()
  #forgottenAt = Number.NEGATIVE_INFINITY
  /** Counts how often everything was forgotten. */
  #age = 0

  constructor(environment: Environment) {
    this.#environment = environment
  }

  get age(): number {
    return this.#age
  }

  of(line: string): LinePlace | null {
    if (this.#environment.monotonic() - this.#forgottenAt >= servesMs) this.forget()
    return this.#places.get(line) ?? null
  }

  /** The first that was found; `age` as it was when it was searched for. */
  note(line: string, place: LinePlace, age: number): void {
    if (age === this.#age) this.#places.set(line, place)
  }

  forget(): void {
    this.#age++
    this.#forgottenAt = this.#environment.monotonic()
    this.#places.clear()
  }
}
