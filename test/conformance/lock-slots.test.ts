/** Slots of one lock: each is identified by its token alone, and has its own lock delay. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a transferred slot has its own token: neither holder can release the other’s [L13]', async () => {
    const { hf } = await engine.open({ agent: 'operator' })
    const first = await take(hf, 'pool', { slots: 2, agent: 'ada' })
    const second = await take(hf, 'pool', { slots: 2, agent: 'bob' })

    const { lease } = await hf.locks.transfer('pool', {
      token: first.lock.lease.token,
      to: 'cy',
      reason: 'night shift',
    })
    const released = await hf.locks.releaseLock('pool', { agent: 'bob', token: second.lock.lease.token })

    expect(lease.token).toBeGreaterThan(second.lock.lease.token)
    expect(released).toBe(true)
    expect((await hf.locks.list()).locks.map(({ holder }) => holder)).toEqual(['cy'])
  })

  test('a slot in its lock delay is held back, although it lapsed first and another slot is free', async () => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    await take(hf, 'pool', { slots: 2, agent: 'ada', leaseMs: 1_000, delayMs: 60_000 })
    await take(hf, 'pool', { slots: 2, agent: 'bob', leaseMs: 2_000 })
    await env.advance(3_000)

    const third = await take(hf, 'pool', { slots: 2, agent: 'cy' })
    const fourth = await hf.locks.acquireLock('pool', { slots: 2, agent: 'dan' })

    expect(third.recoveredFrom?.holder).toBe('bob')
    expect(fourth.outcome).toBe('held')
  })

  test.each([
    [3, 1],
    [1, 3],
  ])('a lock that lapsed with %i slots can be acquired with %i [S5c-17]', async (former, asked) => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    const lapsed = await take(hf, 'pool', { slots: former, agent: 'ada', leaseMs: 1_000 })
    await env.advance(2_000)

    const { lock, recoveredFrom } = await take(hf, 'pool', { slots: asked, agent: 'bob' })

    expect(recoveredFrom).toEqual({ holder: 'ada', token: lapsed.lock.lease.token })
    expect(lock.holder).toBe('bob')
    expect(await refusalCode(() => hf.locks.acquireLock('pool', { slots: former, agent: 'cy' }))).toBe(
      'INVALID',
    )
  })

  test('taking it that way ends all its lapsed grants: none of them comes back beside it [S5c-17]', async () => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    const names = ['ada', 'bob', 'cy']
    const tokens = new Map<string, number>()
    for (const agent of names) {
      const { lock } = await take(hf, 'pool', { slots: 3, agent, leaseMs: 1_000, run: `of ${agent}` })
      tokens.set(agent, lock.lease.token)
      await hf.runs.start(`of ${agent}`, { agent, lock: 'pool', token: lock.lease.token })
    }
    await env.advance(2_000)

    await take(hf, 'pool', { agent: 'dan' })
    const codes = await Promise.all(
      names.map((agent) =>
        refusalCode(() => hf.locks.renewLock('pool', { agent, token: tokens.get(agent) as number })),
      ),
    )
    const runs = await Promise.all(names.map((agent) => hf.runs.get(`of ${agent}`)))

    expect(codes).toEqual(names.map(() => 'LEASE_LOST'))
    expect((await hf.locks.list()).locks.map(({ holder }) => holder)).toEqual(['dan'])
    expect(runs.map((run) => run?.status)).toEqual(names.map(() => 'paused'))
  })

  test('the lock delay applies even if the caller asks for another number of slots [S5c-17]', async () => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    await take(hf, 'pool', { slots: 2, agent: 'ada', leaseMs: 1_000, delayMs: 60_000 })
    await env.advance(2_000)

    const during = await hf.locks.acquireLock('pool', { slots: 3, agent: 'bob' })
    await env.advance(60_001)
    const after = await hf.locks.acquireLock('pool', { slots: 3, agent: 'bob' })

    expect([during.outcome, after.outcome]).toEqual(['held', 'acquired'])
  })

  test('a queue redefined with fewer slots ends the lapsed processing locks beyond them [S5c-17]', async () => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    const q = hf.queue('main', { workflow: 'merge', slots: 2 })
    await q.define()
    const [, lapsed] = [
      await q.acquireProcessingLock({ agent: 'ada', leaseMs: 1_000 }),
      await q.acquireProcessingLock({ agent: 'bob', leaseMs: 1_000 }),
    ]
    await hf.queue('main', { slots: 1 }).define()
    await env.advance(2_000)

    await q.acquireProcessingLock({ agent: 'cy' })
    const token = lapsed?.outcome === 'acquired' ? lapsed.lock.lease.token : 0

    expect(await refusalCode(() => q.renewLock({ agent: 'bob', token }))).toBe('LEASE_LOST')
  })
})
