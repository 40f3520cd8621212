/**
 * The main thread's side of leases. It knows what this process holds, counts each lease down from before its request,
 * and aborts the signal of the work when a lease is lost or could not be renewed in time.
 */
import { safetyMarginMs } from '../../domain/lease.ts'
import type { Environment } from '../../environment.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import type { CaretakerHandle } from '../caretaker/caretaker-handle.ts'
import type { Board, GrantedLease, TakenWaiter } from './board.ts'
import { HeldLease, isSameLease, type Lease } from './held-lease.ts'

/** While this process holds or waits for something. */
const beatEveryMs = 1_000
/** Otherwise: there is nothing to lose, and each beat wakes the main thread. */
const idleBeatEveryMs = 5_000

export class Keeper {
  readonly #environment: Environment
  readonly #board: Board
  /** Several beats within `wedgedAfterMs`, so that a running main loop is never taken for a wedged one. */
  readonly #maxBeatMs: number
  readonly #isStoreThere: () => boolean
  readonly #held = new Map<string, HeldLease>()
  readonly #byHand = new Set<RenewalByHand>()
  /** Leases requested but not granted yet. */
  #expected = 0
  #caretaker: CaretakerHandle | null = null
  #cancelTimer: () => void = () => {}
  /** The next beat is further off than it may be once something is held. */
  #beatsRarely = false
  #closed = false

  /** `isStoreThere`: false once nobody else can know what this process holds. */
  constructor(
    environment: Environment,
    board: Board,
    { wedgedAfterMs, isStoreThere }: { wedgedAfterMs: number; isStoreThere: () => boolean },
  ) {
    this.#maxBeatMs = wedgedAfterMs / 4
    this.#isStoreThere = isStoreThere
    this.#environment = environment
    this.#board = board
  }

  /**
   * Starts the caretaker that renews what is on the board; `close` stops it. The main loop starts beating first:
   * otherwise a caretaker that is already running would take its process for wedged.
   */
  async startCaretaker(begin: () => Promise<CaretakerHandle>): Promise<void> {
    this.#watch()
    try {
      this.#caretaker = await begin()
    } catch (error) {
      this.#cancelTimer()
      throw error
    }
  }

  /** The instance this process continues as if its own has ended; null once it is closing. */
  async rejoin(): Promise<string | null> {
    return this.#closed || this.#caretaker === null ? null : this.#caretaker.rejoin()
  }

  /** Reserves room for leases that may be granted soon; throws if there is none. Call the result to give it back. */
  takeRoom(count: number): () => void {
    // Not a valid number of leases: the operation refuses it and says why.
    if (!Number.isSafeInteger(count) || count <= 0) return () => {}
    this.#board.assertFree(this.#expected + count)
    this.#expected += count
    return () => {
      this.#expected -= count
    }
  }

  hold(granted: GrantedLease): Lease {
    const deadline = granted.requestedAt + granted.leaseMs - safetyMarginMs(granted.leaseMs)
    const key = keyOf(granted)
    const known = this.#held.get(key)
    if (known?.token === granted.token) {
      // The holder asked again and got the same grant: the lease that the work already has continues.
      this.resume(known)
      this.#board.extendTo(known.slot, deadline)
      return known
    }
    if (known) this.lose(known, 'it was granted to this process again')
    const slot = this.#board.write(granted, deadline)
    const lease = new HeldLease(
      granted,
      slot,
      () => this.#board.deadlineOf(slot) > this.#environment.monotonic() && this.#isStoreThere(),
    )
    this.#held.set(key, lease)
    this.#beatOften()
    return lease
  }

  /** Keeps a waiter in line until the returned function is called; null if there is no caretaker or no room. */
  keepWaiter(waiter: TakenWaiter): (() => void) | null {
    const slot = this.#caretaker === null ? null : this.#board.writeWaiter(waiter)
    if (slot === null) return null
    this.#beatOften()
    return () => this.#board.strike(slot)
  }

