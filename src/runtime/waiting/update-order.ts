/**
 * The order in which updates of one document get through. If all of them read at once, one would be saved and the rest
 * thrown away, again and again. So an update that has lost twice is preferred from its next read on, and the others
 * hold back for a while. Only the order is decided here: every save still checks the version.
 */
import { conflictWaitMs, maxHoldBackMs } from '../../domain/state.ts'
import { pause } from '../../environment.ts'
import type { StateView } from '../../operations/state/state.ts'
import type { FoundState } from '../../operations/state/update.ts'
import type { Session } from '../session/session.ts'

/** Losing once is common and usually the end of it; preference costs a transaction. */
const preferredAfterLosses = 2
/**
 * Those that hold back let several saves pass: if all of them looked after each one, looking would be most of the work.
 */
const holdBackStep = 3

export class UpdateOrder {
  readonly id: string
  readonly #session: Session
  readonly #key: string
  readonly #signal: AbortSignal | undefined
  #losses = 0
  #isPreferred = false

  constructor(session: Session, key: string, signal: AbortSignal | undefined) {
    this.id = session.environment.id()
    this.#session = session
    this.#key = key
    this.#signal = signal
  }

  /** Reads the document once no other update is preferred, or after `maxHoldBackMs`. */
  async read(): Promise<StateView | null> {
    const { environment } = this.#session
    const until = environment.monotonic() + maxHoldBackMs
    for (let look = 1; ; look++) {
      this.#signal?.throwIfAborted()
      const { entry, heldBackMs } = await this.#look()
      const leftMs = Math.min(heldBackMs, until - environment.monotonic())
      if (leftMs <= 0) return entry
      await this.#wait(Math.min(leftMs, conflictWaitMs(look + holdBackStep, environment.random())))
    }
  }

  async #look(): Promise<FoundState> {
    const isDue = this.#losses >= preferredAfterLosses
    const operation = isDue ? 'state.prefer' : 'state.look'
    const found = await this.#session.call(operation, { key: this.#key, update: this.id })
    this.#isPreferred ||= isDue && found.heldBackMs === 0
    return found
  }

  /** Another update saved first: waits a little, unless this one is preferred now. */
  async lost(): Promise<void> {
    this.#losses++
    if (this.#losses >= preferredAfterLosses) return
    await this.#wait(conflictWaitMs(this.#losses, this.#session.environment.random()))
  }

  async #wait(ms: number): Promise<void> {
    if (ms > 0) await pause(this.#session.environment, ms, this.#signal)
  }

  /** Its save went through, which ended the preference. */
  saved(): void {
    this.#isPreferred = false
  }

  /** An update that saves nothing after all must not keep others waiting. */
  async giveWay(): Promise<void> {
    if (!this.#isPreferred) return
    try {
      await this.#session.call('state.giveWay', { key: this.#key, update: this.id })
    } catch {
      // The preference lapses by itself; the outcome of the update matters more.
    }
  }
}
