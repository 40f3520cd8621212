/** Random histories of a merge queue, checked after every step. */

import fc from 'fast-check'
import type { Queue, QueueItem } from 'holdfast'
import { isHoldfastError } from 'holdfast'
import { expect } from 'vitest'
import type { Engine } from './stores.ts'

const keys = ['w1', 'w2', 'w3', 'w4', 'w5']
const agents = ['worker-1', 'worker-2', 'worker-3']
const known = [
  'pending',
  'claimed',
  'rebasing',
  'testing',
  'ready_to_merge',
  'merging',
  'failed_retryable',
  'merged',
  'failed_terminal',
  'cancelled',
]

const key = fc.constantFrom(...keys)
const agent = fc.constantFrom(...agents)

/** One action. Its effect depends on what came before. */
export const step = fc.oneof(
  fc.record({ do: fc.constant('submit' as const), key, priority: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ do: fc.constant('claim' as const), agent }),
  fc.record({ do: fc.constant('claim' as const), agent }),
  fc.record({ do: fc.constant('move' as const), key, to: fc.constantFrom(...known) }),
  fc.record({ do: fc.constant('move' as const), key, to: fc.constantFrom(...known) }),
  fc.record({ do: fc.constant('fail' as const), key, retryable: fc.boolean() }),
  fc.record({ do: fc.constant('complete' as const), key }),
  fc.record({ do: fc.constant('release' as const), key }),
  fc.record({ do: fc.constant('releaseLock' as const), agent }),
  fc.record({ do: fc.constant('cancel' as const), key }),
  fc.record({ do: fc.constant('retry' as const), key }),
  fc.record({ do: fc.constant('setPriority' as const), key, priority: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 500, 1_001, 6_000) }),
  fc.record({ do: fc.constant('reclaim' as const), thresholdMs: fc.constantFrom(0, 700) }),
)
export type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const leaseMs = 1_000

export async function merges(engine: Engine) {
  const { hf, env } = await engine.open()
  const q: Queue = hf.queue('main', { workflow: 'merge' })
  await q.define()
  let before: QueueItem<unknown>[] = []

  async function act(each: Step): Promise<string> {
    switch (each.do) {
      case 'submit':
        return (await q.submit(each.key, { headSha: 'abcd', priority: each.priority })).outcome
      case 'claim':
        return claim(each.agent)
      case 'move':
        return (await q.move(each.key, each.to, await tokenOf(each.key))).state
      case 'fail':
        return (await q.fail(each.key, 'no', { ...(await tokenOf(each.key)), retryable: each.retryable }))
          .state
      case 'complete':
        return (await q.complete(each.key, await tokenOf(each.key))).state
      case 'release':
        return String(await q.release(each.key, await tokenOf(each.key)))
      case 'releaseLock':
        return String(await q.releaseProcessingLock({ agent: each.agent }))
      case 'cancel':
        return (await q.cancel(each.key)).state
      case 'retry':
        return (await q.retry(each.key)).state
      case 'setPriority':
        return String((await q.setPriority(each.key, each.priority)).priority)
      case 'pass':
        await env.advance(each.ms)
        return 'passed'
      case 'reclaim':
        return String(await q.reclaimStale({ thresholdMs: each.thresholdMs }))
      default:
        return each satisfies never
    }
  }

  /** The first in line, unless the caller already has an item under its lock. */
  async function claim(by: string): Promise<string> {
    await q.detectAndRecoverStale()
    const lock = await q.getProcessingLock()
    const first = await q.peek()
    const answer = await q.nextWithLock({ agent: by, leaseMs })
    if (lock !== null && lock.holder !== by) expect(answer.outcome).toBe('held')
    if (answer.outcome === 'claimed' && answer.item.id !== lock?.item) expect(answer.item.id).toBe(first?.id)
    return answer.outcome === 'claimed' ? `claimed ${answer.item.key}` : answer.outcome
  }

  async function tokenOf(ref: string): Promise<{ token?: number }> {
    const item = await q.get(ref)
    return item?.phase === 'held' ? { token: item.token } : {}
  }

  async function check(): Promise<void> {
    const { items } = await q.list({ limit: 500 })
    await checkReadings(q, items)
    checkItems(items)
    for (const now of items) {
      const then = before.find(({ id }) => id === now.id)
      if (then) checkChange(then, now)
    }
    const lock = await q.getProcessingLock()
    if (lock?.holder != null && lock.item !== null) {
      const item = items.find(({ id }) => id === lock.item)
      if (item?.phase === 'held' && item.holder !== null) expect(item.holder).toBe(lock.holder)
    }
    before = items
  }

  return {
    /** Does one step, checks everything, and returns the outcome. */
    async take(each: Step): Promise<string> {
      let answer: string
      try {
        answer = await act(each)
      } catch (error) {
        if (!isHoldfastError(error)) throw error
        expect(error.code).not.toBe('INTERNAL')
        answer = error.code
      }
      await check()
      return answer
    },
    /** Everything except ids, which are never the same twice. */
    async describe(): Promise<unknown> {
      const { items } = await q.list({ limit: 500 })
      return items.map(({ key, state, priority, attempts, failures, crashes, version, holder, token }) => {
        return { key, state, priority, attempts, failures, crashes, version, holder, token }
      })
    },
  }
}

/** Counts, lists, positions and single reads agree. */
async function checkReadings(q: Queue, items: readonly QueueItem<unknown>[]): Promise<void> {
  const stats = await q.stats()
  const byState: Record<string, number> = {}
  for (const { state } of items) byState[state] = (byState[state] ?? 0) + 1
  expect(stats.total).toBe(items.length)
  const { pending, blocked, quarantined, processing, completed, failed, cancelled } = stats
  expect(pending + blocked + quarantined + processing + completed + failed + cancelled).toBe(items.length)
  expect(stats.byState).toEqual(byState)
  expect(stats.processing).toBe(items.filter(({ phase }) => phase === 'held').length)
  const ready = items.filter(({ phase }) => phase === 'ready')
  expect((await q.peek())?.id).toBe(ready[0]?.id)
  for (const [index, item] of ready.entries()) expect(await q.position(item.id)).toBe(index + 1)
  for (const item of items) expect(await q.get(item.id)).toEqual(item)
}

function checkItems(items: readonly QueueItem<unknown>[]): void {
  const open = items.filter(({ phase }) => phase !== 'closed').map(({ key }) => key)
  expect(new Set(open).size).toBe(open.length)
  for (const item of items) {
    expect(known).toContain(item.state)
    expect(item.lease !== null).toBe(item.phase === 'held')
    expect(item.closedAt !== null).toBe(item.phase === 'closed')
    if (item.phase === 'held') expect(item.startedAt).not.toBeNull()
  }
}

/** Versions and tokens only increase, and a closed item changes only by being resubmitted. */
function checkChange(then: QueueItem<unknown>, now: QueueItem<unknown>): void {
  expect(now.version).toBeGreaterThanOrEqual(then.version)
  expect(now.token).toBeGreaterThanOrEqual(then.token)
  if (then.phase === 'closed' && now.state !== 'pending')
    expect({ ...now, priority: 0, version: 0 }).toEqual({ ...then, priority: 0, version: 0 })
}
