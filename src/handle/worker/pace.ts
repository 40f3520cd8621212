/**
 * When an idle worker looks for work again. Every idle worker of a queue is notified of each item, but only one gets it:
 * the others spread out, look before they claim, and rest while nothing happens.
 */
import {
  isLeftToOthers,
  spreadAfterItem,
  spreadAfterNothing,
  spreadAfterSilence,
} from '../../domain/crowding.ts'
import type { ResultOf } from '../../operations/table.ts'
import type { Session } from '../../runtime/session/session.ts'
import { claimEveryMs, hasLapsedSince, nextLookMs, type Prospect } from '../../runtime/waiting/next-look.ts'

/** A time in which there was nothing to claim. Monotonic ms. */
interface Idleness {
  /** When it began. */
  readonly since: number
  /** Since when every look has found work that was left to others. */
  readonly seenAt?: number | undefined
  /** When the last claim was answered. */
  readonly claimedAt: number
}

const defaultPollEveryMs = 1000
/** The longest poll interval when notifications arrive and the caller has set none. */
const maxPollEveryMs = 5000
const retryAfterErrorMs = { base: 100, max: 5000 }

export class Pace {
  readonly #session: Session
  /** Undefined when the caller left the poll interval to us. */
  readonly #pollEveryMs: number | undefined
  #idle: Idleness | null = null
  /** The longest delay between a notification and the look, and when the last notification came, monotonic ms. */
  #spreadMs = 0
  #heardAt = 0
  #failures = 0

  constructor(session: Session, pollEveryMs: number | undefined) {
    this.#session = session
    this.#pollEveryMs = pollEveryMs
  }

  get #now(): number {
    return this.#session.environment.monotonic()
  }

  get isIdle(): boolean {
    return this.#idle !== null
  }

  /** A notification came: how long to wait before looking, ms. */
  heard(): number {
    const now = this.#now
    this.#spreadMs = spreadAfterSilence(this.#spreadMs, now - this.#heardAt)
    this.#heardAt = now
    return this.#spreadMs * this.#session.environment.random()
  }

  /** A claim found work. */
  found(): void {
    this.#failures = 0
    this.#idle = null
    this.#spreadMs = spreadAfterItem(this.#spreadMs)
  }

  /** A claim found nothing: how long to wait before the next, ms. */
  foundNothing(prospect: Prospect): number {
    this.#failures = 0
    const now = this.#now
    this.#spreadMs = spreadAfterNothing(this.#spreadMs)
    this.#idle = { since: this.#idle?.since ?? now, claimedAt: now }
    return nextLookMs(this.#session.environment, prospect, this.#pollMs())
  }

  /** A claim was refused or broke: how long to wait before the next, ms. */
  failed(): number {
    this.#failures++
    return Math.min(retryAfterErrorMs.max, retryAfterErrorMs.base * 2 ** this.#failures)
  }

  /** Whether a look is enough: otherwise each notification would cost one write transaction per worker. */
  get looksFirst(): boolean {
    return this.#idle !== null && this.#now - this.#idle.claimedAt < claimEveryMs
  }

  /** A look was answered: how long to stay idle, ms; 0 = claim now. */
  looked(look: ResultOf<'queue.look'>): number {
    const idle = this.#idle
    if (idle === null) return 0
    const hasLapsed = hasLapsedSince(idle.claimedAt, look, this.#now)
    if (hasLapsed || (look.ready && !this.#leavesItToOthers(idle))) return 0
    this.#spreadMs = spreadAfterNothing(this.#spreadMs)
    if (look.ready) return Math.max(1, this.#spreadMs * this.#session.environment.random())
    this.#idle = { ...idle, seenAt: undefined }
    return nextLookMs(this.#session.environment, look, this.#pollMs())
  }

  #leavesItToOthers(idle: Idleness): boolean {
    const now = this.#now
    const isCrowded = this.#session.engine.isCrowded?.() === true
    if (!isLeftToOthers(now - (idle.seenAt ?? now), isCrowded)) return false
    this.#idle = { ...idle, seenAt: idle.seenAt ?? now }
    return true
  }

  /** Waits as long again as it has been idle: a quiet queue usually stays quiet, and notifications arrive. */
  #pollMs(): number {
    if (this.#pollEveryMs !== undefined) return this.#pollEveryMs
    if (this.#idle === null || !this.#session.engine.hearsRings) return defaultPollEveryMs
    return Math.min(Math.max(defaultPollEveryMs, this.#now - this.#idle.since), maxPollEveryMs)
  }
}
