/** The events of a worker, and their listeners. */
import type { LeaseLostError } from '../../errors.ts'
import type { QueueItem } from '../queue/queue-answers.ts'

/**
 * The events of a worker. Each claimed item ends in at most one of `completed`, `failed` and `lost`. An item that is
 * given back unfinished, for example by `stop()`, ends in none.
 */
export interface WorkerEvents<Payload = unknown> {
  /** The store has recorded that the item is done. `item` is the finished item. */
  readonly completed: { readonly item: QueueItem<Payload> }
  /**
   * The store has recorded a failure. `error` is what the handler threw, or what it reported itself; `willRetry` says
   * whether the item will be tried again.
   */
  readonly failed: {
    readonly item: QueueItem<Payload>
    readonly error: unknown
    readonly willRetry: boolean
  }
  /**
   * The item was taken away: its lease lapsed, or somebody cancelled, removed or reclaimed it. Its handler may still be
   * running, and another worker may already have the item.
   */
  readonly lost: { readonly item: QueueItem<Payload>; readonly error: LeaseLostError }
  /** The worker could not claim or finish something. It retries by itself. The same is logged as `worker.failed`. */
  readonly error: { readonly error: unknown; readonly item: string | null }
}

/** The name of a worker event. */
export type WorkerEventName = keyof WorkerEvents

/** Called with each event. If it throws, that is logged and nothing stops. */
export type WorkerListener<Payload, Name extends WorkerEventName> = (
  event: WorkerEvents<Payload>[Name],
) => unknown

type AnyListener = (event: never) => unknown

export const workerEventNames = Object.freeze([
  'completed',
  'failed',
  'lost',
  'error',
]) satisfies readonly WorkerEventName[]

export class WorkerListeners<Payload> {
  readonly #listeners = new Map<WorkerEventName, Set<{ readonly tell: AnyListener }>>()
  readonly #onThrown: (error: unknown, name: WorkerEventName) => void

  constructor(onThrown: (error: unknown, name: WorkerEventName) => void) {
    this.#onThrown = onThrown
  }

  add<Name extends WorkerEventName>(name: Name, listener: WorkerListener<Payload, Name>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    // A new object per call: the same function added twice is called twice, and each removal removes one.
    const entry = { tell: listener as AnyListener }
    this.#listeners.set(name, listeners.add(entry))
    return () => void listeners.delete(entry)
  }

  tell<Name extends WorkerEventName>(name: Name, event: WorkerEvents<Payload>[Name]): void {
    for (const { tell } of [...(this.#listeners.get(name) ?? [])]) void this.#tellOne(name, tell, event)
  }

  /** Async, so that a listener that rejects is caught like one that throws. The listener still starts synchronously. */
  async #tellOne(name: WorkerEventName, tell: AnyListener, event: unknown): Promise<void> {
    try {
      await tell(event as never)
    } catch (error) {
      this.#onThrown(error, name)
    }
  }
}
