import { describe, expect, test } from 'vitest'
import {
  adjustQueue,
  assertSameWorkflow,
  createQueue,
  pauseQueue,
  processingLockName,
  resumeQueue,
} from '../../src/domain/queue.ts'
import { at, job, merge, refusalOf } from './samples.ts'

const open = Object.freeze(createQueue('prints', job, {}, at.wall))

describe('a new queue', () => {
  test('allows three failures and three crashes, and is not paused', () => {
    const queue = createQueue('prints', job, {}, at.wall)

    expect(queue).toEqual({
      name: 'prints',
      workflow: 'job',
      slots: null,
      maxAttempts: 3,
      maxCrashes: 3,
      leaseMs: null,
      manualLeaseMs: null,
      backoff: null,
      pausedAt: null,
      pausedBy: null,
      pauseReason: null,
      createdAt: at.wall,
      version: 1,
    })
  })

  test('takes the slots of its workflow, so that a merge queue has one holder [Z12]', () => {
    const queue = createQueue('main', merge, {}, at.wall)

    expect(queue.slots).toBe(1)
  })

  test('prefers the limits it was given, 0 crashes included', () => {
    const queue = createQueue('main', merge, { slots: 4, maxAttempts: 1, maxCrashes: 0 }, at.wall)

    expect(queue).toMatchObject({ slots: 4, maxAttempts: 1, maxCrashes: 0 })
  })
})

describe('a queue that exists', () => {
  test('keeps its workflow for life', () => {
    const refusal = refusalOf(() => assertSameWorkflow(open, 'merge'))

    expect(refusal).toMatchObject({
      code: 'INVALID',
      facts: { queue: 'prints', workflow: 'job', asked: 'merge' },
    })
  })

  test('may be opened again with the workflow it has', () => {
    expect(() => assertSameWorkflow(open, 'job')).not.toThrow()
  })

  test.each([
    [{ slots: 2 }],
    [{ maxAttempts: 9 }],
    [{ maxCrashes: 0 }],
    [{ leaseMs: 5_000 }],
    [{ manualLeaseMs: 0 }],
    [{ backoff: { baseMs: 1, factor: 1, maxMs: 1 } }],
    [{ slots: 5, maxAttempts: 1, maxCrashes: 7 }],
  ])('changes exactly the limits it is given: %o', (settings) => {
    const changed = adjustQueue(open, settings)

    expect(changed).toEqual({ ...open, ...settings, version: 2 })
  })

  test.each([[{}], [{ maxAttempts: 3 }], [{ maxAttempts: 3, maxCrashes: 3 }]])(
    'is not changed by limits it already has: %o',
    (settings) => {
      expect(adjustQueue(open, settings)).toBeNull()
    },
  )

  test('keeps the numbers of its backoff that are not given, and notices when none changes [S6-25]', () => {
    const given = { backoff: { baseMs: 5, factor: 3 } }
    const first = adjustQueue(open, given)

    expect(first?.backoff).toEqual({ baseMs: 5, factor: 3, maxMs: 300_000 })
    expect(first && adjustQueue(first, given)).toBeNull()
    expect(first && adjustQueue(first, { backoff: { maxMs: 9 } })?.backoff).toEqual({
      baseMs: 5,
      factor: 3,
      maxMs: 9,
    })
    expect(first && adjustQueue(first, { backoff: { factor: 2 } })?.backoff?.factor).toBe(2)
    expect(first && adjustQueue(first, {})).toBeNull()
  })

  test('records who paused it, when and why, and forgets that when resumed', () => {
    const paused = pauseQueue(open, 'eve', 'printer on fire', at.wall + 1)
    const resumed = paused && resumeQueue(paused)

    expect(paused).toEqual({
      ...open,
      pausedAt: at.wall + 1,
      pausedBy: 'eve',
      pauseReason: 'printer on fire',
      version: 2,
    })
    expect(resumed).toEqual({ ...open, version: 3 })
  })

  test('paused twice, it keeps the first reason', () => {
    const paused = { ...open, pausedAt: at.wall, pausedBy: 'eve', pauseReason: 'first' }

    expect(pauseQueue(paused, 'bob', 'second', at.wall + 1)).toBeNull()
  })

  test('cannot be resumed unless it is paused', () => {
    expect(resumeQueue(open)).toBeNull()
  })

  test('has its own processing lock, separate from any other queue [Z12]', () => {
    const names = ['prints', 'main'].map(processingLockName)

    expect(names).toEqual(['queue:prints', 'queue:main'])
  })
})
