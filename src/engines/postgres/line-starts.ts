/**
 * Where the claims of this process last began in each line. Claimed items stay in the index until no snapshot can see
 * them any more, and a claim from the head of the line would pass over all of them. Nothing was ready before the
 * remembered position, so it serves until something may be: this process made an item ready, another one rang, or a
 * short time passed.
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

  /** Remembers the first item found; `age` is as of the start of the search. */
  note(line: string, start: LinePosition, age: number): void {
    if (age === this.#age) this.#starts.set(line, start)
  }

  forget(): void {
    this.#age++
    this.#forgottenAt = this.#environment.monotonic()
    this.#starts.clear()
  }
}
