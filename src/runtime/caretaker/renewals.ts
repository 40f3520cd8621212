/** Keeps what is on the board: renews leases and places in time, and notices what was lost or cancelled elsewhere. */

import { jitterMin } from '../../domain/duty.ts'
import { renewEveryMs, safetyMarginMs } from '../../domain/lease.ts'
import type { Environment } from '../../environment.ts'
import { messageOf } from '../../errors.ts'
import { type LeaseRef, maxRenewals } from '../../operations/lease/lease.ts'
import type { Execute } from '../../operations/table.ts'
import type { Board, BoardEntry, BoardLease, BoardWaiter } from '../lease/board.ts'
import type { CaretakerReports } from './caretaker.ts'

export interface RenewalOptions {
  readonly wedgedAfterMs: number
  readonly execute: Execute
}

/** A lease found on the board for the first time, or lost and not struck out yet, is looked at again so soon. */
export const lookAgainMs = 100
/** Whoever is silent for longer may not come when its turn does: its places in lines are left to lapse. */
const waitersAliveMs = 2_000

export class Renewals {
  readonly #environment: Environment
  readonly #board: Board
  readonly #options: RenewalOptions
  readonly #reports: CaretakerReports
  /** When each lease on the board is next renewed, by its slot there: two leases may have the same token. */
  readonly #due = new Map<number, { readonly lease: BoardEntry; readonly at: number }>()
  /** When the next of them is due. */
  #nextAt: number
  #seenWrites: bigint
  #wedged = false
  /** The clocks disagreed: every lease is renewed at once. */
  #doubtful = false

  constructor(environment: Environment, board: Board, options: RenewalOptions, reports: CaretakerReports) {
    this.#environment = environment
    this.#board = board
    this.#options = options
    this.#reports = reports
    // A thread that was started anew finds leases on the board.
    this.#nextAt = environment.monotonic() + lookAgainMs
    this.#seenWrites = board.writes
  }

  /** Of the board, when it was last read. */
  get seenWrites(): bigint {
    return this.#seenWrites
  }

  /** When to renew next, or to find that the main loop hangs. */
  get nextAt(): number {
    // What hangs is renewed again once it turns, and then by the clocks as they are.
    if (this.#wedged) return this.#nextAt
    return this.#doubtful ? 0 : Math.min(this.#nextAt, this.#board.beatAt + this.#options.wedgedAfterMs + 1)
  }

  /** There is something new on the board. */
  lookNow(): void {
    this.#nextAt = 0
  }

  /** What is held has to run by the clocks as they are now. */
  doubt(): void {
    this.#doubtful = true
  }

  async renew(now: number): Promise<void> {
    this.#seenWrites = this.#board.writes
    this.#nextAt = Number.POSITIVE_INFINITY
    if (this.#isWedged(now)) return
    const leases = [...this.#board.leases()]
    // One jitter for all that were granted since the last round: what was claimed together is renewed together.
    const jitter = this.#jitter()
    const due = leases.filter((lease) => this.#isDue(lease, now, jitter))
    const waiters = now - this.#board.beatAt > waitersAliveMs ? [] : [...this.#board.waiters()]
    const dueWaiters = waiters.filter((waiter) => this.#isDue(waiter, now, jitter))
    this.#doubtful = false
    for (let start = 0; start < due.length; start += maxRenewals)
      await this.#renewSome(due.slice(start, start + maxRenewals))
    for (let start = 0; start < dueWaiters.length; start += maxRenewals)
      await this.#renewWaiters(dueWaiters.slice(start, start + maxRenewals))
    const kept = [...leases, ...waiters]
    this.#nextAt = Math.min(...kept.map(({ slot }) => this.#due.get(slot)?.at ?? now + lookAgainMs))
  }

  #isDue(lease: BoardEntry, now: number, jitter: number): boolean {
    const known = this.#due.get(lease.slot)
    if (known && isSameLease(known.lease, lease)) return this.#doubtful || known.at <= now
    const at = lease.requestedAt + jitter * renewEveryMs(lease.leaseMs)
    this.#due.set(lease.slot, { lease, at })
    return this.#doubtful || at <= now
  }

  async #renewSome(leases: readonly BoardLease[]): Promise<void> {
    // Counted from before the request: whatever it takes, we never believe longer than the store does.
    const requestedAt = this.#environment.monotonic()
    try {
      const { lost } = await this.#options.execute('lease.renew', { leases: leases.map(renewalOf) })
      const jitter = this.#jitter()
      for (const lease of leases) {
        if (lost.some((ref) => isSameGrant(ref, lease))) {
          // Its process is told, and strikes it out when it comes to that.
          this.#due.set(lease.slot, { lease, at: requestedAt + lookAgainMs })
          continue
        }
        this.#due.set(lease.slot, {
          lease,
          at: requestedAt + jitter * renewEveryMs(lease.leaseMs),
        })
        this.#board.extend(lease, requestedAt + lease.leaseMs - safetyMarginMs(lease.leaseMs))
      }
      for (const ref of lost) this.#reports.lost(ref)
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
      const now = this.#environment.monotonic()
      for (const lease of leases) this.#due.set(lease.slot, { lease, at: now + lease.leaseMs / 15 })
    }
  }

  /** A place that is gone is found so by its waiter, which stands in line anew. */
  async #renewWaiters(waiters: readonly BoardWaiter[]): Promise<void> {
    const requestedAt = this.#environment.monotonic()
    const next = (waiter: BoardWaiter, inMs: number) =>
      this.#due.set(waiter.slot, { lease: waiter, at: requestedAt + inMs })
    try {
      const input = { waiting: waiters.map(({ id, token }) => ({ id, token })) }
      await this.#options.execute('locks.renewWaiters', input)
      const jitter = this.#jitter()
      for (const waiter of waiters) next(waiter, jitter * renewEveryMs(waiter.leaseMs))
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: waiters.length, error: messageOf(error) })
      for (const waiter of waiters) next(waiter, waiter.leaseMs / 15)
    }
  }

  /** Reads only: a lease that was cancelled or taken elsewhere is noticed well before its next renewal. */
  async check(): Promise<void> {
    const leases = [...this.#board.leases()].map(refOf)
    try {
      for (let start = 0; start < leases.length; start += maxRenewals) {
        const input = { leases: leases.slice(start, start + maxRenewals) }
        const { lost } = await this.#options.execute('lease.check', input)
        for (const ref of lost) this.#reports.lost(ref)
      }
    } catch (error) {
      this.#reports.log('warn', 'renew.failed', { leases: leases.length, error: messageOf(error) })
    }
  }

  /** A main loop that no longer turns must not keep its leases for ever: the work would never heal. */
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
    return jitterMin + 2 * (1 - jitterMin) * this.#environment.random()
  }
}

function isSameLease(left: BoardEntry, right: BoardEntry): boolean {
  return isSameGrant(left, right) && left.requestedAt === right.requestedAt
}

type Granted = Pick<BoardEntry, 'kind' | 'id' | 'token'>

function isSameGrant(left: Granted, right: Granted): boolean {
  return left.token === right.token && left.kind === right.kind && left.id === right.id
}

function refOf({ kind, id, token }: BoardLease): LeaseRef {
  return { kind, id, token }
}

function renewalOf(lease: BoardLease): LeaseRef & { readonly leaseMs: number } {
  return { ...refOf(lease), leaseMs: lease.leaseMs }
}
