/**
 * The batch runner: handles the items of a run under its lock, several at once, and records the outcome of each. Before
 * every item it checks whether it may continue; if not (lock lost, paused, stopped, store unreachable), it starts no
 * further item. Items already being handled are finished. When the batch is started again, only items without an
 * outcome are handled.
 *
 * Not guaranteed: that an item is handled exactly once. If a process dies after an effect and before its record, the
 * item is handled again.
 */
import { setMaxListeners } from 'node:events'
import { onAbort } from '../../abort.ts'
import { messageOf } from '../../domain/failure.ts'
import { concurrencyFor } from '../../domain/run.ts'
import { fitText } from '../../domain/text.ts'
import { pause } from '../../environment.ts'
import { isHoldfastError, NotFoundError } from '../../errors.ts'
import type { RunView } from '../../operations/run/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { Runs } from '../runs.ts'
import type { BatchContext, BatchHandler, BatchItems, BatchOptions } from './batch-options.ts'
import { BatchSource } from './batch-source.ts'
import { UnsettledItems, type Work } from './unsettled-items.ts'

type Rest<Item> = BatchSource<Work<Item>>

const gapMsDefault = 200

/** One batch under its lock. */
export class Batch<Item> {
  readonly #session: Session
  readonly #runs: Runs
  readonly #run: string
  readonly #lock: string
  readonly #lease: Lease
  readonly #unsettled: UnsettledItems<Item>
  readonly #handler: BatchHandler<Item>
  readonly #options: BatchOptions<Item>
  readonly #closing: AbortSignal
  /** Aborted when the lock is lost, the handle closes, or the caller asks for it: handlers are told. */
  readonly #interrupted = new AbortController()
  /** Aborted when no further item may be started. */
  readonly #over = new AbortController()
  /**
   * Keys in the order they were started, minus the settled ones at the front. Everything before the first one is done.
   */
  readonly #order: { readonly key: string; settled: boolean }[] = []
  #completion: RunView['completion'] = 'processed'
  /** Read from the source before the run was reopened for it. */
  #ahead: Work<Item> | null = null
  #stopReason: string | null = null
  #error: unknown = null
  #last: RunView | null = null

