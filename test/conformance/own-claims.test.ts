/** What a handle claims for its own agent has a lease, in the types too; what it claims for others has none. */
import type { Lease } from 'holdfast'
import { expect, expectTypeOf, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('the lease of a handle’s own claim is not null, whatever is claimed [S5-24]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
    for (const key of ['T-1', 'T-2', 'T-3']) await hf.tasks.addTask(key, { key })

    const claims = [
      await q.next(),
      await hf.queue('main').nextWithLock({ leaseMs: 5_000 }),
      await hf.tasks.claimNext({ waitMs: 0 }),
      await hf.tasks.claimTaskForAgent('T-2'),
      await hf.locks.acquireLock('press', { reason: 'test' }),
      await hf.locks.reserve('src/**'),
      await hf.queue('jobs').acquireProcessingLock(),
    ]
    const many = await q.claimMany(1)
    const batch = await hf.tasks.batchClaim(['T-3'])

    for (const claim of claims) {
      if (claim.outcome !== 'claimed' && claim.outcome !== 'acquired') expect.fail(`it was ${claim.outcome}`)
      expectTypeOf(claim.lease).toEqualTypeOf<Lease>()
      claim.lease.assertHeld()
    }
    if (many.outcome !== 'claimed' || batch.outcome !== 'claimed') expect.fail('all can be claimed')
    for (const { lease } of [...many.items, ...batch.tasks]) {
      expectTypeOf(lease).toEqualTypeOf<Lease>()
      lease.assertHeld()
    }
  })

  test('a claim for another agent, or one that nobody renews, has none [S5-24]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2 }])

    const claims = [
      await q.next({ agent: 'bob' }),
      await q.next({ renew: false }),
      await hf.locks.acquireLock('press', { agent: 'bob' }),
    ]

    for (const claim of claims) {
      if (claim.outcome !== 'claimed' && claim.outcome !== 'acquired') expect.fail(`it was ${claim.outcome}`)
      expectTypeOf(claim.lease).toEqualTypeOf<Lease | null>()
      expect(claim.lease).toBeNull()
    }
  })
})
