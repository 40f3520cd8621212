/** A completion that is repeated is answered like the first one, and only to the holder that made it. */
import { describe, expect, test } from 'vitest'
import { walkTo } from '../support/merge.ts'
import { claimed, claimedMany, claimedWithLock, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('completing an item again', () => {
    test.each([
      ['its id', {}],
      ['its key', {}],
      ['its id, for another agent', { agent: 'bob' }],
      ['its key, for another agent', { agent: 'bob' }],
    ])('by %s succeeds on the same handle without a token [S5c-44]', async (by, options) => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'k' })
      const { item } = await claimed(q.next(options))
      const ref = by.startsWith('its id') ? item.id : 'k'
      const first = await q.complete(ref, { ...options, result: 1 })

      const again = await q.complete(ref, { ...options, result: 2 })

      expect(again).toMatchObject({ id: item.id, state: 'done', result: 1, version: first.version })
      expect((await q.events(item.id)).filter(({ kind }) => kind === 'item.completed')).toHaveLength(1)
    })

    test('after completeMerge succeeds too [S5c-44]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await claimedWithLock(q.nextWithLock())
      await walkTo(q, 'w1', 'merging', {})
      const first = await q.completeMerge('w1', 'beef02')

      const again = await q.completeMerge('w1', 'beef02')

      expect(again).toMatchObject({ state: 'merged', version: first.version })
    })

    test('is refused to another agent, and on a handle that did not complete it [S5c-44]', async () => {
      const { q, store } = await openJobs(engine)
      await q.add(null, { key: 'k' })
      const { item } = await claimed(q.next())
      await q.complete(item.id)
      const other = (await store.open()).queue('jobs')

      const codes = [
        await refusalCode(() => q.complete(item.id, { agent: 'eve' })),
        await refusalCode(() => other.complete(item.id)),
      ]

      expect(codes).toEqual(['LEASE_LOST', 'LEASE_LOST'])
    })

    test('is answered for the last 1,000 completions, and refused once it is long forgotten [S5c-44]', async () => {
      const { q } = await openJobs(engine)
      const completed: string[] = []
      // One more than two generations of 1,000, so that the first has just been dropped.
      for (const count of [1_000, 1_000, 1]) {
        await q.addMany(Array.from({ length: count }, () => ({ payload: null })))
        for (let left = count; left > 0; left -= 100) {
          const items = await claimedMany(q.claimMany(100))
          completed.push(...items.map(({ id }) => id))
          await Promise.all(items.map(({ id }) => q.complete(id)))
        }
      }

      const oldestOf1000 = await q.complete(completed.at(-1_000) as string)
      const forgotten = await refusalCode(() => q.complete(completed[0] as string))

      expect(completed).toHaveLength(2_001)
      expect(oldestOf1000).toMatchObject({ state: 'done' })
      expect(forgotten).toBe('LEASE_LOST')
    })

    test('is refused once the item was reopened [S5c-44]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await claimedWithLock(q.nextWithLock())
      await walkTo(q, 'w1', 'merging', {})
      await q.completeMerge('w1', 'beef02')
      await q.submit('w1', { headSha: 'bbbb' })

      const code = await refusalCode(() => q.completeMerge('w1', 'beef02'))

      expect(code).toBe('LEASE_LOST')
      expect(await q.get('w1')).toMatchObject({ state: 'pending' })
    })
  })
})

async function openJobs(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('jobs') }
}
