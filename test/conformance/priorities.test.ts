/** Order of service, and changing it. */
import { expect, test } from 'vitest'
import { claimed, claimedMany, refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('items are served by priority, then age, then id [Q5]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany([{ payload: 'c1' }, { payload: 'c2' }])
    await env.advance(5)
    await q.addMany([{ payload: 'd' }, { payload: 'b', priority: 4 }])
    await q.add('a', { priority: 0 })

    const order = (await claimedMany(q.claimMany(9, { agent: 'w' }))).map(({ payload }) => payload)

    expect(order).toEqual(['a', 'b', 'c1', 'c2', 'd'])
  })

  test('a change of priority moves the item in line and is audited with the old one [Q5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add('first', { key: 'first' })
    await q.add('second', { key: 'second' })

    const changed = await q.setPriority('second', 1, { reason: 'customer waits', agent: 'boss' })

    expect(changed).toMatchObject({ priority: 1, version: 2 })
    expect([await q.position('second'), await q.position('first')]).toEqual([1, 2])
    expect((await claimed(q.next())).item.key).toBe('second')
    expect((await q.events('second')).find(({ kind }) => kind === 'item.prioritized')).toMatchObject({
      agent: 'boss',
      change: { priority: 1 },
      detail: { from: 5, reason: 'customer waits' },
    })
  })

  test('setting an item’s current priority changes nothing [Q5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { priority: 3 })

    expect(await q.setPriority(item.id, 3)).toEqual(item)
    expect(await q.events(item.id)).toHaveLength(1)
  })

  test('changing the priority of an old version is refused with both versions [Q5] [Q18]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    await q.setPriority(item.id, 3)

    const refused = await refusal(() => q.setPriority(item.id, 4, { expectedVersion: 1 }))

    expect(refused).toMatchObject({ code: 'VERSION_MISMATCH', facts: { expected: 1, current: 2 } })
  })

  test('a reclaimed item returns to its old position, ahead of younger ones [Q5] [Q15]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    await q.add('old')
    await env.advance(1)
    await q.add('young')
    await q.next({ agent: 'worker-1', leaseMs: 100 })
    await env.advance(101)

    expect((await claimed(q.next({ agent: 'worker-2' }))).item.payload).toBe('old')
  })
})
