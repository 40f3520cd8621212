/** Options of a batch, checked before its lock is acquired. */
import * as z from 'zod'
import { InvalidError } from '../../errors.ts'
import { parseInput } from '../../operations/operation.ts'
import type { RunView } from '../../operations/run/view.ts'
import { callable, signal } from '../../runtime/session/option-fields.ts'

/** The lock's own options are checked when it is acquired. */
const input = z.strictObject({
  items: z.custom<object>(isSource, { error: 'must be a list, something to iterate over, or a function' }),
  handler: callable,
  lock: z.unknown().optional(),
  reason: z.unknown().optional(),
  user: z.unknown().optional(),
  waitMs: z.unknown().optional(),
  delayMs: z.unknown().optional(),
  leaseMs: z.unknown().optional(),
  keyOf: callable.optional(),
  concurrency: z.int().min(1).max(1000).optional(),
  gapMs: z.int().min(0).max(60_000).optional(),
  total: z.int().min(0).optional(),
  completion: z.enum(['processed', 'successful']).optional(),
  signal,
  onComplete: callable.optional(),
})

/** Throws INVALID for the first option that is wrong. */
export function assertBatch(items: unknown, handler: unknown, options: object): void {
  parseInput({ name: 'locks.runBatch', input }, { ...options, items, handler })
}

function isSource(value: unknown): boolean {
  if (typeof value === 'function') return true
  return (
    typeof value === 'object' && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value)
  )
}
/** The items of a batch, or a function that returns them. */
export type BatchItems<Item> =
  | Iterable<Item>
  | AsyncIterable<Item>
  /** Called with the cursor of the run: the key up to which everything is done, or null. */
  | ((cursor: unknown) => Iterable<Item> | AsyncIterable<Item>)

/** What a handler gets besides its item. */
export interface BatchContext {
  /** The run this item belongs to. */
  readonly run: string
  /** The key under which its outcome is stored. */
  readonly key: string
  /** The fencing token of the lock. */
  readonly token: number
  /** Fires when the lock is lost or the batch should stop. */
  readonly signal: AbortSignal
  /** Call this right before each effect: throws LEASE_LOST unless the lock is certainly still ours. */
  assertHeld(): void
}

/** Handles one item. Returning `'skipped'` counts as skipped, throwing as failed, anything else as done. */
export type BatchHandler<Item> = (item: Item, context: BatchContext) => unknown

/** How the items of a batch are handled. */
export interface BatchOptions<Item> {
  /** The key that an item's outcome is stored under; default: the item itself, if it is a string. */
  readonly keyOf?: ((item: Item) => string) | undefined
  /** Items at once; default by the number of items: 3 to 20. */
  readonly concurrency?: number | undefined
  /** Pause between two items of the same runner, ms; default 200. */
  readonly gapMs?: number | undefined
  /** How many items there are; default: counted, if they can be counted beforehand. */
  readonly total?: number | undefined
  /** Completed when all are processed (default), or only when none failed. */
  readonly completion?: 'processed' | 'successful' | undefined
  /** Stops before the next item; the run is paused. */
  readonly signal?: AbortSignal | undefined
  /** Called once each time the run is completed, by the runner that completed it, while it still holds the lock. */
  readonly onComplete?: ((progress: RunView) => unknown) | undefined
}

export function keyOfItem<Item>(item: Item, { keyOf }: BatchOptions<Item>): string {
  if (keyOf) return keyOf(item)
  if (typeof item === 'string' || typeof item === 'number') return String(item)
  throw new InvalidError({
    what: 'the items of the batch are not strings',
    next: 'give their keys with keyOf',
  })
}
