/** The same request under the same key is done once and answered each time. */
import type { Holdfast, Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, claimedMany, claimedWithLock, refusal, refusalCode } from '../support/outcomes.ts'
import { retainFor } from '../support/retention.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a call that takes several transactions finishes under one key, and repeating it gives the same answer [S6-5]', async () => {
    const { hf } = await engine.open({ agent: 'ada', background: false })
    const names = Array.from({ length: 200 }, (_, index) => `lock-${index}`)
    await Promise.all(names.map((name) => hf.locks.acquireLock(name, { agent: 'bob' })))
    await hf.locks.acquireLock('press', { run: 'run-1' })
    await hf.runs.start('run-1', { lock: 'press' })
    const outcomes = Array.from({ length: 500 }, (_, key) => ({ key: `${key}`, outcome: 'done' as const }))
    await hf.runs.record('run-1', { outcomes })
    await hf.runs.pause('run-1')
    const options = { reason: 'they left', idempotencyKey: 'k1' }

    const released = [1, 2].map(() => hf.locks.forceReleaseAgent('bob', options))
    const removed = [1, 2].map(() => hf.runs.remove('run-1', { idempotencyKey: 'k2' }))

    expect(await Promise.all(released)).toEqual([200, 200])
    expect(await Promise.all(removed)).toEqual([true, true])
    expect((await hf.locks.list({ agent: 'bob' })).locks).toEqual([])
    expect(await hf.runs.get('run-1')).toBeNull()
  })

  describe('a repeated request', () => {
    test('gets the first answer and has no further effect', async () => {
      const { hf, store } = await engine.open({ agent: 'a' })
      const first = await hf.queue('jobs').add({ n: 1 }, { idempotencyKey: 'k1' })

      const again = await hf.queue('jobs').add({ n: 1 }, { idempotencyKey: 'k1' })
      const elsewhere = (await store.open({ agent: 'a' })).queue('jobs')
      const fromElsewhere = await elsewhere.add({ n: 1 }, { idempotencyKey: 'k1' })

      expect(again).toEqual(first)
      expect(fromElsewhere).toEqual(first)
      expect(await hf.queue('jobs').stats()).toMatchObject({ total: 1 })
    })

    test('gets the first answer even when it races itself', async () => {
      const { hf, store } = await engine.open({ agent: 'a' })
      const other = await store.open({ agent: 'a' })

      const answers = await Promise.all(
        [hf, other, hf, other, hf].map((handle) =>
          handle.queue('jobs').add({ n: 1 }, { idempotencyKey: 'k1' }),
        ),
      )

      expect(new Set(answers.map(({ item }) => item.id)).size).toBe(1)
    })

    test('is the same in whatever order its options are written', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      const first = await q.add({ n: 1 }, { key: 'w', priority: 2, idempotencyKey: 'k1' })

      const again = await q.add({ n: 1 }, { priority: 2, idempotencyKey: 'k1', key: 'w' })

      expect(again).toEqual(first)
    })

    const holder = { agent: 'worker-1' }
    const acts: Record<string, (q: Queue, token: number) => Promise<unknown>> = {
      complete: (q, token) => q.complete('w1', { ...holder, token, result: 7, idempotencyKey: 'k1' }),
      fail: (q, token) => q.fail('w1', 'no', { ...holder, token, idempotencyKey: 'k1' }),
      release: (q, token) => q.release('w1', { ...holder, token, idempotencyKey: 'k1' }),
      cancel: (q) => q.cancel('w1', { idempotencyKey: 'k1' }),
      setPriority: (q) => q.setPriority('w1', 1, { idempotencyKey: 'k1' }),
      remove: (q) => q.remove('w1', { force: true, idempotencyKey: 'k1' }),
      pause: (q) => q.pause({ idempotencyKey: 'k1' }),
      reclaimStale: (q) => q.reclaimStale({ thresholdMs: 0, idempotencyKey: 'k1' }),
    }

    test.each(Object.entries(acts))('of %s has the first answer', async (_name, act) => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add(null, { key: 'w1' })
      const { item } = await claimed(q.next(holder))

      const first = await act(q, item.token)
      const again = await act(q, item.token)

      expect(again).toEqual(first)
    })

    test('gets the first answer even if the token was left out', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add(null, { key: 'w1' })
      await claimed(q.next())

      const first = await q.complete('w1', { idempotencyKey: 'k1' })
      const again = await q.complete('w1', { idempotencyKey: 'k1' })

      expect(again).toEqual(first)
    })

    test('that was refused the first time is tried again', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add(null, { key: 'w1' })
      await refusalCode(() => q.add(null, { key: 'w1', idempotencyKey: 'k1' }))
      await q.remove('w1')

      const { item } = await q.add(null, { key: 'w1', idempotencyKey: 'k1' })

      expect(item.key).toBe('w1')
    })

    test('of a clean-up in several transactions ends', { timeout: 15_000 }, async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      const { ids } = await q.addMany(Array.from({ length: 501 }, () => ({ payload: null })))
      await Promise.all(ids.map((id) => q.cancel(id)))

      const removed = await q.cleanup({ maxAgeMs: 0, idempotencyKey: 'k1' })

      expect(removed).toBe(501)
      expect(await q.stats()).toMatchObject({ total: 0 })
    })
  })

  describe('another request under the same key', () => {
    test('is refused, naming the first, and has no effect', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add({ n: 1 }, { idempotencyKey: 'k1' })

      const refused = await refusal(() => q.add({ n: 2 }, { idempotencyKey: 'k1' }))

      expect(refused).toMatchObject({
        code: 'IDEMPOTENCY_MISMATCH',
        facts: { key: 'k1', operation: 'queue.add' },
      })
      expect(await q.stats()).toMatchObject({ total: 1 })
    })

    test.each(['another operation', 'another queue'])('by %s is refused', async (other) => {
      const { hf } = await engine.open({ agent: 'a' })
      await hf.queue('jobs').add({ n: 1 }, { idempotencyKey: 'k1' })

      const call = {
        'another operation': () =>
          hf.queue('jobs').addMany([{ payload: { n: 1 } }], { idempotencyKey: 'k1' }),
        'another queue': () => hf.queue('other').add({ n: 1 }, { idempotencyKey: 'k1' }),
      }[other] as () => Promise<unknown>

      expect(await refusalCode(call)).toBe('IDEMPOTENCY_MISMATCH')
    })
  })

  describe('the same request from another agent, as after a crash under a new pid', () => {
    const key = { idempotencyKey: 'k1' }
    const acts: Record<string, (hf: Holdfast) => Promise<unknown>> = {
      'queue.add': (hf) => hf.queue('jobs').add({ n: 1 }, key),
      'queue.complete': (hf) => hf.queue('jobs').complete('held', { result: 7, ...key }),
      'state.set': (hf) => hf.state('plan').set({ step: 1 }, key),
      'messages.sendWithAck': (hf) => hf.messages.sendWithAck('bob', { content: 1, ...key }),
      'tasks.addTask': (hf) => hf.tasks.addTask('one', { key: 'T-1', ...key }),
    }
    const opened = async () => {
      const { hf, store } = await engine.open({ agent: 'job-101' })
      await hf.messages.register('bob')
      await hf.queue('jobs').add(null, { key: 'held' })
      await claimed(hf.queue('jobs').next())
      return { hf, other: await store.open({ agent: 'job-102' }) }
    }

    test.each(Object.entries(acts))('of %s has the first answer [S5c-41]', async (_name, act) => {
      const { hf, other } = await opened()

      const first = await act(hf)
      const again = await act(other)

      expect(again).toEqual(first)
    })

    const own: Record<string, (hf: Holdfast) => Promise<unknown>> = {
      'queue.next': (hf) => hf.queue('jobs').next(key),
      'queue.claimMany': (hf) => hf.queue('jobs').claimMany(2, key),
      'locks.acquireLock': (hf) => hf.locks.acquireLock('press', key),
      'locks.reserve': (hf) => hf.locks.reserve('src/**', key),
      'locks.renewLock': async (hf) => hf.locks.renewLock('deploy', key),
      'locks.releaseLock': (hf) => hf.locks.releaseLock('deploy', key),
      'queue.renew': (hf) => hf.queue('jobs').renew('held', key),
      'queue.progress': (hf) => hf.queue('jobs').progress('held', 1, key),
      'tasks.claimNext': (hf) => hf.tasks.claimNext(key),
      'runs.start': (hf) => hf.runs.start('new', { lock: 'second', ...key }),
      'runs.record': (hf) => hf.runs.record('started', { done: 1, ...key }),
      'runs.pause': (hf) => hf.runs.pause('started', key),
      'runs.fail': (hf) => hf.runs.fail('started', { reason: 'broken', ...key }),
    }

    test.each(Object.entries(own))('of %s is refused, and no token is told [S5c-41]', async (_name, act) => {
      const { hf, other } = await opened()
      await hf.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
      await hf.tasks.addTask('one')
      await take(hf, 'deploy')
      await take(hf, 'first', { run: 'started' })
      await take(hf, 'second', { run: 'new' })
      await hf.runs.start('started', { lock: 'first' })
      const first = await act(hf)

      const refused = await refusal(() => act(other))

      expect(refused).toMatchObject({ code: 'IDEMPOTENCY_MISMATCH', facts: { key: 'k1', agent: 'job-101' } })
      expect(JSON.stringify(refused)).not.toMatch(/token/)
      expect(JSON.stringify(await act(hf))).toBe(JSON.stringify(first))
    })

    test.each(['receiveAck', 'nack', 'markAsRead'] as const)(
      'of %s is refused: the answer depends on the agent [S5c-41]',
      async (answer) => {
        const { hf } = await opened()
        await hf.messages.register('carol')
        const { message } = await hf.messages.sendWithAck(['bob', 'carol'], { content: 1 })
        const act = (agent: string) => hf.messages[answer](message.id, { agent, ...key })
        const first = await act('bob')

        const code = await refusalCode(() => act('carol'))

        expect(code).toBe('IDEMPOTENCY_MISMATCH')
        expect(await act('bob')).toEqual(first)
      },
    )
  })

  test('the same key in another namespace is a different key [S5c-41]', async () => {
    const { hf, store } = await engine.open()
    const other = await store.open({ namespace: 'other' })
    const first = await hf.queue('jobs').add({ n: 1 }, { idempotencyKey: 'k1' })

    const second = await other.queue('jobs').add({ n: 2 }, { idempotencyKey: 'k1' })

    expect(second.item.id).not.toBe(first.item.id)
  })

  test('how long an answer is kept is configurable [S5c-41]', async () => {
    const { hf, env } = await engine.open({ recovery: false, retention: { answersMs: 30 * 60_000 } })
    const { item } = await hf.queue('jobs').add(null, { idempotencyKey: 'k1' })

    env.suspend(29 * 60_000)
    await env.advance(1_000)
    const within = await hf.queue('jobs').add(null, { idempotencyKey: 'k1' })
    env.suspend(60_000)
    await env.advance(4 * 60_000)
    const after = await hf.queue('jobs').add(null, { idempotencyKey: 'k1' })

    expect(within.item.id).toBe(item.id)
    expect(after.item.id).not.toBe(item.id)
  })

  describe('if the token selects a grant, another token makes another request', () => {
    const key = { idempotencyKey: 'k1' }
    const pool = { slots: 2, agent: 'a' }
    const acts: Record<string, (hf: Holdfast, token: number) => Promise<unknown>> = {
      forceRelease: (hf, token) => hf.locks.forceRelease('pool', { token, reason: 'stuck', ...key }),
      transfer: (hf, token) => hf.locks.transfer('pool', { token, to: 'b', reason: 'b goes on', ...key }),
      releaseLock: (hf, token) => hf.locks.releaseLock('pool', { agent: 'a', token, ...key }),
      renewLock: (hf, token) => hf.locks.renewLock('pool', { agent: 'a', token, ...key }),
    }

    test.each(Object.entries(acts))('%s [L14]', async (_name, act) => {
      const { hf } = await engine.open()
      const [one, other] = [await take(hf, 'pool', pool), await take(hf, 'pool', pool)]
      const first = await act(hf, one.lock.lease.token)
      const before = await hf.locks.getCurrentLockInfo('pool')

      const code = await refusalCode(() => act(hf, other.lock.lease.token))

      expect(code).toBe('IDEMPOTENCY_MISMATCH')
      expect(await hf.locks.getCurrentLockInfo('pool')).toEqual(before)
      expect(await act(hf, one.lock.lease.token)).toEqual(first)
    })

    test('forcing one slot is not forcing all [L14]', async () => {
      const { hf } = await engine.open()
      const [one] = [await take(hf, 'pool', pool), await take(hf, 'pool', pool)]
      await hf.locks.forceRelease('pool', { token: one.lock.lease.token, reason: 'stuck', ...key })

      const code = await refusalCode(() => hf.locks.forceRelease('pool', { reason: 'stuck', ...key }))

      expect(code).toBe('IDEMPOTENCY_MISMATCH')
      expect(await hf.locks.isLockedBy('pool', { agent: 'a' })).toBe(true)
    })

    test('pausing the run of one grant is not pausing that of another [L8]', async () => {
      const { hf } = await engine.open()
      const { lock } = await take(hf, 'global', { run: 'r' })
      const { token } = lock.lease
      await hf.runs.start('r', { total: 1 })
      await hf.runs.pause('r', { token, ...key })

      const code = await refusalCode(() => hf.runs.pause('r', { token: token + 1, ...key }))

      expect(code).toBe('IDEMPOTENCY_MISMATCH')
    })

    test('releasing one slot of a processing lock is not releasing another [Q8]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge', slots: 2 })
      const tokenFor = async (agent: string) => {
        const answer = await q.acquireProcessingLock({ agent })
        return answer.outcome === 'acquired' ? answer.lock.lease.token : expect.fail('it was free')
      }
      const [one, other] = [await tokenFor('a'), await tokenFor('b')]
      await q.releaseProcessingLock({ agent: 'a', token: one, ...key })

      const code = await refusalCode(() => q.releaseProcessingLock({ agent: 'a', token: other, ...key }))

      expect(code).toBe('IDEMPOTENCY_MISMATCH')
    })

    test('but if left out, it is the caller’s own, even if the first call ended the grant', async () => {
      const { hf } = await engine.open()
      await take(hf, 'deploy')

      const first = await hf.locks.releaseLock('deploy', key)
      const again = await hf.locks.releaseLock('deploy', key)

      expect([first, again]).toEqual([true, true])
    })
  })

  test('if the token only proves who asks, a new holder gets the first answer', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    const q = hf.queue('jobs')
    await q.add(null, { key: 'w1' })
    const request = { idempotencyKey: 'step 1' }
    const { item: lost } = await claimed(q.next({ agent: 'worker-1', leaseMs: 1_000 }))
    const first = await q.progress('w1', { done: 1 }, { agent: 'worker-1', token: lost.token, ...request })
    await env.advance(1_001)
    await q.detectAndRecoverStale()
    const { item } = await claimed(q.next({ agent: 'worker-1' }))

    const again = await q.progress('w1', { done: 1 }, { agent: 'worker-1', token: item.token, ...request })

    expect(item.token).not.toBe(lost.token)
    expect(again).toEqual(first)
  })

  describe('a repeated claim', () => {
    test('returns the first item while its token is current', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      const first = await claimed(q.next({ agent: 'worker-1', idempotencyKey: 'k1' }))

      const again = await claimed(q.next({ agent: 'worker-1', idempotencyKey: 'k1' }))

      expect(again.item).toEqual(first.item)
      expect(await q.stats()).toMatchObject({ processing: 1, pending: 1 })
    })

    test('under the lock returns the first item and lock while their tokens are current', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', idempotencyKey: 'k1' }))

      const again = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', idempotencyKey: 'k1' }))

      expect([again.item, again.lock]).toEqual([first.item, first.lock])
    })

    test.each(['completed', 'released', 'reclaimed', 'granted anew'])(
      'is LEASE_LOST once the item was %s, and takes no other item',
      async (end) => {
        const { hf, env } = await engine.open()
        const q = hf.queue('jobs')
        await q.addMany([{ payload: 1 }, { payload: 2 }])
        const request = { agent: 'worker-1', leaseMs: 1_000, idempotencyKey: 'k1' }
        const { item } = await claimed(q.next(request))
        if (end === 'completed') await q.complete(item.id, { agent: 'worker-1' })
        else if (end === 'released') await q.release(item.id, { agent: 'worker-1' })
        else await env.advance(1_001)
        if (end === 'reclaimed') await q.detectAndRecoverStale()
        if (end === 'granted anew') await claimed(q.next({ agent: 'worker-2' }))
        const before = await q.stats()

        const code = await refusalCode(() => q.next(request))

        expect(code).toBe('LEASE_LOST')
        expect(await q.stats()).toEqual(before)
      },
    )

    test('renews the lease, for its holder and for the store', async () => {
      const { hf, env, store } = await engine.open()
      const q = hf.queue('jobs')
      await q.add(null)
      const request = { leaseMs: 10_000, idempotencyKey: 'k1' }
      await claimed(q.next({ ...request, renew: false }))
      await env.advance(9_900)

      const { lease } = await claimed(q.next(request))
      await env.advance(101)
      const rival = await (await store.open({ agent: 'rival' })).queue('jobs').next()

      expect([lease?.isHeld, rival.outcome]).toEqual([true, 'empty'])
    })

    test('of the lock is not reported as held once another has it', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      const request = { agent: 'worker-1', idempotencyKey: 'k1' }
      const first = await q.acquireProcessingLock(request)
      const token = first.outcome === 'acquired' ? first.lock.lease.token : 0
      await q.releaseProcessingLock({ agent: 'worker-1', token })
      await q.acquireProcessingLock({ agent: 'worker-2' })

      expect(await refusalCode(() => q.acquireProcessingLock(request))).toBe('LEASE_LOST')
    })

    test('of many items returns those still held, renewed, and is LEASE_LOST once none is', async () => {
      const { hf, env } = await engine.open({ recovery: false })
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
      const request = { agent: 'worker-1', idempotencyKey: 'k1', leaseMs: 10_000 }
      const [done, kept, regained] = await claimedMany(q.claimMany(3, request))
      if (!done || !kept || !regained) expect.fail('three were there')
      await q.complete(done.id, { agent: 'worker-1' })
      await q.release(regained.id, { agent: 'worker-1' })
      const { item } = await claimed(q.next({ agent: 'worker-1', leaseMs: 10_000 }))
      await env.advance(5_000)

      const left = await claimedMany(q.claimMany(3, request))
      const [renewed, other] = [await q.get(kept.id), await q.get(regained.id)]
      await q.complete(kept.id, { agent: 'worker-1' })

      expect(item.id).toBe(regained.id)
      expect(left.map(({ id, token }) => [id, token])).toEqual([[kept.id, kept.token]])
      expect([renewed?.lease?.remainingMs, other?.lease?.remainingMs]).toEqual([10_000, 5_000])
      expect(await refusalCode(() => q.claimMany(3, request))).toBe('LEASE_LOST')
    })
  })

  test('an answer is kept for a day and then forgotten', async () => {
    const { hf, env } = await engine.open({ background: false })
    const q = hf.queue('jobs')
    const { item } = await q.add({ n: 1 }, { idempotencyKey: 'k1' })

    await retainFor(24, { hf, env })
    const within = await q.add({ n: 1 }, { idempotencyKey: 'k1' })
    await retainFor(2, { hf, env })
    const after = await q.add({ n: 1 }, { idempotencyKey: 'k1' })

    expect(within.item.id).toBe(item.id)
    expect(after.item.id).not.toBe(item.id)
  })

  test('an answer and its change are kept together or not at all', async () => {
    const { hf, store } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null, { key: 'w1' })
    const mend = await store.damage.failItems()
    await refusalCode(() => q.cancel('w1', { idempotencyKey: 'k1' }))
    await mend()

    const cancelled = await q.cancel('w1', { idempotencyKey: 'k1' })

    expect(cancelled.state).toBe('cancelled')
    expect(await q.get('w1')).toMatchObject({ state: 'cancelled' })
  })
})
