/**
 * Taking turns to write. SQLite lets one connection write at a time and refuses the others at once; here they retry
 * after short waits that never block the event loop. A process that cuts in on another makes both reread what they had
 * cached, so a process that was refused recently writes in turns, first come, first served (`turn-file.ts`). Nothing
 * depends on the line: a process that has waited in it too long asks SQLite directly.
 */
import type { Outage } from '../../domain/outage.ts'
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isBusy } from './classify.ts'
import { type Line, maxTurnMs, TurnFile } from './turn-file.ts'

/** The first refusal may be just one short transaction of another process: retry soon, then wait longer. */
const firstWaitMs = 1
/** During our turn, only a process outside the line can be writing, and not for long. */
const inTurnWaitMs = 4
/**
 * Without turns, waits double up to about the length of a turn and then shrink again, so that whoever has waited
 * longest is most likely next.
 */
const patientWaitMs = 24
const impatientWaitMs = 1
const impatientAfterMs = 150
/** After a refusal we expect contention for this long; without one, the line is not consulted. */
const contendedForMs = 1000
/** Everybody in line gets a turn within about this time, so the longer the line, the shorter the turns. */
const roundMs = 160
const turnMinMs = 8
/**
 * How often the first in line checks whether the turn was given back early: often while the turn is young, since most
 * are one short transaction, and less often as it goes on. The second in line checks half as often, and so on. Each
 * process ahead of us has four checks to take a free turn; one that does not is dead, suspended or late.
 */
const lookMinMs = 1
const maxLookMs = 3
const lookAtLeastEveryMs = 30
const missedMs = 4 * maxLookMs
/** A process refused for this long without a break considers the store unreachable. */
const outageMs = 1000
/** After this long we stop trusting the line. */
const maxInLineMs = 1000

export interface TurnLimits {
  /** How long one process may block everybody. */
  readonly timeoutMs: number
  /** How long to wait in all while others write one after the other, if that is longer. */
  readonly patienceMs: number
}

export class Turn {
  readonly #environment: Environment
  readonly #limits: TurnLimits
  readonly #location: string
  /** The store's version, which every commit of another process changes; null before the store is open. */
  #versionOf: (() => unknown) | null = null
  #file: TurnFile | null = null
  #contendedUntil = Number.NEGATIVE_INFINITY
  #isOurs = false
  /** When this process last wrote, and since when it has been refused; monotonic ms. */
  #writtenAt: number
  #refusedSince: number | null = null
  #outage: Outage | null = null

  constructor(environment: Environment, limits: TurnLimits, location: string) {
    this.#environment = environment
    this.#limits = limits
    this.#location = location
    this.#writtenAt = environment.monotonic()
  }

  /** From here on, others that make progress are told apart from one that blocks everybody. */
  watch(versionOf: () => unknown): void {
    this.#versionOf = versionOf
  }

  /** From here on, turns are shared with other processes through a file beside the store, created when first needed. */
  share(): void {
    this.#file = new TurnFile(this.#location, this.#environment)
  }

  /** When the store was last unreachable, on the clock with this offset to the awake time. */
  outage(offset: number): Outage | null {
    return this.#outage && { since: this.#outage.since + offset, until: this.#outage.until + offset }
  }

  /**
   * The outage starts at our last write: others may or may not have been able to write between it and the first
   * refusal.
   */
  #noteRefusal(now: number): void {
    this.#refusedSince ??= now
    if (now - this.#refusedSince >= outageMs) this.#outage = { since: this.#writtenAt, until: now }
  }

  /**
   * Runs `write` as soon as nobody else is writing. Throws BUSY when nobody else has got anything done for the whole
   * timeout: then somebody blocks the store. In a crowd that makes progress, our time comes; so we wait longer.
   */
  async take<Result>(write: () => Result): Promise<Result> {
    const { timeoutMs, patienceMs } = this.#limits
    const crowdMs = Math.max(timeoutMs, patienceMs)
    const started = this.#environment.monotonic()
    let blockedSince = started
    let version: unknown
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
        const seen = this.#version()
        if (version !== undefined && seen !== undefined && seen !== version) blockedSince = now
        version = seen ?? version
        if (now - blockedSince > timeoutMs) throw blockedError(this.#location, timeoutMs, error)
        if (now - started > crowdMs) throw crowdedError(this.#location, crowdMs, error)
        const isExpected = now < this.#contendedUntil
        this.#contendedUntil = now + contendedForMs
        // After the first refusal in a while, get in line before waiting for anything.
        if (isExpected || this.#file === null) await this.#pauseRefused(waits++, now - started)
      }
    }
  }

  /** Undefined before the store is open, and while the log is being recovered; then nobody can commit. */
  #version(): unknown {
    try {
      return this.#versionOf?.()
    } catch {
      return undefined
    }
  }

  /** Runs `read`, retrying while SQLite refuses it. Throws BUSY only after the whole timeout. Readers do not queue. */
  async waitToRead<Result>(read: () => Result): Promise<Result> {
    const started = this.#environment.monotonic()
    for (let waits = 0; ; waits++) {
      try {
        return read()
      } catch (error) {
        if (!isBusy(error)) throw error
        if (this.#environment.monotonic() - started >= this.#limits.timeoutMs)
          throw unreadableError(this.#location, this.#limits.timeoutMs, error)
      }
      const waitMs = Math.min(firstWaitMs * 2 ** waits, patientWaitMs)
      await pause(this.#environment, (waitMs / 2) * (1 + this.#environment.random()))
    }
  }

  /** Nothing more to write, so the next in line need not wait until our turn ends. */
  rest(): void {
    if (this.#isOurs) this.#file?.give(this.#environment.monotonic())
    this.#isOurs = false
  }

  /** Whether another process has the turn now or is waiting for it. */
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

  /** Null when there is no line or it is our turn, so that the caller does not wait for even a microtask. */
  #comeToTurn(since: number): Promise<void> | null {
    const file = this.#file
    const now = this.#environment.monotonic()
    if (file === null || this.#isStillOurs(file, now)) return null
    if (now < this.#contendedUntil) return this.#waitForTurn(file, since)
    this.rest()
    return null
  }

  /** Waits until it is our turn, or the line proves useless. */
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
    const untilAt = since + Math.min(maxInLineMs, this.#limits.timeoutMs / 2)
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
      // Our turn has ended and others are waiting. Give it back, so that they need not wait for the clock.
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

function blockedError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another process blocked writes to ${location} for ${timeoutMs} ms; nothing was changed`,
    next: 'try again; if it persists, look for a stopped process that was writing (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}

function crowdedError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `other processes kept writing to ${location} for ${timeoutMs} ms without a gap; nothing was changed`,
    next: 'try again; if it persists, the machine has more processes than it can serve',
    facts: { location, timeoutMs },
    cause,
  })
}

function unreadableError(location: string, timeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `${location} could not be read for ${timeoutMs} ms, because another process was using it`,
    next: 'try again; if it persists, look for a process that was stopped while it recovered the log (state T in ps)',
    facts: { location, timeoutMs },
    cause,
  })
}
