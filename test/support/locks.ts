/** Named locks for tests: granted, or the test fails. */
import type { AcquiredLock, AcquireOptions, Holdfast } from 'holdfast'
import { expect } from 'vitest'

export type Taken = Extract<AcquiredLock, { outcome: 'acquired' }>

/** The lock, which must be granted. */
export async function taken(acquiring: Promise<AcquiredLock>): Promise<Taken> {
  const answer = await acquiring
  expect(answer).toMatchObject({ outcome: 'acquired' })
  return answer as Taken
}

export function take(hf: Holdfast, name: string, options: AcquireOptions = {}): Promise<Taken> {
  return taken(hf.locks.acquireLock(name, options))
}
