/**
 * A holder that asks to release, complete or fail what it holds stops renewing it at once, and no further effect is
 * allowed. A request that the store did not answer is repeated until it is answered or the lease has lapsed; the caller
 * gets an error when its patience runs out. After a refusal the holder still has the lease, so it is renewed again.
 */
import { type Environment, pause } from '../../environment.ts'
import type { ErrorCode } from '../../error-codes.ts'
import { isClosedError, isHoldfastError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import { isSameLease } from './held-lease.ts'
import type { Keeper } from './keeper.ts'

/** Ended by this request, still held, or gone before it arrived. */
export type LeaseLeft = 'ended' | 'held' | 'lost'

/** A release says whether there was anything to release. */
export function leftByRelease(released: boolean): LeaseLeft {
  return released ? 'ended' : 'lost'
}

export interface LeaseEnding<Answer> {
  readonly lease: LeaseRef
  /** False: the holder acquired it several times and still holds it after this release. */
  readonly isLast: boolean
  /** What the answer says about the lease. */
  leaves(answer: Answer): LeaseLeft
  /** The grant is over, through this request or otherwise. */
  forget(): void
}

interface Pending<Answer = unknown> {
  readonly ending: LeaseEnding<Answer>
  /** Sends the same request each time. */
  readonly send: () => Promise<Answer>
  /** The promise that the caller got. */
  promised: Promise<Answer> | null
  /** The retries after a first request that was not answered. */
  repeated: Promise<Answer> | null
}

/** The store has not decided, and may do so when asked again. */
const undecided: ReadonlySet<ErrorCode> = new Set([
  'BUSY',
  'TIMEOUT',
  'RATE_LIMITED',
  'STORE_UNAVAILABLE',
  'STORE_UNFIT',
  'INTERNAL',
])

const repeatAfterMs = { first: 100, max: 5_000 }

export interface LeaseEndingsOptions {
  readonly environment: Environment
  readonly keeper: Keeper
  readonly settings: { readonly patienceMs: number }
}

export class LeaseEndings {
  readonly #environment: Environment
  readonly #keeper: Keeper
  readonly #patienceMs: number
  readonly #pending = new Set<Pending>()

  constructor({ environment, keeper, settings }: LeaseEndingsOptions) {
    this.#environment = environment
    this.#keeper = keeper
    this.#patienceMs = settings.patienceMs
  }

  /**
   * Calls `send` for the first time before it returns: finishing an item and claiming the next in one turn share a
   * batch.
   */
  end<Answer>(ending: LeaseEnding<Answer>, send: () => Promise<Answer>): Promise<Answer> {
    const { lease, isLast } = ending
    const startedAt = this.#environment.monotonic()
    const isRenewed = isLast ? this.#keeper.suspend(lease) : this.#keeper.holds(lease)
    const pending: Pending<Answer> = { ending, send, promised: null, repeated: null }
    this.#pending.add(pending)
    pending.promised = send().then(
      (answer) => this.#answered(pending, answer),
      (error: unknown) => {
        if (isDecided(error) || !isRenewed) throw this.#refused(pending, error)
        pending.repeated = this.#repeat(pending, error)
        // The caller may be gone by the time this fails.
        pending.repeated.catch(() => {})
        return this.#withPatience(pending.repeated, error, startedAt)
      },
    )
    return pending.promised
  }

  /** How many requests to end this lease are unanswered. */
  countOf(lease: LeaseRef): number {
    return this.#of((each) => isSameLease(each, lease)).length
  }

  /** Resolves when every matching request is answered or its lease has lapsed; null if there is none. */
  settled(matches: (lease: LeaseRef) => boolean): Promise<unknown> | null {
    const pending = this.#of(matches)
    return pending.length === 0 ? null : Promise.all(pending.map(settledOf))
  }

  #of(matches: (lease: LeaseRef) => boolean): Pending[] {
    return this.#pending.size === 0 ? [] : [...this.#pending].filter(({ ending }) => matches(ending.lease))
  }

  async #repeat<Answer>(pending: Pending<Answer>, first: unknown): Promise<Answer> {
    const { ending, send } = pending
    let error = first
    // A request whose answer was lost may have ended the lease. If the retry then finds it gone, it was not lost.
    let mayBeDone = false
    for (let waitMs = repeatAfterMs.first; ; waitMs = Math.min(2 * waitMs, repeatAfterMs.max)) {
      // This timer does not keep the program running: whatever the process holds ends with it.
      await new Promise<void>((done) => this.#environment.timer(waitMs, done))
      if (!this.#isWanted(ending)) {
        this.#pending.delete(pending)
        throw error
      }
      mayBeDone ||= !mayPass(error)
      try {
        return this.#answered(pending, await send(), mayBeDone)
      } catch (next) {
        error = next
        if (isDecided(error)) throw this.#refused(pending, error)
      }
    }
  }

  /** False once the lease has lapsed, was lost, or was granted to this process again. */
  #isWanted({ lease, isLast }: LeaseEnding<unknown>): boolean {
    return isLast ? this.#keeper.isSuspended(lease) : this.#keeper.holds(lease)
  }

  async #withPatience<Answer>(repeated: Promise<Answer>, error: unknown, startedAt: number): Promise<Answer> {
    const leftMs = startedAt + this.#patienceMs - this.#environment.monotonic()
    if (leftMs <= 0 || !mayPass(error)) throw error
    const over = new AbortController()
    const late = pause(this.#environment, leftMs, over.signal).then(() => {
      throw error
    })
    try {
      return await Promise.race([repeated, late])
    } finally {
      over.abort()
    }
  }

  #answered<Answer>(pending: Pending<Answer>, answer: Answer, mayBeDone = false): Answer {
    const { ending } = pending
    this.#pending.delete(pending)
    const left = ending.leaves(answer)
    if (left === 'held') this.#goOn(ending)
    else {
      ending.forget()
      // Somebody else took it before: work that still runs under it has to be told.
      if (left === 'lost' && !mayBeDone) this.#keeper.lose(ending.lease, goneBefore)
      else this.#keeper.drop(ending.lease, answer)
    }
    return answer
  }

  #refused(pending: Pending, error: unknown): unknown {
    const { ending } = pending
    this.#pending.delete(pending)
    if (isHoldfastError(error) && error.code === 'LEASE_LOST') {
      ending.forget()
      this.#keeper.lose(ending.lease, error.facts.reason)
    } else this.#goOn(ending)
    return error
  }

  /** Resumes renewal, unless another request still asks to end the lease. */
  #goOn({ lease, isLast }: LeaseEnding<unknown>): void {
    const others = this.#of((each) => isSameLease(each, lease))
    if (isLast && !others.some(({ ending }) => ending.isLast)) this.#keeper.resume(lease)
  }
}

const goneBefore = 'it was no longer held when its holder gave it back'

async function settledOf(pending: Pending): Promise<void> {
  await Promise.allSettled([pending.promised])
  await Promise.allSettled([pending.repeated])
}

function isDecided(error: unknown): boolean {
  return isClosedError(error) || (isHoldfastError(error) && !undecided.has(error.code))
}

/** Worth waiting for. A commit in doubt is not: the answer to a repeat may differ from the first one. */
function mayPass(error: unknown): boolean {
  if (!isHoldfastError(error)) return false
  return error.retryable && !(error.code === 'STORE_UNAVAILABLE' && error.facts.inDoubt === true)
}
