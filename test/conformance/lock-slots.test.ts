/** Slots of one lock: each is told by its token alone, and each keeps the delay it asked for. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a transferred slot has a token of its own: neither holder can release the other’s [L13]', async () => {
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

  test('a slot that asked for a delay is kept back, though it lapsed first and another slot is to be had', async () => {
    const { hf, env } = await engine.open({ agent: 'operator', recovery: false })
    await take(hf, 'pool', { slots: 2, agent: 'ada', leaseMs: 1_000, delayMs: 60_000 })
    await take(hf, 'pool', { slots: 2, agent: 'bob', leaseMs: 2_000 })
    await env.advance(3_000)

    const third = await take(hf, 'pool', { slots: 2, agent: 'cy' })
    const fourth = await hf.locks.acquireLock('pool', { slots: 2, agent: 'dan' })

    expect(third.recoveredFrom?.holder).toBe('bob')
    expect(fourth.outcome).toBe('held')
  })
})
