/** `hf.runs`: the progress of runs. Counts can be raised only under the token of the lock that is held for the run. */

import type { StopAnswer } from '../operations/run/read.ts'
import type { RecordedRun } from '../operations/run/record.ts'
import type { RunView } from '../operations/run/view.ts'
import type { AskedOf, OperationName, ResultOf } from '../operations/table.ts'
import { askInPieces, optionsOf, orReject } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'
import type { MutationOptions, OptionsFor, TokenOptions } from './call-options.ts'

/** The lock a run is under, and its size. */
export interface StartOptions extends OptionsFor<'runs.start', 'run' | 'lock'> {
  /** The lock that is held for this run; default `global`. */
  readonly lock?: string | undefined
}

/** What to add to the progress of a run. */
export interface RecordOptions extends OptionsFor<'runs.record', 'run'> {}

export const defaultLock = 'global'

/** Progress of runs. Only the holder of a run's lock can raise its counts. */
export class Runs {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /**
   * Starts a run under the lock that was acquired with its name as `run`. ILLEGAL_MOVE when the run already exists:
   * resume it.
   */
  start(run: string, options: StartOptions = {}): Promise<RunView> {
    return this.#underLock('runs.start', run, options)
  }

  /** Resumes a paused or failed run, under the lock that is held for it now. */
  resume(run: string, options: Omit<StartOptions, 'cursor' | 'completion'> = {}): Promise<RunView> {
    return this.#underLock('runs.resume', run, options)
  }

  #underLock(operation: 'runs.start' | 'runs.resume', run: string, options: StartOptions): Promise<RunView> {
    return orReject(() => {
      const { lock = defaultLock } = optionsOf(operation, options)
      const token = this.#session.grants.tokenFor('lock', lock, options)
      return this.#session.ask(operation, { run, lock, token }, options)
    })
  }

  /** Adds to the counts. LEASE_LOST once the caller no longer holds the lock. A paused run stays paused. */
  async record(run: string, options: RecordOptions): Promise<RecordedRun> {
    return this.#session.ask('runs.record', { run }, await this.#withToken('runs.record', run, options))
  }

  /** Pauses a run before its next item. Anybody may. With a token, only if the run is under that grant. */
  pause(run: string, options: OptionsFor<'runs.pause', 'run'> = {}): Promise<RunView> {
    return this.#session.ask('runs.pause', { run }, options)
  }

  /** Gives up a run, with a reason. It can be resumed. */
  async fail(run: string, options: OptionsFor<'runs.fail', 'run'>): Promise<RunView> {
    return this.#session.ask('runs.fail', { run }, await this.#withToken('runs.fail', run, options))
  }

  /** Reopens a completed run because more items have arrived. It is paused, with the new total if you know it. */
  reopen(run: string, options: OptionsFor<'runs.reopen', 'run'> = {}): Promise<RunView> {
    return this.#session.ask('runs.reopen', { run }, options)
  }

  /** The progress of a run; null when there is none. */
  get(run: string): Promise<RunView | null> {
    return this.#session.call('runs.get', { run })
  }

  /** Runs by name, one page at a time, optionally of one status. */
  list(options: AskedOf<'runs.list'> = {}): Promise<ResultOf<'runs.list'>> {
    return this.#session.ask('runs.list', {}, options)
  }

  /** The outcome of each item of a run, by key. */
  outcomes(
    run: string,
    options: Omit<AskedOf<'runs.outcomes'>, 'run'> = {},
  ): Promise<ResultOf<'runs.outcomes'>> {
    return this.#session.ask('runs.outcomes', { run }, options)
  }

  /** Which of these keys (at most 500) are still to be done. */
  remaining(run: string, keys: readonly string[]): Promise<string[]> {
    return this.#session.call('runs.remaining', { run, keys })
  }

  /**
   * Whether to start no further item: the lock is lost, the run is not running, or the store cannot tell (then with
   * `error`).
   */
  async shouldStop(run: string, options: TokenOptions = {}): Promise<StopAnswer & { error?: unknown }> {
    try {
      return await this.#session.ask(
        'runs.shouldStop',
        { run },
        await this.#withToken('runs.shouldStop', run, options),
      )
    } catch (error) {
      return { stop: true, reason: 'it is not known whether its lock is still held', error }
    }
  }

  /** Removes a run that is not running, with its outcomes. False when there is none. */
  async remove(run: string, options: MutationOptions = {}): Promise<boolean> {
    const pieces = await askInPieces('runs.remove', options, (asked) =>
      this.#session.ask('runs.remove', { run }, asked),
    )
    return pieces.at(-1)?.removed === true
  }

  /** Fills in the token of this handle's grant of the run's lock, unless the caller passes one. */
  async #withToken<Options extends TokenOptions>(operation: OperationName, run: string, given: Options) {
    const options = optionsOf(operation, given)
    if (options.token !== undefined) return options
    const lock = (await this.get(run))?.lock
    const token = lock === undefined ? undefined : this.#session.grants.tokenFor('lock', lock, options)
    return { ...options, token }
  }
}
