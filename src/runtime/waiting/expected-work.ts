/** Tells the workers of this process that it is adding work: a claim sent at once shares the transaction. */
export class ExpectedWork {
  readonly #listeners = new Map<string, Set<() => void>>()

  /** Work for a queue was submitted in this turn of the event loop. */
  expect(queue: string): void {
    for (const listener of this.#listeners.get(queue) ?? []) listener()
  }

  on(queue: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(queue) ?? new Set()
    this.#listeners.set(queue, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      // Queue names come and go: do not keep entries for old ones.
      if (listeners.size === 0 && this.#listeners.get(queue) === listeners) this.#listeners.delete(queue)
    }
  }
}
