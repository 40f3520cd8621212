/** What the calls of locks take. */
import type { ClaimOptions } from '../call-options.ts'
import type { BatchOptions } from '../worker/batch-options.ts'

/** How a lock is acquired. */
export interface AcquireOptions extends ClaimOptions {
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
  /** On whose behalf. */
  readonly user?: string | undefined
  /** The run it is held for; progress is recorded under that name. */
  readonly run?: string | undefined
  /** How many may hold it at once; default 1. The same everywhere. */
  readonly slots?: number | undefined
  /** Its holder may acquire it again, and must release it as many times. */
  readonly reentrant?: boolean | undefined
  /** How long nobody may acquire it after its holder is lost; default 0. */
  readonly delayMs?: number | undefined
  /** How long to wait in line, ms; default 0: answer at once. */
  readonly waitMs?: number | undefined
  /** Ends the wait, and the promise rejects with its reason. If it has already fired, nothing is claimed. */
  readonly signal?: AbortSignal | undefined
}

/** How paths are reserved. */
export interface ReserveOptions extends Omit<ClaimOptions, 'token'> {
  /** Shared reservations may overlap each other; default exclusive. */
  readonly mode?: 'shared' | 'exclusive' | undefined
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
  /** On whose behalf. */
  readonly user?: string | undefined
  /** Reservations you hold, each by name and token, to be exempt from the overlap check. Never filled in for you. */
  readonly holding?: readonly { readonly name: string; readonly token: number }[] | undefined
}

/** How a batch runs, and how its lock is acquired. */
export interface RunBatchOptions<Item>
  extends BatchOptions<Item>,
    Pick<AcquireOptions, 'reason' | 'user' | 'waitMs' | 'delayMs' | 'leaseMs'> {
  /** The lock that the run holds; default `global`. */
  readonly lock?: string | undefined
}
