/** What a worker tells those who listen to it. */
import type { LeaseLostError } from '../../errors.ts'
import type { QueueItem } from '../queue.ts'

/**
 * The events of a worker. Each item it claimed ends in at most one of `completed`, `failed` and `lost`; one that was given
 * back unfinished, as at a stop, ends in none.
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
   * The item was taken away: its lease lapsed, or somebody cancelled, removed or reclaimed it. Its handler may still run,
   * and another worker may have the item.
   */
  readonly lost: { readonly item: QueueItem<Payload>; readonly error: LeaseLostError }
  /** The worker could not claim or finish something. It goes on by itself; the log has the same as `worker.failed`. */
  readonly error: { readonly error: unknown; readonly item: string | null }
}

/** The name of an event of a worker. */
export type WorkerEventName = keyof WorkerEvents

/** A function that is told of an event. What it throws is logged and stops nothing. */
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
    // Its own object for each call: the same function twice is told twice, and leaves once.
    const entry = { tell: listener as AnyListener }
    this.#listeners.set(name, listeners.add(entry))
    return () => void listeners.delete(entry)
  }

  tell<Name extends WorkerEventName>(name: Name, event: WorkerEvents<Payload>[Name]): void {
    for (const { tell } of [...(this.#listeners.get(name) ?? [])]) void this.#tellOne(name, tell, event)
  }

  /** Asynchronous, so that a listener which rejects is caught like one that throws; it begins at once all the same. */
  async #tellOne(name: WorkerEventName, tell: AnyListener, event: unknown): Promise<void> {
    try {
      await tell(event as never)
    } catch (error) {
      this.#onThrown(error, name)
    }
  }
}
