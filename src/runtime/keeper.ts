/**
 * The main thread's side of leases: knows what this process holds, counts down from before each request, and tells
 * the work by an AbortSignal when a lease is lost or could not be renewed in time.
 */
import { safetyMarginMs } from '../domain/lease.ts'
import type { Environment } from '../environment.ts'
import { LeaseLostError } from '../errors.ts'
import type { LeaseRef } from '../operations/lease.ts'
import type { KeptLease } from './caretaker.ts'
import { type Deadlines, Slots } from './deadlines.ts'

/** A lease this process holds and renews. */
export interface Lease {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
  /** Fires when the lease is lost, cancelled elsewhere, or could not be renewed in time. Its reason is a LeaseLostError. */
  readonly signal: AbortSignal
  /** Whether an effect is still allowed now, judged on this process's own clock with a margin. */
  readonly isHeld: boolean
  /** Throws LEASE_LOST unless an effect is still allowed now. Call it right before each effect. */
  assertHeld(): void
}

export interface Caretaking {
  hold(lease: KeptLease): void
  drop(lease: LeaseRef): void
  close(): Promise<void>
}

interface Entry {
  readonly lease: HeldLease
  readonly slot: number
}

const beatEveryMs = 1000

export class Keeper {
  readonly #environment: Environment
  readonly #deadlines: Deadlines
  readonly #slots = new Slots()
  readonly #held = new Map<string, Entry>()
  #caretaking: Caretaking | null = null
  #cancelTimer: () => void = () => {}
  #closed = false

  constructor(environment: Environment, deadlines: Deadlines) {
    this.#environment = environment
    this.#deadlines = deadlines
    this.#watch()
  }

  /** Where renewals are done; set once it is there. */
  employ(caretaking: Caretaking): void {
    this.#caretaking = caretaking
  }

  hold(granted: Omit<KeptLease, 'slot'>): Lease {
    const deadline = granted.requestedAt + granted.leaseMs - safetyMarginMs(granted.leaseMs)
    const known = this.#held.get(keyOf(granted))
    if (known?.lease.token === granted.token) {
      // The same grant again (a holder asked once more): the lease the work already has goes on.
      this.#deadlines.set(known.slot, Math.max(deadline, this.#deadlines.get(known.slot)))
      return known.lease
    }
    if (known) this.lose(known.lease, 'it was granted anew to this process')
    const slot = this.#slots.take()
    this.#deadlines.set(slot, deadline)
    const lease = new HeldLease(granted, () => this.#deadlines.get(slot) > this.#environment.monotonic())
    this.#held.set(keyOf(granted), { lease, slot })
    this.#caretaking?.hold({ ...granted, slot })
    return lease
  }

  /** Throws unless so many more leases can be kept. */
  assertRoom(count: number): void {
    this.#slots.assertFree(count)
  }

  /** The lease ended in good order. */
  drop(ref: LeaseRef): void {
    const entry = this.#held.get(keyOf(ref))
    if (entry?.lease.token !== ref.token) return
    this.#forget(ref)
    this.#caretaking?.drop(ref)
  }

  /** The lease was lost: its work is told. */
  lose(ref: LeaseRef, reason: string): void {
    const entry = this.#held.get(keyOf(ref))
    if (entry?.lease.token !== ref.token) return
    this.#forget(ref)
    this.#caretaking?.drop(ref)
    entry.lease.lose(reason)
  }

  /** Refs of everything held, for giving it back at the end. */
  refs(): LeaseRef[] {
    return [...this.#held.values()].map(({ lease: { kind, id, token } }) => ({ kind, id, token }))
  }

  #forget(ref: Pick<LeaseRef, 'kind' | 'id'>): void {
    const entry = this.#held.get(keyOf(ref))
    if (!entry) return
    this.#held.delete(keyOf(ref))
    entry.lease.end()
    this.#deadlines.set(entry.slot, 0)
    this.#slots.giveBack(entry.slot)
  }

  /** Beats for the caretaker, and fires the signals of leases whose deadline has passed. */
  #watch(): void {
    if (this.#closed) return
    const now = this.#environment.monotonic()
    this.#deadlines.beat(now)
    let nextMs = beatEveryMs
    for (const { lease, slot } of [...this.#held.values()]) {
      const leftMs = this.#deadlines.get(slot) - now
      if (leftMs <= 0) this.lose(lease, 'it could not be renewed in time')
      else nextMs = Math.min(nextMs, leftMs + 1)
    }
    this.#cancelTimer = this.#environment.timer(nextMs, () => this.#watch())
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer()
    await this.#caretaking?.close()
    for (const ref of this.refs()) this.lose(ref, 'its process closed the store')
  }
}

class HeldLease implements Lease {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
  readonly #controller = new AbortController()
  readonly #inTime: () => boolean
  #ended = false

  constructor(granted: LeaseRef, inTime: () => boolean) {
    this.kind = granted.kind
    this.id = granted.id
    this.token = granted.token
    this.#inTime = inTime
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get isHeld(): boolean {
    return !this.#ended && this.#inTime()
  }

  assertHeld(): void {
    if (this.isHeld) return
    throw this.#controller.signal.reason ?? this.#lost('it ended or could not be renewed in time')
  }

  /** After this the slot of its deadline may belong to another lease. */
  end(): void {
    this.#ended = true
  }

  lose(reason: string): void {
    this.#controller.abort(this.#lost(reason))
  }

  #lost(reason: string): LeaseLostError {
    return new LeaseLostError({
      subject: `${this.kind} ${this.id}`,
      token: this.token,
      currentToken: this.token,
      holder: null,
      reason,
    })
  }
}

function keyOf({ kind, id }: Pick<LeaseRef, 'kind' | 'id'>): string {
  return `${kind} ${id}`
}
