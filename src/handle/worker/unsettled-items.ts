/**
 * The items of a batch that are left to do: those without a recorded outcome, each key once. A run that continues skips
 * what was done before.
 */
import type { RunView } from '../../operations/run/view.ts'
import { allPages, chunksOf } from '../../runtime/session/pages.ts'
import type { Runs } from '../runs.ts'
import { type BatchItems, type BatchOptions, keyOfItem } from './batch-options.ts'

export interface Work<Item> {
  readonly item: Item
  readonly key: string
}

const maxWindow = 200

export class UnsettledItems<Item> {
  readonly #runs: Runs
  readonly #run: string
  readonly #items: BatchItems<Item>
  readonly #options: BatchOptions<Item>
  /** Keys that were handed out and have no recorded outcome, or a failure that a later run is to repair. */
  readonly #taken = new Set<string>()

  constructor(
    { runs, run }: { readonly runs: Runs; readonly run: string },
    items: BatchItems<Item>,
    options: BatchOptions<Item>,
  ) {
    this.#runs = runs
    this.#run = run
    this.#items = items
    this.#options = options
  }

  /**
   * The number of distinct keys, if it can be known in advance. A run that continues has what is settled and what is
   * left of the items: they need not include what was done before. If no item may fail, what failed is left too.
   */
  async count(known: RunView | null): Promise<number | undefined> {
    const items: unknown = this.#items
    if (!Array.isArray(items) && !(items instanceof Set) && !(items instanceof Map)) return undefined
    const keys = new Set(Array.from(items as Iterable<Item>, (item) => keyOfItem(item, this.#options)))
    if (known === null) return keys.size
    const needsAll = known.completion === 'successful'
    const left = new Set(needsAll && known.failed > 0 ? await this.#failedKeys() : [])
    for (const some of chunksOf([...keys], maxWindow))
      for (const key of await this.#runs.remaining(this.#run, some)) left.add(key)
    return left.size + (needsAll ? known.done + known.skipped : known.processed)
  }

  async #failedKeys(): Promise<string[]> {
    const pages = await allPages((after: string | undefined) =>
      this.#runs.outcomes(this.#run, { outcome: 'failed', limit: 1000, after }),
    )
    return pages.flatMap(({ outcomes }) => outcomes.map(({ key }) => key))
  }

  /** The items without an outcome. Looks up many at a time when the source is synchronous. */
  async *from(cursor: unknown): AsyncGenerator<Work<Item>> {
    const source = typeof this.#items === 'function' ? this.#items(cursor) : this.#items
    const most = Symbol.asyncIterator in source ? 1 : maxWindow
    let window: Work<Item>[] = []
    for await (const item of source) {
      window.push({ item, key: keyOfItem(item, this.#options) })
      if (window.length < most) continue
      yield* await this.#takeNew(window)
      window = []
    }
    yield* await this.#takeNew(window)
  }

  async #takeNew(window: readonly Work<Item>[]) {
    // Filter before asking: an outcome recorded during the request may be missing from the answer, but its key was
    // still taken when we started.
    const fresh = window.filter(({ key }) => !this.#taken.has(key))
    if (fresh.length === 0) return []
    const keys = fresh.map(({ key }) => key)
    const left = new Set(await this.#runs.remaining(this.#run, keys))
    // Of several items with the same key, only the first: the others are the same work.
    const rest = fresh.filter(({ key }) => left.delete(key))
    for (const { key } of rest) this.#taken.add(key)
    return rest
  }

  /** The store knows its outcome now. */
  settled(key: string): void {
    this.#taken.delete(key)
  }
}
