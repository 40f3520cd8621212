/** Tokens are unique within one resource; two resources may have the same one. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('two leases granted in the same millisecond are each renewed on time [L4]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
    const long = await take(hf, 'long', { leaseMs: 600_000 })
    const short = await take(hf, 'short', { leaseMs: 3_000 })
    expect(short.lock.lease.token).toBe(long.lock.lease.token)

    await env.advance(30_000)

    expect(short.lease?.isHeld).toBe(true)
    expect(await hf.locks.isLockedBy('short')).toBe(true)
  })

  test('losing one of two leases granted in the same millisecond does not disturb the other', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
    const [kept, lost] = [
      await take(hf, 'kept', { leaseMs: 3_000 }),
      await take(hf, 'lost', { leaseMs: 3_000 }),
    ]
    await hf.locks.forceRelease('lost', { reason: 'it hangs' })

    await env.advance(30_000)

    expect(lost.lease?.isHeld).toBe(false)
    expect(kept.lease?.isHeld).toBe(true)
  })
})
