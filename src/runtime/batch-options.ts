/** Options of a batch, checked before its lock is taken. */
import * as z from 'zod'
import { parseInput } from '../operations/operation.ts'

const callable = z.custom<(...args: never[]) => unknown>((value) => typeof value === 'function', {
  error: 'must be a function',
})

/** Those of the lock are checked where it is acquired. */
const input = z.strictObject({
  lock: z.unknown(),
  reason: z.unknown(),
  user: z.unknown(),
  waitMs: z.unknown(),
  delayMs: z.unknown(),
  leaseMs: z.unknown(),
  keyOf: callable.optional(),
  concurrency: z.int().min(1).max(1000).optional(),
  gapMs: z.int().min(0).max(60_000).optional(),
  total: z.int().min(0).optional(),
  completion: z.enum(['processed', 'successful']).optional(),
  signal: z.instanceof(AbortSignal).optional(),
  onComplete: callable.optional(),
})

export function assertBatchOptions(options: object): void {
  parseInput({ name: 'locks.runBatch', input: input.partial() }, options)
}
