/** What the calls of locks take. */
import type { ClaimOptions, OptionsFor, WaitOptions } from '../call-options.ts'
import type { BatchOptions } from '../worker/batch-options.ts'

/** How a lock is acquired. Those who wait for it form a line. */
export interface AcquireOptions
  extends OptionsFor<'locks.acquireLock', 'name' | 'wait' | 'waiter'>,
    ClaimOptions,
    WaitOptions {}

/** How paths are reserved. */
export interface ReserveOptions
  extends OptionsFor<'locks.reserve', 'patterns'>,
    Omit<ClaimOptions, 'token'> {}

/** How the lock for some work is acquired: for this handle's own agent, and renewed while the work runs. */
export interface WithLockOptions
  extends Omit<AcquireOptions, 'agent' | 'renew' | 'instance' | 'token' | 'idempotencyKey'> {}

export const withLockOptions = [
  'reason',
  'user',
  'run',
  'leaseMs',
  'slots',
  'reentrant',
  'delayMs',
  'waitMs',
  'signal',
] as const satisfies readonly (keyof WithLockOptions)[]

/** How a batch runs, and how its lock is acquired. */
export interface RunBatchOptions<Item>
  extends BatchOptions<Item>,
    Pick<AcquireOptions, 'reason' | 'user' | 'waitMs' | 'delayMs' | 'leaseMs'> {
  /** The lock that the run holds; default `global`. */
  readonly lock?: string | undefined
}
