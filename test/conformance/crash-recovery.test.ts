/** Suite A: workers that die in the middle of an item, and what the operator's reclaim gives back. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimedWithLock, present } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const aMoment = 1_010
const leaseMs = 300_000

forEachEngine((engine) => {
  describe.each([
    { healing: 'on [CV-001]', recovery: true },
    { healing: 'off', recovery: false },
  ])('with healing $healing', ({ recovery }) => {
    const openQueue = async () => {
      const opened = await engine.open({ recovery })
      return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
    }

    test('a crashed worker leaves an item that a reclaim puts back in line without its start time or holder [A-01] [Q15]', async () => {
      const { q, env } = await openQueue()
      await q.submit('w1', { headSha: 'abcd' })
      await crash(q, 'worker-1')
      await env.advance(aMoment)

      const reclaimed = await q.reclaimStale({ thresholdMs: 0 })

      expect(reclaimed).toBe(1)
      expect(await q.get('w1')).toMatchObject({
        state: 'pending',
        phase: 'ready',
        startedAt: null,
        holder: null,
        lease: null,
      })
    })

    test('a released lock is granted to the next worker [A-02] [Q7]', async () => {
      const { q } = await openQueue()
      await submitMany(q, 2)
      const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
      expect(await q.getProcessingLock()).toMatchObject({ holder: 'worker-1', stale: false })
      await q.releaseProcessingLock({ agent: 'worker-1' })

      const second = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(second.item.key).toBe('w2')
      expect(second.lock.lease.agent).toBe('worker-2')
      expect(second.lock.lease.token).toBeGreaterThan(first.lock.lease.token)
    })

    test('a lapsed lock is granted to the next worker [A-02] [C-11]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 2)
      const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 }))
      await env.advance(aMoment)

      const second = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(second.lock.lease).toMatchObject({ agent: 'worker-2', leaseMs, remainingMs: leaseMs })
      expect(second.lock.lease.token).toBeGreaterThan(first.lock.lease.token)
    })

    test('after a reclaim another worker claims the item and is its holder [A-03]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 1)
      await crash(q, 'worker-1')
      await env.advance(aMoment)
      await q.reclaimStale({ thresholdMs: 0 })

      await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(await q.get('w1')).toMatchObject({ state: 'claimed', holder: 'worker-2', attempts: 2 })
    })

    test('five crashed workers leave five items that one reclaim puts back, and no lock [A-04]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 5)
      for (let worker = 1; worker <= 5; worker++) await crash(q, `worker-${worker}`)
      await env.advance(aMoment)

      const reclaimed = await q.reclaimStale({ thresholdMs: 0 })

      expect(reclaimed).toBe(5)
      expect(await q.stats()).toMatchObject({ pending: 5, processing: 0, byState: { pending: 5 } })
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('a recent claim is left alone by a reclaim with a long threshold [A-05]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 1)
      await crash(q, 'worker-1')
      await env.advance(aMoment)

      const reclaimed = await q.reclaimStale({ thresholdMs: 60_000 })

      expect(reclaimed).toBe(0)
      expect(await q.get('w1')).toMatchObject({ state: 'claimed', holder: 'worker-1' })
    })

    test('of old and recent claims, a reclaim takes only the old ones [A-06]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 3)
      await crash(q, 'worker-1')
      await crash(q, 'worker-2')
      await env.advance(5_000)
      await crash(q, 'worker-3')

      const reclaimed = await q.reclaimStale({ thresholdMs: 5_000 })

      expect(reclaimed).toBe(2)
      expect((await q.list({ states: ['claimed'] })).items.map(({ key }) => key)).toEqual(['w3'])
    })

    test('a second reclaim finds nothing left to do [A-07] [Q15]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 2)
      await crash(q, 'worker-1')
      await crash(q, 'worker-2')
      await env.advance(aMoment)

      const first = await q.reclaimStale({ thresholdMs: 0 })
      const second = await q.reclaimStale({ thresholdMs: 0 })

      expect([first, second]).toEqual([2, 0])
    })

    test('while one worker has the lock, another gets nothing; after the release it claims [A-08]', async () => {
      const { q } = await openQueue()
      await submitMany(q, 2)
      await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

      const refused = await q.nextWithLock({ agent: 'worker-2' })
      await q.releaseProcessingLock({ agent: 'worker-1' })
      const granted = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(refused).toMatchObject({ outcome: 'held', holder: 'worker-1' })
      expect(granted.item.key).toBe('w2')
    })

    test('extending a new lock by a minute makes lock and item last a minute longer [A-09] [Q9]', async () => {
      const { q } = await openQueue()
      await submitMany(q, 1)
      const { lock, item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

      const extended = await q.extendLock({ agent: 'worker-1', extraMs: 60_000 })

      const expiresAt = (lock.lease.expiresAt ?? 0) + 60_000
      expect(extended).toMatchObject({ capped: false, lease: { expiresAt } })
      expect((await present(q.get(item.id))).lease).toMatchObject({ expiresAt })
    })

    test('a release by another agent returns false and the lock stays with its holder [A-10] [Q8]', async () => {
      const { q } = await openQueue()
      await submitMany(q, 1)
      await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

      const released = await q.releaseProcessingLock({ agent: 'worker-2' })

      expect(released).toBe(false)
      expect(await q.getProcessingLock()).toMatchObject({ holder: 'worker-1' })
    })

    test('concurrent reclaims from three handles split ten stale items exactly [A-11]', async () => {
      const { q, env, store } = await openQueue()
      await submitMany(q, 10)
      for (let worker = 1; worker <= 10; worker++) await crash(q, `worker-${worker}`)
      await env.advance(aMoment)
      const others = [await store.open({ recovery }), await store.open({ recovery })]
      const queues = [q, ...others.map((hf) => hf.queue('main'))]

      const counts = await Promise.all(
        queues.flatMap((each) => [
          each.reclaimStale({ thresholdMs: 0 }),
          each.reclaimStale({ thresholdMs: 0 }),
        ]),
      )

      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(10)
      expect(await q.stats()).toMatchObject({ pending: 10, processing: 0 })
    })

    test('a reclaim keeps bead, priority, workspace, head and key [A-12] [Q15]', async () => {
      const { q, env } = await openQueue()
      const identity = {
        headSha: 'abcd',
        bead: 'bd-1',
        priority: 2,
        dedupeKey: 'w1:change',
        payload: { a: 1 },
      }
      await q.submit('w1', identity)
      await crash(q, 'worker-1')
      await env.advance(aMoment)

      await q.reclaimStale({ thresholdMs: 0 })

      expect(await q.get('w1')).toMatchObject({
        key: 'w1',
        dedupeKey: 'w1:change',
        priority: 2,
        payload: { a: 1 },
        data: { bead: 'bd-1', headSha: 'abcd' },
      })
    })

    test('a worker claims again after its own release [A-13]', async () => {
      const { q } = await openQueue()
      await submitMany(q, 2)
      await crash(q, 'worker-1')

      const again = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

      expect(again.item.key).toBe('w2')
    })

    test('a worker claims again after its own lease has lapsed [A-13]', async () => {
      const { q, env } = await openQueue()
      await submitMany(q, 1)
      await q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 })
      await env.advance(aMoment)

      const again = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

      expect(again.item).toMatchObject({ key: 'w1', state: 'claimed', holder: 'worker-1' })
    })
  })
})

async function submitMany(q: Queue, count: number): Promise<void> {
  for (let number = 1; number <= count; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
}

/** The lock is given up and the item left claimed. */
async function crash(q: Queue, agent: string): Promise<void> {
  await claimedWithLock(q.nextWithLock({ agent }))
  expect(await q.releaseProcessingLock({ agent })).toBe(true)
}
