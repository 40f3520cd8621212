/** A processing lock stands for the claim that was made with it, not for later claims of the same item. */
import type { Holdfast, Queue } from 'holdfast'
import { expect, test } from 'vitest'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** Two processes of one agent: the first has kept its lock, and the second has claimed the item that it gave back. */
async function aSuccession(engine: Engine, { background }: { background: boolean }) {
  const { hf, store } = await engine.open({ agent: 'ci', background })
  const [first, second] = [hf, await store.open({ agent: 'ci', background })].map(buildsOf) as [Queue, Queue]
  const { item } = await first.add('the only one')
  const claim = await first.nextWithLock({ leaseMs: 10_000 })
  await first.release(item.id)
  const successor = await second.nextWithLock({ leaseMs: 10_000 })
  if (claim.outcome !== 'claimed' || successor.outcome !== 'claimed') expect.fail('both have claimed it')
  return { first, second, lock: claim.lock?.lease, id: item.id }
}

function buildsOf(hf: Holdfast): Queue {
  return hf.queue('builds', { slots: 2 })
}

forEachEngine((engine) => {
  test.each([{ background: true }, { background: false }])(
    'a holder that calls again is not given the item of its successor, with $background renewal [Q2]',
    async (options) => {
      const { first, second } = await aSuccession(engine, options)

      const none = await first.nextWithLock()
      const { item } = await second.add('another')
      const other = await first.nextWithLock()

      expect(none).toMatchObject({ outcome: 'empty' })
      expect(other).toMatchObject({ outcome: 'claimed', item: { id: item.id } })
    },
  )

  test('extending or renewing its lock does not touch the lease of its successor [Q9]', async () => {
    const { first, id } = await aSuccession(engine, { background: false })
    const before = await first.get(id)

    await first.extendLock({ extraMs: 60_000 })
    await first.renewLock({ leaseMs: 600_000 })

    expect(await first.get(id)).toEqual(before)
  })

  test('cancelling an item ends the lock it is held with and no other', async () => {
    const { first, second, lock, id } = await aSuccession(engine, { background: false })

    await second.cancel(id)

    expect((await first.getProcessingLock())?.lease.token).toBe(lock?.token)
    expect(await first.releaseProcessingLock()).toBe(true)
    expect(await first.getProcessingLock()).toBeNull()
  })

  test('an item claimed again without the lock is not returned with it', async () => {
    const { hf } = await engine.open({ agent: 'ci' })
    const queue = hf.queue('jobs')
    const { item } = await queue.add('the only one')
    await queue.nextWithLock()
    await queue.release(item.id)
    await queue.next()

    expect(await queue.nextWithLock()).toMatchObject({ outcome: 'empty' })
  })
})
