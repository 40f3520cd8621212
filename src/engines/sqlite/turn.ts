/**
 * Taking turns to write. SQLite lets one connection write at a time and refuses the others at once; here they try
 * again after short waits that never block the event loop. Who breaks into the work of another makes both read anew
 * what they knew, so whoever was refused lately writes in turns, in the order of asking (`turn-file.ts`). Nobody
 * relies on that: whoever has stood in line for too long asks the store itself.
 */
import type { Outage } from '../../domain/outage.ts'
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isBusy } from './classify.ts'
import { type Line, maxTurnMs, TurnFile } from './turn-file.ts'

/** The first refusal may be one short transaction of another process: try again soon, then after longer waits. */
const firstWaitMs = 1
/** In our turn only somebody outside the line can be writing, and not for long. */
const inTurnWaitMs = 4
/** Without turns, waits double up to about a turn and shrink again: who has waited longest most likely comes next. */
const patientWaitMs = 24
const impatientWaitMs = 1
const impatientAfterMs = 150
/** After a refusal others are expected for this long; without one, no line is looked at. */
const contendedForMs = 1000
/** Everybody in line comes within about this time, so the more they are the shorter a turn is. */
const roundMs = 160
const turnMinMs = 8
/**
 * How often the next in line looks whether the turn was given back before its end: often while the turn is young,
 * since most are one short transaction, and less when it goes on. The one after it looks half as often, and so on.
 * A free turn is left to each of those before us for four looks: who does not take it is dead, stopped or late.
 */
const lookMinMs = 1
const maxLookMs = 3
const lookAtLeastEveryMs = 30
const missedMs = 4 * maxLookMs
/** Refused for so long without a break, a process takes the store for out of reach. */
const outageMs = 1000
/** After this long the line is taken for misleading. */
const maxInLineMs = 1000

export class Turn {
  readonly #environment: Environment
  readonly #timeoutMs: number
  readonly #location: string
  #file: TurnFile | null = null
  #contendedUntil = Number.NEGATIVE_INFINITY
  #isOurs = false
  /** When this process last wrote, and since when it is refused; monotonic ms. */
  #writtenAt: number
  #refusedSince: number | null = null
  #outage: Outage | null = null

  constructor(environment: Environment, timeoutMs: number, location: string) {
    this.#environment = environment
    this.#timeoutMs = timeoutMs
    this.#location = location
    this.#writtenAt = environment.monotonic()
  }

  /** From here on turns are shared with other processes, by a file beside the store that is made when it is first needed. */
  share(): void {
    this.#file = new TurnFile(this.#location, this.#environment)
  }

  /** When the store last was out of reach, on the clock with this offset to the awake time. */
  outage(offset: number): Outage | null {
    return this.#outage && { since: this.#outage.since + offset, until: this.#outage.until + offset }
  }

  /** Nobody knows whether others could write between our last write and the first refusal. */
  #noteRefusal(now: number): void {
    this.#refusedSince ??= now
    if (now - this.#refusedSince >= outageMs) this.#outage = { since: this.#writtenAt, until: now }
  }