  /** Registers a lease that a caller renews through this process with its own loop, for as long as that loop runs. */
  renewByHand(ref: LeaseRef): { readonly isSuspended: boolean; end(): void } {
    const renewal: RenewalByHand = { ref, isSuspended: false, end: () => this.#byHand.delete(renewal) }
    this.#byHand.add(renewal)
    return renewal
  }

  /** The holder wants it to end: no more renewals, and no more effects. False if nothing here renews it. */
  suspend(ref: LeaseRef): boolean {
    const held = this.#find(ref)
    if (held) {
      held.isSuspended = true
      this.#board.suspend(held.slot)
    }
    const byHand = this.#renewalsByHand(ref)
    for (const renewal of byHand) renewal.isSuspended = true
    return held !== null || byHand.length > 0
  }

  /** It did not end, so it is renewed again. */
  resume(ref: LeaseRef): void {
    const held = this.#find(ref)
    if (held) {
      held.isSuspended = false
      this.#board.resume(held.slot)
    }
    for (const renewal of this.#renewalsByHand(ref)) renewal.isSuspended = false
  }

  /** Whether its end was requested and not yet answered; false once it has lapsed or was granted again. */
  isSuspended(ref: LeaseRef): boolean {
    const renewals = [this.#find(ref), ...this.#renewalsByHand(ref)]
    return renewals.some((renewal) => renewal?.isSuspended === true)
  }

  #renewalsByHand(lease: LeaseRef): RenewalByHand[] {
    if (this.#byHand.size === 0) return []
    return [...this.#byHand].filter(({ ref }) => isSameLease(ref, lease))
  }

  #find(ref: LeaseRef): HeldLease | null {
    const lease = this.#held.get(keyOf(ref))
    return lease?.token === ref.token ? lease : null
  }

  /** The lease ended in good order, with this answer from the store. */
  drop(ref: LeaseRef, answer: unknown = null): void {
    const lease = this.#forget(ref)
    if (lease) lease.answer = answer
  }

  /** The lease was lost: notifies its work. */
  lose(ref: LeaseRef, reason: string): void {
    this.#forget(ref)?.lose(reason)
  }

  loseAll(reason: string): void {
    for (const ref of this.refs()) this.lose(ref, reason)
  }

  /** Whether exactly this grant is held here. */
  holds(ref: LeaseRef): boolean {
    return this.#find(ref) !== null
  }

  /** Everything held, to give it back at the end. */
  refs(): LeaseRef[] {
    return [...this.#held.values()].map(({ kind, id, token }) => ({ kind, id, token }))
  }

  #forget(ref: LeaseRef): HeldLease | null {
    const lease = this.#find(ref)
    if (lease === null) return null
    this.#held.delete(keyOf(ref))
    lease.end()
    this.#board.strike(lease.slot)
    return lease
  }

  /** Beats for the caretaker, and fires the signals of leases whose deadline has passed. */
  #watch(): void {
    if (this.#closed) return
    const now = this.#environment.monotonic()
    this.#board.beat(now)
    this.#beatsRarely = !this.#board.isHolding
    let nextMs = this.#beatsRarely ? idleBeatEveryMs : beatEveryMs
    for (const lease of [...this.#held.values()]) {
      const leftMs = this.#board.deadlineOf(lease.slot) - now
      if (leftMs <= 0) this.lose(lease, lease.isSuspended ? unanswered : 'it could not be renewed in time')
      else nextMs = Math.min(nextMs, leftMs + 1)
    }
    this.#watchIn(nextMs)
  }

  #beatOften(): void {
    if (!this.#beatsRarely) return
    this.#beatsRarely = false
    this.#board.beat(this.#environment.monotonic())
    this.#watchIn(beatEveryMs)
  }

  #watchIn(ms: number): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#environment.timer(Math.min(ms, this.#maxBeatMs), () => this.#watch())
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer()
    await this.#caretaker?.stop()
    this.loseAll('its process closed the store')
  }
}

interface RenewalByHand {
  readonly ref: LeaseRef
  isSuspended: boolean
  end(): void
}

const unanswered = 'the store did not answer its release in time'

function keyOf({ kind, id }: Pick<LeaseRef, 'kind' | 'id'>): string {
  return `${kind} ${id}`
}
