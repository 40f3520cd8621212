/** Submitting a change: the five cases, their bounds and their races. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { walkTo } from '../support/merge.ts'
import { claimedWithLock, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a submitted change', () => {
    test('is new when nobody has its key [Q4]', async () => {
      const { q } = await openMerge(engine)

      const { outcome, item, position, totalPending } = await q.submit('w1', {
        headSha: 'aaaa',
        bead: 'bd-1',
      })

      expect({ outcome, position, totalPending }).toEqual({ outcome: 'new', position: 1, totalPending: 1 })
      expect(item).toMatchObject({
        key: 'w1',
        dedupeKey: 'workspace:w1',
        state: 'pending',
        data: { headSha: 'aaaa', bead: 'bd-1' },
      })
    })

    test('moves only the head of an open item of the same workspace [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', bead: 'bd-1', priority: 3, payload: { a: 1 } })

      const { outcome, item } = await q.submit('w1', { headSha: 'bbbb', priority: 9, payload: { b: 2 } })

      expect(outcome).toBe('updated')
      expect(item).toMatchObject({ priority: 3, payload: { a: 1 }, data: { headSha: 'bbbb', bead: 'bd-1' } })
    })

    test('is refused while its key is open under another workspace [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })

      const code = await refusalCode(() => q.submit('w2', { headSha: 'aaaa', dedupeKey: 'repo:c1' }))

      expect(code).toBe('DUPLICATE')
    })

    test('is refused while its workspace is open under another key [Q4] [E-21]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })

      const refused = await refusal(() => q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c2' }))

      expect(refused).toMatchObject({ code: 'DUPLICATE', facts: { field: 'key', value: 'w1' } })
    })

    test.each(['merged', 'failed_terminal', 'cancelled'] as const)(
      'starts a %s item of the same workspace over, as if it were new [Q4]',
      async (closed) => {
        const { q, env } = await openMerge(engine)
        const first = await q.submit('w1', { headSha: 'aaaa', bead: 'bd-1', priority: 3 })
        await close(q, closed)
        await env.advance(10)

        const { outcome, item } = await q.submit('w1', { headSha: 'bbbb', bead: 'bd-2', priority: 4 })

        expect(outcome).toBe('resubmitted')
        expect(item).toMatchObject({
          id: first.item.id,
          state: 'pending',
          standing: 'ready',
          priority: 4,
          attempts: 0,
          failures: 0,
          holder: null,
          lease: null,
          startedAt: null,
          closedAt: null,
          outcome: null,
          error: null,
          cancelRequestedAt: null,
          addedAt: env.now(),
          previousState: closed,
        })
        expect(item.data).toEqual({ headSha: 'bbbb', bead: 'bd-2' })
      },
    )

    test('takes a closed key over for another workspace, as an item of its own [Q4]', async () => {
      const { q } = await openMerge(engine)
      const first = await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'repo:c1' })
      await close(q, 'merged')

      const { outcome, item } = await q.submit('w2', { headSha: 'bbbb', dedupeKey: 'repo:c1' })

      expect(outcome).toBe('new')
      expect(item.id).not.toBe(first.item.id)
      expect(await q.get('w1')).toMatchObject({ state: 'merged' })
    })

    test('sends a holder that tested the old head back to rebasing [Q4] [Q21]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock({ agent: 'worker-1' })
      await walkTo(q, 'w1', 'ready_to_merge', { agent: 'worker-1' })

      const { outcome } = await q.submit('w1', { headSha: 'bbbb' })

      expect(outcome).toBe('updated')
      expect(await q.isFresh('w1', 'base01')).toBe(false)
      expect(await q.returnToRebasing('w1', 'base01', { agent: 'worker-1' })).toMatchObject({
        state: 'rebasing',
        data: { headSha: 'bbbb' },
      })
    })

    test('cannot change the head of a merge under way, and says who merges [Q4]', async () => {
      const { q } = await openMerge(engine)
      await q.submit('w1', { headSha: 'aaaa' })
      await q.nextWithLock({ agent: 'worker-1' })
      await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })

      const refused = await refusal(() => q.submit('w1', { headSha: 'bbbb' }))

      expect(refused).toMatchObject({ code: 'HELD', facts: { holder: 'worker-1' } })
    })

    test.each([
      { fault: 'a head of three letters', key: 'w1', options: { headSha: 'abc' } },
      { fault: 'a head that is no id', key: 'w1', options: { headSha: '../../x' } },
      { fault: 'a key without a colon', key: 'w1', options: { headSha: 'abcd', dedupeKey: 'plain' } },
      { fault: 'a workspace that climbs', key: '../w1', options: { headSha: 'abcd' } },
      { fault: 'an empty workspace', key: '', options: { headSha: 'abcd' } },
    ])('with $fault is INVALID and leaves nothing [Q4]', async ({ key, options }) => {
      const { q } = await openMerge(engine)

      const code = await refusalCode(() => q.submit(key, options))

      expect(code).toBe('INVALID')
      expect((await q.list()).items).toEqual([])
    })
  })

  test('racing submits of one key from several workspaces leave one of them open [Q4] [E-21]', async () => {
    const { store } = await openMerge(engine)
    const queues = await Promise.all(
      [1, 2, 3].map(async () => (await store.open()).queue('main', { workflow: 'merge' })),
    )

    const answers = await Promise.allSettled(
      queues.flatMap((q, handle) =>
        Array.from({ length: 5 }, (_, number) =>
          q.submit(`w${handle}-${number}`, { headSha: 'aaaa', dedupeKey: 'repo:c1' }),
        ),
      ),
    )

    const refused = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []))
    expect(answers.length - refused.length).toBe(1)
    expect(new Set(refused)).toEqual(new Set(['DUPLICATE']))
  })

  test('racing resubmissions of a closed change start it over once [Q4]', async () => {
    const { q, store } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })
    await q.cancel('w1')
    const other = (await store.open()).queue('main')

    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, number) => (number % 2 ? q : other).submit('w1', { headSha: 'aaaa' })),
    )

    expect(answers.filter(({ outcome }) => outcome === 'resubmitted')).toHaveLength(1)
    expect(await q.stats()).toMatchObject({ total: 1, pending: 1 })
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function close(q: Queue, state: 'merged' | 'failed_terminal' | 'cancelled'): Promise<void> {
  const holder = { agent: 'worker-1' }
  const { item } = await claimedWithLock(q.nextWithLock(holder))
  if (state === 'cancelled') await q.cancel(item.id)
  if (state === 'failed_terminal') await q.fail(item.id, 'no', holder)
  if (state !== 'merged') return
  await walkTo(q, item.id, 'merging', holder)
  await q.completeMerge(item.id, 'beef02', holder)
}
