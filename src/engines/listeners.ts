/** Who listens to what: several listeners for each bell, or for each queue. */
export class Listeners<Key> {
  readonly #listeners = new Map<Key, Set<() => void>>()

  add(key: Key, listener: () => void): () => void {
    const those = this.#listeners.get(key) ?? new Set()
    this.#listeners.set(key, those.add(listener))
    return () => {
      those.delete(listener)
      // Queue names come and go: do not keep entries for old ones.
      if (those.size === 0 && this.#listeners.get(key) === those) this.#listeners.delete(key)
    }
  }

  has(key: Key): boolean {
    return this.#listeners.has(key)
  }

  get awaited(): readonly Key[] {
    return [...this.#listeners.keys()]
  }

  call(key: Key): void {
    for (const listener of this.#listeners.get(key) ?? []) listener()
  }

  clear(): void {
    this.#listeners.clear()
  }
}
