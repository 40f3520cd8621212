/** Finished items are removed automatically after their time; open or needed ones never are. */
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { claimed } from '../support/outcomes.ts'
import { dayMs, hourMs, retainFor } from '../support/retention.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('finished items are removed after seven days, open ones never, and their events stay [Q26] [X2]', async () => {
    const { hf, env } = await engine.open({ background: false })
    const q = hf.queue('jobs')
    await q.add(null, { key: 'open', priority: 9 })
    const { item } = await q.add(null, { key: 'done' })
    await q.next({ agent: 'worker-1' })
    await q.complete('done', { agent: 'worker-1' })

    await env.advance(7 * dayMs - 2 * hourMs)
    await retainFor(2, { hf, env })
    const within = await q.get('done')
    await retainFor(2, { hf, env })

    expect(within).toMatchObject({ state: 'done' })
    expect(await q.get('done')).toBeNull()
    expect(await q.get('open')).toMatchObject({ state: 'pending' })
    expect((await q.events(item.id)).map(({ kind }) => kind)).toContain('item.completed')
  })

  test('what finished first is removed first, whichever queue it is in [S5-25] [Q26]', async () => {
    const { hf, env } = await engine.open({ background: false })
    const finish = async (queue: string, count: number) => {
      const { ids } = await hf.queue(queue).addMany(Array.from({ length: count }, () => ({ payload: 1 })))
      await Promise.all(ids.map((id) => hf.queue(queue).cancel(id)))
      await env.advance(10)
    }
    await finish('z', 300)
    await finish('a', 300)
    await finish('m', 100)

    const removed = await hf.execute('queue.cleanup', { maxAgeMs: 0 })

    const left = await Promise.all(['z', 'a', 'm'].map(async (name) => (await hf.queue(name).stats()).total))
    const gone = (await readFeed(hf)).filter(({ kind }) => kind === 'item.removed').map(({ queue }) => queue)
    expect(removed).toEqual({ removed: 500, more: true })
    expect(left).toEqual([0, 100, 100])
    expect(gone).toEqual([...Array(300).fill('z'), ...Array(200).fill('a')])
  })

  test('the period can be changed, and 0 keeps everything', async () => {
    const { env, store } = await engine.open({ background: false })
    const brief = await store.open({ namespace: 'brief', retention: { itemsMs: 1_000 }, ...rareProbes })
    const keeping = await store.open({ namespace: 'keeping', retention: { itemsMs: 0 }, ...rareProbes })
    for (const hf of [brief, keeping]) {
      await hf.queue('jobs').add(null, { key: 'k' })
      await hf.queue('jobs').cancel('k')
    }

    await env.advance(260_000)

    expect(await brief.queue('jobs').get('k')).toBeNull()
    expect(await keeping.queue('jobs').get('k')).toMatchObject({ state: 'cancelled' })
  })

  test('items that others still wait for are kept', async () => {
    const { hf, env } = await engine.open({ retention: { itemsMs: 1_000 }, ...rareProbes })
    const q = hf.queue('jobs')
    await q.add(null, { key: 'parent' })
    await q.add(null, { key: 'child', parent: 'parent' })
    await q.cancel('parent')

    await env.advance(260_000)

    expect(await q.get('parent')).toMatchObject({ state: 'cancelled' })
  })

  test('removing many takes several transactions, so that others do not wait long', async () => {
    const { hf, env } = await engine.open({ retention: { itemsMs: 1_000 }, ...rareProbes })
    const q = hf.queue('jobs')
    const { ids } = await q.addMany(Array.from({ length: 450 }, () => ({ payload: null })))
    await Promise.all(ids.map((id) => q.cancel(id)))
    await q.add('open')

    await env.advance(260_000)

    expect(await q.stats()).toMatchObject({ total: 1 })
    expect((await claimed(q.next())).item.payload).toBe('open')
    expect((await readFeed(hf)).filter(({ kind }) => kind === 'item.removed')).toHaveLength(450)
  })
})
