/** Options of a batch, checked before its lock is acquired. */
import * as z from 'zod'
import { parseInput } from '../../operations/operation.ts'

const callable = z.custom<(...args: never[]) => unknown>((value) => typeof value === 'function', {
  error: 'must be a function',
})

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
  signal: z.instanceof(AbortSignal).optional(),
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