  /** Runs `write` as soon as nobody else writes; BUSY only after the whole time-out. */
  async take<Result>(write: () => Result): Promise<Result> {
    const started = this.#environment.monotonic()
    for (let waits = 0; ; ) {
      const coming = this.#comeToTurn(started)
      if (coming !== null) await coming
      try {
        const result = write()
        this.#writtenAt = this.#environment.monotonic()
        this.#refusedSince = null
        return result
      } catch (error) {
        if (!isBusy(error)) throw error
        const now = this.#environment.monotonic()
        this.#noteRefusal(now)
        if (now - started > this.#timeoutMs) throw busyError(this.#location, this.#timeoutMs, error)
        const isExpected = now < this.#contendedUntil
        this.#contendedUntil = now + contendedForMs
        // The first refusal for a while: to the line before anything is waited for.
        if (isExpected || this.#file === null) await this.#pauseRefused(waits++, now - started)
      }
    }
  }

  /** Runs `read`, again and again while SQLite refuses it; BUSY only after the whole time-out. Readers need no line. */
  async waitToRead<Result>(read: () => Result): Promise<Result> {
    const started = this.#environment.monotonic()
    for (let waits = 0; ; waits++) {
      try {
        return read()
      } catch (error) {
        if (!isBusy(error)) throw error
        if (this.#environment.monotonic() - started >= this.#timeoutMs)
          throw unreadableError(this.#location, this.#timeoutMs, error)
      }
      const waitMs = Math.min(firstWaitMs * 2 ** waits, patientWaitMs)
      await pause(this.#environment, (waitMs / 2) * (1 + this.#environment.random()))
    }
  }

  /** Nothing more to write: the next in line need not wait for the end of our turn. */
  rest(): void {
    if (this.#isOurs) this.#file?.give(this.#environment.monotonic())
    this.#isOurs = false
  }

  /** Whether another process has its turn now, or waits for one. */
  isCrowded(): boolean {
    const now = this.#environment.monotonic()
    const line = this.#isOurs ? null : (this.#file?.look(now, now) ?? null)
    return line !== null && (line.waiting > 0 || line.freeAt > now)
  }

  close(): void {
    this.rest()
    this.#file?.close()
    this.#file = null
  }

  /** Null when there is no line, or it is our turn: then not even a microtask is waited for. */
  #comeToTurn(since: number): Promise<void> | null {
    const file = this.#file
    const now = this.#environment.monotonic()
    if (file === null || this.#isStillOurs(file, now)) return null
    if (now < this.#contendedUntil) return this.#waitForTurn(file, since)
    this.rest()
    return null
  }

  /** Until it is our turn, or the line was of no use. */
  async #waitForTurn(file: TurnFile, since: number): Promise<void> {
    this.#isOurs = await this.#standInLine(file, since)
    if (this.#isOurs) this.#environment.reached?.('turn.taken')
    else file.leave()
  }

  #isStillOurs(file: TurnFile, now: number): boolean {
    if (!this.#isOurs) return false
    const endsAt = file.ourEnd()
    return endsAt !== null && now < endsAt
  }

  /** True: our turn has begun. */
  async #standInLine(file: TurnFile, since: number): Promise<boolean> {
    const untilAt = since + Math.min(maxInLineMs, this.#timeoutMs / 2)
    for (;;) {
      const now = this.#environment.monotonic()
      const line = file.look(since, now)
      if (line === null || now > untilAt) return false
      if (line.freeAt > now || line.waiting > 0) this.#contendedUntil = now + contendedForMs
      const ourTurnAt = line.freeAt + line.before * missedMs
      if (now >= ourTurnAt) {
        file.take(now, Math.max(turnMinMs, Math.min(maxTurnMs, roundMs / (line.waiting + 1))))
        return true
      }
      // Our own turn has ended and others wait: they need not look at the clock.
      if (this.#isOurs) this.rest()
      file.wait(since, now)
      await pause(this.#environment, Math.max(1, Math.min(ourTurnAt - now, lookAfterMs(line, now))))
    }
  }

  async #pauseRefused(waits: number, waitedMs: number): Promise<void> {
    const stepMs = firstWaitMs * 2 ** waits
    if (this.#isOurs) return pause(this.#environment, Math.min(stepMs, inTurnWaitMs))
    const waitMs = Math.min(stepMs, patienceMs(waitedMs))
    await pause(this.#environment, (waitMs / 2) * (1 + this.#environment.random()))
  }
}

function lookAfterMs({ startedAt, before }: Line, now: number): number {
  const nextLooksAfterMs = Math.max(lookMinMs, Math.min(now - startedAt, maxLookMs))
  return Math.min((before + 1) * nextLooksAfterMs, lookAtLeastEveryMs)
}

function patienceMs(waitedMs: number): number {
  const left = Math.max(0, 1 - waitedMs / impatientAfterMs)
  return impatientWaitMs + (patientWaitMs - impatientWaitMs) * left
}

function busyError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another process kept ${location} from being written for ${timeoutMs} ms; nothing was changed`,
    next: 'try again; if it persists, look for a stopped process that was writing (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}

function unreadableError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another process kept ${location} from being read for ${timeoutMs} ms`,
    next: 'try again; if it persists, look for a process that was stopped while it recovered the log (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}
