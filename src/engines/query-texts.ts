/**
 * SQL texts, each built once: looking up a statement by a long new string costs as much as running it. Bounded, because
 * limits and durations are written into the SQL. Texts in use are soon built again.
 */
const maxTexts = 1000

export class QueryTexts {
  readonly #texts = new Map<string, string>()

  get size(): number {
    return this.#texts.size
  }

  of(key: string, build: () => string): string {
    const known = this.#texts.get(key)
    if (known !== undefined) return known
    const text = build()
    if (this.#texts.size >= maxTexts) this.#texts.clear()
    this.#texts.set(key, text)
    return text
  }
}
