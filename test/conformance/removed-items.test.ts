/** An item that was removed from under its holder: the holder has lost its lease, whatever it does next. */
import { describe, expect, test } from 'vitest'
import { claimed, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('after its item was removed by force', () => {
    test.each(['the id', 'the key'])(
      'a holder that names %s gets false from its release [S5c-46]',
      async (by) => {
        const { q, item, lease, operator } = await holding(engine)
        await operator.remove(item.id, { force: true })

        const released = await q.release(by === 'the id' ? item.id : 'k')

        expect(released).toBe(false)
        expect(lease?.signal.aborted).toBe(true)
        expect(() => lease?.assertHeld()).toThrow()
      },
    )

    test.each([
      ['completes', 'complete'],
      ['fails', 'fail'],
      ['renews', 'renew'],
      ['moves', 'move'],
      ['reports progress on', 'progress'],
    ] as const)('a holder that %s it gets LEASE_LOST [S5c-46]', async (_, act) => {
      const { q, item, lease, operator } = await holding(engine)
      await operator.remove(item.id, { force: true })
      const acts = {
        complete: () => q.complete(item.id),
        fail: () => q.fail(item.id, 'no'),
        renew: () => q.renew(item.id),
        move: () => q.move(item.id, 'done'),
        progress: () => q.progress(item.id, 1),
      }

      const code = await refusalCode(acts[act])

      expect(code).toBe('LEASE_LOST')
      expect(lease?.signal.aborted).toBe(true)
    })

    test('a manual holder that gives its token gets the same answer [S5c-46]', async () => {
      const { q, operator } = await holding(engine)
      const { item } = await claimed(q.next({ agent: 'bob' }))
      await operator.remove(item.id, { force: true })
      const options = { agent: 'bob', token: item.token }

      const code = await refusalCode(() => q.complete(item.id, options))

      expect([code, await q.release(item.id, options)]).toEqual(['LEASE_LOST', false])
    })

    test('a merge worker gets the same answer from every call [S5c-46]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const { item } = await claimed(q.nextWithLock({ agent: 'bob' }))
      await q.remove('w1', { force: true })
      const by = { agent: 'bob', token: item.token }

      const codes = await Promise.all([
        refusalCode(() => q.updateRebaseMetadata('w1', { ...by, headSha: 'abcd', testedAgainstSha: 'base' })),
        refusalCode(() => q.returnToRebasing('w1', 'base', by)),
        refusalCode(() => q.beginMerge('w1', by)),
        refusalCode(() => q.completeMerge('w1', 'beef', by)),
        refusalCode(() => q.failMerge('w1', 'no', by)),
      ])

      expect(new Set(codes)).toEqual(new Set(['LEASE_LOST']))
    })

    test('the holder of a task gets the same answer [S5c-46]', async () => {
      const { hf, store } = await engine.open()
      const operator = (await store.open()).queue('tasks')
      const { tasks } = hf
      for (const key of ['t1', 't2', 't3', 't4', 't5']) await tasks.addTask(key, { key })
      const claim = await tasks.batchClaim(['t1', 't2', 't3', 't4', 't5'])
      if (claim.outcome !== 'claimed') expect.fail(claim.outcome)
      const ids = claim.tasks.map(({ task }) => task.id)
      for (const id of ids) await operator.remove(id, { force: true })
      const [first, second, third, fourth, fifth] = ids as [string, string, string, string, string]

      const codes = [
        await refusalCode(() => tasks.completeTask(first)),
        await refusalCode(() => tasks.reviewTask(second)),
        await refusalCode(() => tasks.renewLease(third)),
        await refusalCode(() => tasks.updateTask(fourth, { progress: 1 })),
      ]

      expect(codes).toEqual(codes.map(() => 'LEASE_LOST'))
      expect(await tasks.releaseTask(fifth)).toBe(false)
    })

    test('a call without a token gets NOT_FOUND [S5c-46]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add(null)

      const codes = [
        await refusalCode(() => q.complete('nothing')),
        await refusalCode(() => q.release('nothing')),
      ]

      expect(codes).toEqual(['NOT_FOUND', 'NOT_FOUND'])
    })
  })
})

async function holding(engine: Engine) {
  const { hf, store, env } = await engine.open()
  const q = hf.queue('jobs')
  await q.add(null, { key: 'k' })
  await q.add(null)
  const { item, lease } = await claimed(q.next())
  return { q, item, lease, env, operator: (await store.open()).queue('jobs') }
}
