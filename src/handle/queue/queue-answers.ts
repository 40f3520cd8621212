/** What the calls of a queue return. */
import type { ClaimManyOutcome, ClaimOutcome } from '../../operations/queue/claim-outcome.ts'
import type { AcquireOutcome } from '../../operations/queue/processing-lock.ts'
import type { ResultOf } from '../../operations/table.ts'
import type { ItemView, LockView } from '../../operations/view.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'

/** An item with a typed payload: what the schema makes of it where it was claimed, and as it is stored elsewhere. */
export interface QueueItem<Payload> extends Omit<ItemView, 'payload'> {
  /** What the item says to do. */
  readonly payload: Payload
}

/** The outcome of a claim. `Held` is the type of its lease: null when nobody renews it. */
export type Claim<Payload, Held extends Lease | null = Lease | null> =
  | {
      readonly outcome: 'claimed'
      readonly item: QueueItem<Payload>
      readonly lease: Held
      readonly lock?: LockView
    }
  | Exclude<ClaimOutcome, { outcome: 'claimed' }>

/** The outcome of claiming several items at once. */
export type ManyClaims<Payload, Held extends Lease | null = Lease | null> =
  | {
      readonly outcome: 'claimed'
      readonly items: { readonly item: QueueItem<Payload>; readonly lease: Held }[]
    }
  | Exclude<ClaimManyOutcome, { outcome: 'claimed' }>

/** The outcome of acquiring a processing lock. */
export type ProcessingLock<Held extends Lease | null = Lease | null> =
  | { readonly outcome: 'acquired'; readonly lock: LockView; readonly lease: Held }
  | Exclude<AcquireOutcome, { outcome: 'acquired' }>

/** The number of items in each state. */
export type QueueStats = ResultOf<'queue.stats'>

/** What became of everything that had failed. */
export interface RetryReport {
  /** How many items are in line again, or would be. */
  readonly retried: number
  /** How many could not be retried, and stay failed. */
  readonly refused: number
  /** The first ten of those, and why. */
  readonly refusals: readonly { readonly id: string; readonly key: string | null; readonly error: string }[]
}
