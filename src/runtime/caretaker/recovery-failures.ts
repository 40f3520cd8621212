/**
 * Failures to heal, on their way into the store, where their count outlives this process. One that cannot be written,
 * because the store is what fails, is kept here and written with the next.
 */
import { fitText } from '../../domain/text.ts'
import type { Environment } from '../../environment.ts'
import type { LogFacts } from '../../logger.ts'
import { maxError, type RecoveryStats } from '../../operations/recovery/stats.ts'
import type { InputOf } from '../../operations/table.ts'

type Failure = InputOf<'recovery.noteFailure'>

/** There are few triggers, but a process may claim from any number of queues. */
const maxKinds = 100

export class RecoveryFailures {
  /** Not written yet, by trigger and queue. */
  readonly #pending = new Map<string, Failure>()
  readonly #environment: Environment
  readonly #by: string
  #write: ((failure: Failure) => Promise<unknown>) | null = null
  #writing: Promise<void> | null = null

  constructor(environment: Environment, by: string) {
    this.#environment = environment
    this.#by = by
  }

  /** The most recent failure this process has seen. */
  last: NonNullable<RecoveryStats['lastError']> | null = null

  get pending(): number {
    return [...this.#pending.values()].reduce((sum, { count }) => sum + count, 0)
  }

  /** From now on failures can be written. */
  writeWith(write: (failure: Failure) => Promise<unknown>): void {
    this.#write = write
    void this.flush()
  }

  note({ trigger, queue, error }: LogFacts): void {
    const at = this.#environment.now()
    const text = fitText(String(error), maxError)
    this.last = { at, trigger: String(trigger), by: this.#by, error: text }
    const of = typeof queue === 'string' ? queue : undefined
    const key = `${trigger}\n${of ?? ''}`
    if (!this.#pending.has(key) && this.#pending.size >= maxKinds) return
    const count = (this.#pending.get(key)?.count ?? 0) + 1
    this.#pending.set(key, { trigger: trigger as Failure['trigger'], queue: of, count, at, error: text })
    void this.flush()
  }

  /** Resolves when everything that can be written is written. */
  flush(): Promise<void> {
    this.#writing ??= Promise.resolve().then(() => this.#flush())
    return this.#writing
  }

  async #flush(): Promise<void> {
    // Also those noted in the meantime: a map is read on as it grows.
    for (const [key, failure] of this.#write === null ? [] : this.#pending) {
      this.#pending.delete(key)
      try {
        await this.#write?.(failure)
      } catch {
        // Already reported: the store is unavailable. Failures noted meanwhile are added to this one.
        const since = this.#pending.get(key)
        this.#pending.set(key, since ? { ...since, count: since.count + failure.count } : failure)
        break
      }
    }
    // Right after the last look: whatever is noted from now on starts another.
    this.#writing = null
  }
}
