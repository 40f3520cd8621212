/** Cancelling: what can be cancelled, what it ends, and whose signal fires. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { heldMergeStates, walkTo } from '../support/merge.ts'
import { claimed, claimedWithLock, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('cancelling a held item', () => {
    test("ends both leases at once and fires the holder's signal within a second [Q20]", async () => {
      const { q, env, store } = await openMerge(engine)
      await q.submit('w1', { headSha: 'abcd' })
      await q.submit('w2', { headSha: 'abcd' })
      const { lease } = await claimedWithLock(q.nextWithLock())
      const operator = (await store.open({ agent: 'operator' })).queue('main')

      const cancelled = await operator.cancel('w1', { reason: 'superseded' })
      const lock = await operator.getProcessingLock()
      const next = await claimedWithLock(operator.nextWithLock())
      await env.advance(999)

      expect(cancelled).toMatchObject({
        state: 'cancelled',
        lease: null,
        cancelRequestedAt: expect.any(Number),
      })
      expect(lock).toBeNull()
      expect(next.item.key).toBe('w2')
      expect(lease?.signal.aborted).toBe(true)
      expect(lease?.isHeld).toBe(false)
      expect(lease?.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    })

    test('fires the signal of every lease the holder was given for it [Q20] [Z5]', async () => {
      const { q, env } = await openMerge(engine)
      await q.submit('w1', { headSha: 'abcd' })
      const first = await claimedWithLock(q.nextWithLock())
      const again = await claimedWithLock(q.nextWithLock())

      await q.cancel('w1')
      await env.advance(999)

      expect(again.lease?.signal.aborted).toBe(true)
      expect(first.lease?.signal.aborted).toBe(true)
    })

    test('leaves the lock to one who gave the item back before and kept the lock [Q20]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const q = hf.queue('main', { slots: 2 })
      const { item } = await q.add(null)
      await q.nextWithLock()
      await q.release(item.id)
      const other = (await store.open({ agent: 'ben' })).queue('main')
      await claimedWithLock(other.nextWithLock())

      await hf.queue('main').cancel(item.id)

      const { locks } = await hf.locks.list({ prefix: 'queue:main' })
      expect(locks.map(({ holder }) => holder)).toEqual(['ada'])
    })

    test('refuses every later write of its holder, with the cancellation as the reason [Q20]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'abcd' })
      const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
      await q.cancel('w1')

      const refused = await refusal(() => q.move('w1', 'rebasing', { token: item.token }))

      expect(refused).toMatchObject({ code: 'LEASE_LOST', facts: { reason: 'it was cancelled' } })
    })

    test('fires the signal of a running handler and leaves the item cancelled [Q20]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      const { item } = await q.add(null)
      const stopped: boolean[] = []
      const worker = hf.work(q, async (_item, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        stopped.push(true)
      })
      await env.advance(10)

      await q.cancel(item.id)
      await env.advance(999)
      await worker.stop()

      expect(stopped).toEqual([true])
      expect(await q.get(item.id)).toMatchObject({ state: 'cancelled' })
    })

    test('keeps the lock of a holder that works on something else [Q20]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'abcd' })
      await q.submit('w2', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1' })
      await q.releaseProcessingLock({ agent: 'worker-1' })
      await q.nextWithLock({ agent: 'worker-2' })

      await q.cancel('w1')

      expect(await q.getProcessingLock()).toMatchObject({ holder: 'worker-2' })
    })
  })

  test.each(heldMergeStates.filter((state) => state !== 'merging'))(
    'an item that is %s can be cancelled [Q20] [Q2]',
    async (state) => {
      const { q } = await openMerge(engine)
      await heldIn(q, state)

      expect(await q.cancel('w1')).toMatchObject({ state: 'cancelled', previousState: state })
    },
  )

  test('a running merge cannot be cancelled and stays with its holder [Q20] [Q2]', async () => {
    const { q } = await openMerge(engine)
    await heldIn(q, 'merging')

    const refused = await refusal(() => q.cancel('w1'))

    expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'merging', to: 'cancelled' } })
    expect(await q.get('w1')).toMatchObject({ state: 'merging', holder: 'worker-1' })
    expect(await q.getProcessingLock()).toMatchObject({ holder: 'worker-1' })
  })

  test('a failed item that could be retried can be cancelled instead [Q20]', async () => {
    const { q } = await openMerge(engine)
    await heldIn(q, 'testing')
    await q.fail('w1', 'flaky', { agent: 'worker-1', retryable: true })

    await q.cancel('w1')

    expect(await refusalCode(() => q.retry('w1'))).toBe('ILLEGAL_MOVE')
  })

  test('a delayed item can be cancelled and does not come back when it is due [Q20]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { runAt: env.now() + 1_000 })
    await q.cancel(item.id)

    await env.advance(10_000)

    expect(await q.get(item.id)).toMatchObject({ state: 'cancelled', phase: 'closed' })
  })

  test('removing a held item needs force, which ends its lease and fires its holder’s signal [Q26]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null)
    const { item, lease } = await claimed(q.next())

    const refused = await refusal(() => q.remove(item.id))
    const removed = await q.remove(item.id, { force: true, reason: 'poison' })
    await env.advance(999)

    expect(refused).toMatchObject({ code: 'HELD', facts: { holder: hf.agent } })
    expect(removed).toBe(true)
    expect(await q.get(item.id)).toBeNull()
    expect(lease?.signal.aborted).toBe(true)
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function heldIn(q: Queue, state: (typeof heldMergeStates)[number]): Promise<void> {
  await q.submit('w1', { headSha: 'abcd' })
  await q.nextWithLock({ agent: 'worker-1' })
  await walkTo(q, 'w1', state, { agent: 'worker-1' })
}
