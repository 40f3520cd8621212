/**
 * Taking turns to write. SQLite lets one connection write at a time and refuses the others at once; here they try
 * again after short random waits that never block the event loop. Under contention a process keeps its turn for a
 * few milliseconds and then steps back, so that throughput stays up and nobody starves.
 */
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isBusy } from './classify.ts'

/** The first refusal may be one short transaction of another process: try again soon, then after longer waits. */
const firstWaitMs = 1
/**
 * Among many, looking often only breaks into the turns of others, at the cost of both: waits double up to about a
 * turn. From there they shrink again, so that whoever has waited longest most likely comes next.
 */
const patientWaitMs = 24
const impatientWaitMs = 1
const impatientAfterMs = 150
/** Turns of about 20 ms, then 2 to 6 ms for others: shorter turns cost throughput, longer ones fairness. */
const turnMs = 20
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
        const stepMs = Math.min(firstWaitMs * 2 ** (attempt - 1), patienceMs(now - started))
        await pause(this.#environment, (stepMs / 2) * (1 + this.#environment.random()))
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

function patienceMs(waitedMs: number): number {
  const left = Math.max(0, 1 - waitedMs / impatientAfterMs)
  return impatientWaitMs + (patientWaitMs - impatientWaitMs) * left
}

function busyError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another process kept ${location} from being written for ${timeoutMs} ms; nothing was changed`,
    next: 'try again; if it lasts, look for a stopped process that was writing (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}
