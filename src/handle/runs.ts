/** `hf.runs`: how far runs are. Counts are raised under the token of the lock held for the run. */

import type { StopAnswer } from '../operations/run/read.ts'
import type { RecordedProgress } from '../operations/run/record.ts'
import type { ProgressView } from '../operations/run/view.ts'
import type { InputOf, ResultOf } from '../operations/table.ts'
import { askInPieces, optionsOf, orReject } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'
import type { LockGrants } from './lock-grants.ts'
import type { TokenOptions } from './queue.ts'

export interface StartOptions extends TokenOptions {
  /** Name of the lock. The one held for this run; default `global`. */
  readonly lock?: string
  /** How many items there are. */
  readonly total?: number
}

export interface RecordOptions extends TokenOptions {
  /** How many more are done. */
  readonly done?: number
  /** How many more failed. */
  readonly failed?: number
  /** How many more were skipped. */
  readonly skipped?: number
  /** How many items there are. */
  readonly total?: number
  /** Where to continue; any JSON. */
  readonly cursor?: unknown
  /** Outcomes of single items. Each key counts once, by its latest outcome. */
  readonly outcomes?: readonly {
    readonly key: string
    readonly outcome: 'done' | 'failed' | 'skipped'
    readonly error?: string
  }[]
}

export const defaultLock = 'global'

export class Runs {
  readonly #session: Session
  readonly #grants: LockGrants

  constructor(session: Session, grants: LockGrants) {
    this.#session = session
    this.#grants = grants
  }

  /** Begins a run under the lock that was acquired with its name as `run`. ILLEGAL_MOVE when it is known: resume it. */
  start(
    run: string,
    options: StartOptions & { cursor?: unknown; completion?: 'processed' | 'successful' } = {},
  ): Promise<ProgressView> {
    return this.#underLock('runs.start', run, options)
  }

  /** Goes on with a paused or failed run, under the grant held now. */
  resume(run: string, options: StartOptions = {}): Promise<ProgressView> {
    return this.#underLock('runs.resume', run, options)
  }

  #underLock(
    operation: 'runs.start' | 'runs.resume',
    run: string,
    options: StartOptions,
  ): Promise<ProgressView> {
    return orReject(() => {
      const { lock = defaultLock } = optionsOf(operation, options)
      const token = this.#grants.tokenFor(lock, options)
      return this.#session.ask(operation, { run, lock, token }, options)
    })
  }

  /** Adds to the counts; LEASE_LOST once the lock is not the caller's. A pause stays a pause. */
  async record(run: string, options: RecordOptions): Promise<RecordedProgress> {
    return this.#session.ask('runs.record', { run }, await this.#withToken(run, options))
  }

  /** Stops a run before its next item; anybody may. With a token: only the run of that grant. */
  pause(run: string, options: TokenOptions & { reason?: string } = {}): Promise<ProgressView> {
    return this.#session.ask('runs.pause', { run }, options)
  }

  /** The runner gives the run up; it can be resumed. */
  async fail(run: string, options: TokenOptions & { reason: string }): Promise<ProgressView> {
    return this.#session.ask('runs.fail', { run }, await this.#withToken(run, options))
  }

  /** More items arrived for a completed run: it is paused with the new total, where that is known. */
  reopen(run: string, options: Omit<TokenOptions, 'token'> & { total?: number } = {}): Promise<ProgressView> {
    return this.#session.ask('runs.reopen', { run }, options)
  }

  get(run: string): Promise<ProgressView | null> {
    return this.#session.call('runs.get', { run })
  }

  list(options: InputOf<'runs.list'> = {}): Promise<ResultOf<'runs.list'>> {
    return this.#session.ask('runs.list', {}, options)
  }

  /** List the outcome of each item of a run, by key. */
  outcomes(
    run: string,
    options: Omit<InputOf<'runs.outcomes'>, 'run'> = {},
  ): Promise<ResultOf<'runs.outcomes'>> {
    return this.#session.ask('runs.outcomes', { run }, options)
  }

  /** Which of these keys (at most 500) are still to be done. */
  remaining(run: string, keys: readonly string[]): Promise<string[]> {
    return this.#session.call('runs.remaining', { run, keys })
  }

  /** Whether no other item may be begun: lock lost, not running, or nobody can tell (then with the error). */
  async shouldStop(run: string, options: TokenOptions = {}): Promise<StopAnswer & { error?: unknown }> {
    try {
      return await this.#session.ask('runs.shouldStop', { run }, await this.#withToken(run, options))
    } catch (error) {
      return { stop: true, reason: 'nobody can tell whether its lock still holds', error }
    }
  }

  /** Forgets a run that does not run, and what became of its items. False when there is none. */
  async remove(run: string, options: Omit<TokenOptions, 'token'> = {}): Promise<boolean> {
    const pieces = await askInPieces('runs.remove', options, (asked) =>
      this.#session.ask('runs.remove', { run }, asked),
    )
    return pieces.at(-1)?.removed === true
  }

  /** Without a token, that of this handle's grant of the run's lock. */
  async #withToken<Options extends TokenOptions>(run: string, given: Options) {
    const options = optionsOf('progress', given)
    if (options.token !== undefined) return options
    const lock = (await this.get(run))?.lock
    return { ...options, token: lock === undefined ? undefined : this.#grants.tokenFor(lock, options) }
  }
}
