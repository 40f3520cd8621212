/** The listeners of each bell. */
export class BellListeners {
  readonly #listeners = new Map<number, Set<() => void>>()

  add(bell: number, listener: () => void): () => void {
    const those = this.#listeners.get(bell) ?? new Set()
    this.#listeners.set(bell, those.add(listener))
    return () => {
      those.delete(listener)
      if (those.size === 0 && this.#listeners.get(bell) === those) this.#listeners.delete(bell)
    }
  }

  has(bell: number): boolean {
    return this.#listeners.has(bell)
  }

  /** The bells that have listeners. */
  get awaited(): readonly number[] {
    return [...this.#listeners.keys()]
  }

  call(bell: number): void {
    for (const listener of this.#listeners.get(bell) ?? []) listener()
  }

  clear(): void {
    this.#listeners.clear()
  }
}
