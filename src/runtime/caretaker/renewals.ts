/** Keeps what is on the board: renews leases and waiters in time, and notices what was lost or cancelled elsewhere. */

import { jitter } from '../../domain/duty.ts'
import { renewEveryMs, safetyMarginMs } from '../../domain/lease.ts'
import type { Environment } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import { type LeaseRef, maxRenewals } from '../../operations/lease/lease.ts'
import type { Execute } from '../../operations/table.ts'
import type { Board, BoardEntry, BoardLease } from '../lease/board.ts'
import { isSameLease } from '../lease/held-lease.ts'
import { chunksOf } from '../session/pages.ts'
import type { CaretakerReports } from './reports.ts'

export interface RenewalOptions {
  readonly wedgedAfterMs: number
  readonly execute: Execute
}

/** How soon to look again at a lease that is new on the board, or that is lost and not struck yet. */
export const lookAgainMs = 100
/** A process silent for longer may not respond when its turn comes, so its waiters are left to lapse. */
const waitersAliveMs = 2_000

export class Renewals {
  readonly #environment: Environment
  readonly #board: Board
  readonly #options: RenewalOptions
  readonly #reports: CaretakerReports
  /** When each lease on the board is next renewed, by slot: two leases may share a token. */
  readonly #due = new Map<number, { readonly lease: BoardEntry; readonly at: number }>()
  /** When the next of them is due. */
  #nextAt: number
  #seenWrites: bigint
  #wedged = false
  /** The clocks disagreed: renew every lease at once. */
  #doubtful = false

  constructor(environment: Environment, board: Board, options: RenewalOptions, reports: CaretakerReports) {
    this.#environment = environment
    this.#board = board
    this.#options = options
    this.#reports = reports
    // After a restart of this thread there may already be leases on the board.
    this.#nextAt = environment.monotonic() + lookAgainMs
    this.#seenWrites = board.writes
  }

  /** The board's count of writes when it was last read. */
  get seenWrites(): bigint {
    return this.#seenWrites
  }

  /** When to renew next, or to check whether the main loop hangs. */
  get nextAt(): number {
    // While the loop hangs nothing is renewed. Once it turns again, everything is, by the clocks as they are then.
    if (this.#wedged) return this.#nextAt
    return this.#doubtful ? 0 : Math.min(this.#nextAt, this.#board.beatAt + this.#options.wedgedAfterMs + 1)
  }

  /** There is something new on the board. */
  lookNow(): void {
    this.#nextAt = 0
  }

  /** Held leases have to follow the clocks as they are now. */
  doubt(): void {
    this.#doubtful = true
  }

  async renew(now: number): Promise<void> {
    this.#seenWrites = this.#board.writes
    this.#nextAt = Number.POSITIVE_INFINITY
    if (this.#isWedged(now)) return
    const leases = [...this.#board.leases()]
    // One jitter for everything granted since the last round: what was claimed together is renewed together.
    const jitter = this.#jitter()
    const due = leases.filter((lease) => this.#isDue(lease, now, jitter))
    const waiters = now - this.#board.beatAt > waitersAliveMs ? [] : [...this.#board.waiters()]
    const dueWaiters = waiters.filter((waiter) => this.#isDue(waiter, now, jitter))
    this.#doubtful = false
    const { execute } = this.#options
    for (const some of chunksOf(due, maxRenewals))
      await this.#renewSome(
        some,
        async () => (await execute('lease.renew', { leases: some.map(renewalOf) })).lost,
      )
    // A waiter whose entry is gone finds out by itself and joins the line again.
    for (const some of chunksOf(dueWaiters, maxRenewals))
      await this.#renewSome(some, async () => {
        await execute('locks.renewWaiters', { waiting: some.map(({ id, token }) => ({ id, token })) })
        return []
      })
    const kept = [...leases, ...waiters]
    this.#nextAt = Math.min(...kept.map(({ slot }) => this.#due.get(slot)?.at ?? now + lookAgainMs))
  }

  #isDue(lease: BoardEntry, now: number, jitter: number): boolean {
    const known = this.#due.get(lease.slot)
    if (known && isSameEntry(known.lease, lease)) return this.#doubtful || known.at <= now
    const at = lease.requestedAt + jitter * renewEveryMs(lease.leaseMs)
    this.#due.set(lease.slot, { lease, at })
    return this.#doubtful || at <= now
  }

  /** `send` returns what was lost. */
  async #renewSome(entries: readonly BoardEntry[], send: () => Promise<readonly LeaseRef[]>): Promise<void> {
    // Counted from before the request: however long it takes, we never trust the lease longer than the store does.
    const requestedAt = this.#environment.monotonic()
    try {
      const lost = await send()
      const jitter = this.#jitter()
      for (const entry of entries) {
        // What is lost, the process is told, and strikes it when it gets around to it.
        const isLost = lost.some((ref) => isSameLease(ref, entry))
        const inMs = isLost ? lookAgainMs : jitter * renewEveryMs(entry.leaseMs)
        this.#due.set(entry.slot, { lease: entry, at: requestedAt + inMs })
        if (!isLost) this.#board.extend(entry, requestedAt + entry.leaseMs - safetyMarginMs(entry.leaseMs))
      }
      for (const ref of lost) this.#reports.lost(ref)
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: entries.length, error: messageOf(error) })
      const now = this.#environment.monotonic()
      for (const entry of entries) this.#due.set(entry.slot, { lease: entry, at: now + entry.leaseMs / 15 })
    }
  }

  /** Read-only: notices a lease that was cancelled or taken elsewhere well before its next renewal. */
  async check(): Promise<void> {
    const leases = [...this.#board.leases()].map(refOf)
    try {
      for (const some of chunksOf(leases, maxRenewals)) {
        const { lost } = await this.#options.execute('lease.check', { leases: some })
        for (const ref of lost) this.#reports.lost(ref)
      }
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
    }
  }

  /** A main loop that no longer turns must not keep its leases for ever: the work would never be reclaimed. */
  #isWedged(now: number): boolean {
    const silentForMs = now - this.#board.beatAt
    const wedged = silentForMs > this.#options.wedgedAfterMs
    if (wedged && !this.#wedged)
      this.#reports.log('error', 'process.wedged', {
        silentForMs: Math.round(silentForMs),
        leases: [...this.#board.leases()].length,
      })
    this.#wedged = wedged
    return wedged
  }

  #jitter(): number {
    return jitter(this.#environment.random())
  }
}

/** A lease that was granted again under the same token is another entry. */
function isSameEntry(left: BoardEntry, right: BoardEntry): boolean {
  return isSameLease(left, right) && left.requestedAt === right.requestedAt
}

function refOf({ kind, id, token }: BoardLease): LeaseRef {
  return { kind, id, token }
}

function renewalOf(lease: BoardLease): LeaseRef & { readonly leaseMs: number } {
  return { ...refOf(lease), leaseMs: lease.leaseMs }
}