  constructor(
    parts: { session: Session; runs: Runs; run: string; lock: string; lease: Lease; closing: AbortSignal },
    items: BatchItems<Item>,
    handler: BatchHandler<Item>,
    options: BatchOptions<Item>,
  ) {
    this.#session = parts.session
    this.#runs = parts.runs
    this.#run = parts.run
    this.#lock = parts.lock
    this.#lease = parts.lease
    this.#unsettled = new UnsettledItems(parts, items, options)
    this.#handler = handler
    this.#options = options
    this.#closing = parts.closing
    // All handlers get the same signal, and Node warns of a leak when more than ten listen to it.
    setMaxListeners(0, this.#interrupted.signal)
  }

  /**
   * Runs the batch to its end and returns the progress. Throws the first error that stopped it, unless that was the
   * loss of its lock.
   */
  async work(): Promise<RunView> {
    const signals = [this.#lease.signal, this.#closing, this.#options.signal]
    const unheard = signals.map((signal) => onAbort(signal, () => this.#interrupt(signal?.reason)))
    try {
      return await this.#work()
    } finally {
      for (const each of unheard) each()
    }
  }

  #interrupt(reason: unknown): void {
    this.#interrupted.abort(reason)
    this.#over.abort()
  }

  async #work(): Promise<RunView> {
    const known = await this.#runs.get(this.#run)
    if (known?.status === 'completed') return this.#workOnMore(known)
    const begun = await this.#begin(known)
    // Nothing was left to do.
    if (begun.status === 'completed') this.#last = begun
    const ended = begun.status === 'completed' ? begun : await this.#workOn(begun, this.#rest(begun.cursor))
    return this.#closed(ended)
  }

  /**
   * Reopens a completed run for items it does not know. Not if it knows no items at all: then all of them would seem
   * new.
   */
  async #workOnMore(known: RunView): Promise<RunView> {
    if (!(await this.#knowsItems(known))) return known
    this.#completion = known.completion
    const rest = this.#rest(known.cursor)
    try {
      this.#ahead = await rest.next(this.#over.signal)
      if (this.#ahead === null) return known
      const begun = await this.#reopen(known)
      return await this.#closed(await this.#workOn(begun, rest))
    } finally {
      await rest.close()
    }
  }

  async #reopen({ processed }: RunView): Promise<RunView> {
    const { total = 0 } = this.#options
    await this.#runs.reopen(this.#run, total > processed ? { total } : {})
    return this.#runs.resume(this.#run, { lock: this.#lock, token: this.#lease.token })
  }

  async #knowsItems({ processed, outcomesRemovedAt }: RunView): Promise<boolean> {
    if (outcomesRemovedAt !== null) return false
    if (processed === 0) return true
    return (await this.#runs.outcomes(this.#run, { limit: 1 })).outcomes.length > 0
  }

  async #closed(ended: RunView): Promise<RunView> {
    if (this.#last) await this.#options.onComplete?.(this.#last)
    return ended
  }

  async #workOn(begun: RunView, rest: Rest<Item>): Promise<RunView> {
    this.#completion = begun.completion
    const lines = this.#options.concurrency ?? concurrencyFor(begun.remaining ?? Number.POSITIVE_INFINITY)
    await Promise.all(Array.from({ length: lines }, () => this.#line(rest)))
    await rest.close()
    const ended = await this.#end()
    if (this.#error !== null) throw this.#error
    return ended
  }

  async #begin(known: RunView | null): Promise<RunView> {
    const total = this.#options.total ?? (await this.#unsettled.count(known))
    const under = { lock: this.#lock, token: this.#lease.token, ...(total === undefined ? {} : { total }) }
    if (known) return this.#runs.resume(this.#run, under)
    const { completion } = this.#options
    return this.#runs.start(this.#run, { ...under, ...(completion === undefined ? {} : { completion }) })
  }

  #rest(cursor: unknown): Rest<Item> {
    return new BatchSource(this.#unsettled.from(cursor))
  }

  /** Handles one item after the other. Several of these run side by side and share the source. */
  async #line(rest: Rest<Item>): Promise<void> {
    try {
      while (!(await this.#mustStop())) {
        const next = await this.#next(rest)
        if (this.#over.signal.aborted) continue
        if (next === null || (await this.#mustStop())) return
        await this.#handle(next)
        const gapMs = this.#options.gapMs ?? gapMsDefault
        if (gapMs > 0) await pause(this.#session.environment, gapMs, this.#over.signal)
      }
    } catch (error) {
      this.#stop(isLost(error) ? 'its lock was lost' : `it broke: ${messageOf(error)}`)
      if (!isLost(error)) this.#error ??= error
    }
  }

  async #next(rest: Rest<Item>): Promise<Work<Item> | null> {
    const ahead = this.#ahead
    this.#ahead = null
    return ahead ?? rest.next(this.#over.signal)
  }

  async #mustStop(): Promise<boolean> {
    if (this.#stopReason !== null) return true
    if (this.#interrupted.signal.aborted || !this.#lease.isHeld) {
      this.#stop(this.#lease.isHeld ? 'it was stopped' : 'its lock was lost')
      return true
    }
    const { stop, reason, error } = await this.#runs.shouldStop(this.#run, { token: this.#lease.token })
    if (stop) this.#stop(reason ?? 'it was stopped')
    if (error !== undefined) this.#error ??= error
    return stop
  }

  #stop(reason: string): void {
    this.#stopReason ??= fitText(reason, 2000)
    this.#over.abort()
  }

  async #handle({ item, key }: Work<Item>): Promise<void> {
    const entry = { key, settled: false }
    this.#order.push(entry)
    const outcome = await this.#outcomeOf(item, key)
    if (outcome === null) return
    const cursor = this.#passed()
    const { progress, isLast } = await this.#runs.record(this.#run, {
      token: this.#lease.token,
      outcomes: [{ key, ...outcome }],
      ...(cursor === null ? {} : { cursor }),
    })
    // When all items must succeed, a failed one is to be done again, so the cursor must not pass it.
    entry.settled = outcome.outcome !== 'failed' || this.#completion === 'processed'
    if (entry.settled) this.#unsettled.settled(key)
    if (isLast) this.#last = progress
  }

  /** Null when the item was interrupted: it counts as not done. */
  async #outcomeOf(item: Item, key: string) {
    const context: BatchContext = {
      run: this.#run,
      key,
      token: this.#lease.token,
      signal: this.#interrupted.signal,
      assertHeld: () => this.#lease.assertHeld(),
    }
    try {
      const answer = await this.#handler(item, context)
      return { outcome: answer === 'skipped' ? ('skipped' as const) : ('done' as const) }
    } catch (error) {
      if (this.#interrupted.signal.aborted || isLost(error)) return null
      return { outcome: 'failed' as const, error: fitText(messageOf(error), 10_000) }
    }
  }

  /** The last key up to which everything is recorded; null when that has not moved. */
  #passed(): string | null {
    let last: string | null = null
    while (this.#order[0]?.settled) last = this.#order.shift()?.key ?? null
    return last
  }

  /**
   * Ends the run: completed, failed, or paused with the rest still to do. Only this grant may say so, and the store
   * decides.
   */
  async #end(): Promise<RunView> {
    const token = this.#lease.token
    const known = await this.#known()
    if (known.status !== 'running' || known.token !== token) return known
    try {
      if (this.#stopReason !== null)
        return await this.#runs.pause(this.#run, { token, reason: this.#stopReason })
      if (known.completion === 'successful' && known.failed > 0)
        return await this.#runs.fail(this.#run, { token, reason: `${known.failed} failed` })
      const { progress, isLast } = await this.#runs.record(this.#run, { token, total: known.processed })
      if (isLast) this.#last = progress
      return progress
    } catch (error) {
      if (!isLost(error)) throw error
      return this.#known()
    }
  }

  async #known(): Promise<RunView> {
    const known = await this.#runs.get(this.#run)
    if (known) return known
    throw new NotFoundError({
      what: `run ${this.#run} was removed while it ran`,
      next: 'run it again under a new name',
      cause: this.#error,
    })
  }
}

function isLost(error: unknown): boolean {
  return isHoldfastError(error) && error.code === 'LEASE_LOST'
}
