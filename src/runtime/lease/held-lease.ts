/** A lease that this process holds: what its work sees of it. */
import { LeaseLostError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'

/** A lease this process holds and renews until its holder asks to release, complete or fail it. */
export interface Lease {
  /** What is held. */
  readonly kind: 'item' | 'lock'
  /** Id of the item, or name and slot of the lock. */
  readonly id: string
  /** The fencing token: it grows with every grant. */
  readonly token: number
  /** Fires when the lease is lost, cancelled elsewhere, or not renewed in time. Its reason is a LeaseLostError. */
  readonly signal: AbortSignal
  /** Whether an effect is still allowed now, judged on this process's own clock with a margin. */
  readonly isHeld: boolean
  /** Throws LEASE_LOST unless an effect is still allowed now. Call it right before each effect. */
  assertHeld(): void
}

interface Identified {
  readonly kind: string
  readonly id: string
  readonly token: number
}

/** Whether both are one grant of the same thing. A token alone is not enough: items claimed together share it. */
export function isSameLease(left: Identified, right: Identified): boolean {
  return left.token === right.token && left.kind === right.kind && left.id === right.id
}

/** The store's answer to the request that ended a lease; null while it is held, or if it was lost. */
export function answerThatEnded(lease: Lease): unknown {
  return lease instanceof HeldLease ? lease.answer : null
}

/** Calls back when a lease is lost. Cheaper than its signal, which most items never need. */
export function whenLost(lease: Lease, tell: (error: LeaseLostError) => void): void {
  if (lease instanceof HeldLease) lease.onLost = tell
}

export class HeldLease implements Lease {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
  readonly slot: number
  /** Its holder is giving it back. */
  isSuspended = false
  answer: unknown = null
  onLost: (error: LeaseLostError) => void = () => {}
  readonly #inTime: () => boolean
  /** Created when somebody asks for the signal: most items finish without one. */
  #controller: AbortController | null = null
  #lost: LeaseLostError | null = null
  #ended = false

  constructor(granted: LeaseRef, slot: number, inTime: () => boolean) {
    this.kind = granted.kind
    this.id = granted.id
    this.token = granted.token
    this.slot = slot
    this.#inTime = inTime
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#lost) this.#controller.abort(this.#lost)
    return this.#controller.signal
  }

  get isHeld(): boolean {
    return !this.#ended && !this.isSuspended && this.#inTime()
  }

  assertHeld(): void {
    if (this.isHeld) return
    const isGivenBack = this.isSuspended && !this.#ended
    throw (
      this.#lost ??
      this.#loss(isGivenBack ? 'it is being given back' : 'it ended or could not be renewed in time')
    )
  }

  /** After this the slot may belong to another lease. */
  end(): void {
    this.#ended = true
  }

  lose(reason: string): void {
    this.#lost = this.#loss(reason)
    this.#controller?.abort(this.#lost)
    this.onLost(this.#lost)
  }

  #loss(reason: string): LeaseLostError {
    return new LeaseLostError({
      subject: `${this.kind} ${this.id}`,
      token: this.token,
      currentToken: this.token,
      holder: null,
      reason,
    })
  }
}
