/**
 * Taking turns to write. SQLite lets one connection write at a time and refuses the others at once; here they try
 * again after short random waits that never block the event loop. Under contention a process keeps its turn for a
 * few milliseconds and then steps back, so that throughput stays up and nobody starves.
 */
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isBusy } from './classify.ts'

/** The first refused try waits for up to this long, the next ones longer, up to the limit. */
const retryBackoff = { baseMs: 1, factor: 2, maxMs: 16 }
/** Turns of about 10 ms, then 2 to 6 ms for others: shorter turns cost throughput, longer ones fairness. */
const turnMs = 10
const stepBackMinMs = 2
const stepBackMaxMs = 6
/** After a refusal, contention is assumed for this long. */
const contendedForMs = 100

export class Turn {
  readonly #environment: Environment
  readonly #timeoutMs: number
  readonly #location: string
  #contendedUntil = 0
  #turnEndsAt = 0

  constructor(environment: Environment, timeoutMs: number, location: string) {
    this.#environment = environment
    this.#timeoutMs = timeoutMs
    this.#location = location
  }

  /** Runs `write` as soon as nobody else writes; BUSY only after the whole time-out. */
  async take<Result>(write: () => Result): Promise<Result> {
    const started = this.#environment.monotonic()
    await this.#stepBack(started)
    for (let attempt = 1; ; attempt++) {
      try {
        return write()
      } catch (error) {
        if (!isBusy(error)) throw error
        const now = this.#environment.monotonic()
        if (now - started > this.#timeoutMs) throw busyError(this.#location, this.#timeoutMs, error)
        this.#contendedUntil = now + contendedForMs
        await pause(this.#environment, waitMs(attempt, this.#environment.random()))
        this.#turnEndsAt = this.#environment.monotonic() + turnMs
      }
    }
  }

  async #stepBack(now: number): Promise<void> {
    if (now >= this.#contendedUntil || now < this.#turnEndsAt) return
    await pause(
      this.#environment,
      stepBackMinMs + this.#environment.random() * (stepBackMaxMs - stepBackMinMs),
    )
    this.#turnEndsAt = this.#environment.monotonic() + turnMs
  }
}

/** Half to whole of a step that doubles: each wait is at least as long as the one before. */
function waitMs(attempt: number, random: number): number {
  const step = Math.min(retryBackoff.maxMs, retryBackoff.baseMs * retryBackoff.factor ** (attempt - 1))
  return (step / 2) * (1 + random)
}

function busyError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another process kept ${location} from being written for ${timeoutMs} ms; nothing was changed`,
    next: 'try again; if it lasts, look for a stopped process that was writing (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}
