/** Opening and closing stores. */
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('acknowledged changes are there for the next handle, and for the next one after a close', async () => {
    const { hf, store } = await engine.open()
    const { item } = await hf.queue('jobs').add({ a: 1 }, { key: 'k' })

    const beside = await store.open()
    const seen = await beside.queue('jobs').get('k')
    await hf.close()
    await beside.close()
    const after = await store.open()

    expect(seen).toEqual(item)
    expect(await after.queue('jobs').get('k')).toEqual(item)
  })

  test('handles opened at once on a new store all get it, and it is created once', async () => {
    const store = await engine.prepare()

    const handles = await Promise.all(Array.from({ length: 5 }, () => store.open()))
    await Promise.all(handles.map((hf, number) => hf.queue('jobs').add(number)))

    expect(await handles[0]?.queue('jobs').stats()).toMatchObject({ total: 5 })
  })

  test('a store that must exist is refused while there is none, and nothing is created [S6-E2]', async () => {
    const store = await engine.prepare()
    const refusals = []
    for (const background of [false, true])
      refusals.push(await refusal(() => store.open({ mustExist: true, background })))
    await store.open()

    const found = await store.open({ mustExist: true })

    expect(refusals.map(({ code }) => code)).toEqual(['NOT_FOUND', 'NOT_FOUND'])
    expect(refusals[0]?.message).toContain('there is no store')
    expect(await found.queue('jobs').add(1)).toMatchObject({ position: 1 })
  })

  test('a handle closed twice at once, and once more by `await using`, is closed once', async () => {
    const { hf, store } = await engine.open()
    await hf.queue('jobs').add(null)

    await Promise.all([hf.close(), hf.close(), hf[Symbol.asyncDispose]()])

    const kinds = (await readFeed(await store.open())).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'instance.ended')).toHaveLength(1)
  })

  test('closing a handle releases at once what it holds, lock and items', async () => {
    const { hf, store } = await engine.open()
    const leaving = await store.open({ agent: 'leaving' })
    const merges = leaving.queue('main', { workflow: 'merge' })
    await merges.submit('w1', { headSha: 'abcd' })
    await merges.nextWithLock()
    await leaving.queue('jobs').add(null, { key: 'k' })
    const { lease } = await claimed(leaving.queue('jobs').next())

    await leaving.close()

    expect(await hf.queue('main').get('w1')).toMatchObject({ state: 'pending', crashes: 0 })
    expect(await hf.queue('main').getProcessingLock()).toBeNull()
    expect(await hf.queue('jobs').get('k')).toMatchObject({ state: 'pending', crashes: 0 })
    expect(lease?.signal.aborted).toBe(true)
  })

  test('a claim in flight when its handle is closed is released with the rest', async () => {
    const { hf, store } = await engine.open()
    const leaving = await store.open({ agent: 'leaving' })
    await leaving.queue('jobs').add(null, { key: 'k' })

    const claiming = claimed(leaving.queue('jobs').next())
    await leaving.close()

    const { lease } = await claiming
    expect(lease?.signal.aborted).toBe(true)
    expect(await hf.queue('jobs').get('k')).toMatchObject({ state: 'pending', crashes: 0 })
  })

  test('a handle that cannot release what it holds renews none of it after its close', async () => {
    const { hf, store } = await engine.open({ recovery: false })
    const leaving = await store.open({ agent: 'leaving' })
    await leaving.queue('jobs').add(null, { key: 'k' })
    const { lease } = await claimed(leaving.queue('jobs').next())
    const mend = await store.damage.failItems()

    const code = await refusalCode(() => leaving.close())
    await mend()

    expect(code).toBe('INTERNAL')
    expect(lease?.signal.aborted).toBe(true)
    expect(await hf.queue('jobs').get('k')).toMatchObject({ holder: 'leaving' })
  })

  test('closing a handle leaves leases it took for others alone', async () => {
    const { hf, store } = await engine.open()
    const leaving = await store.open({ agent: 'leaving' })
    await leaving.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
    const forOther = await claimed(leaving.queue('jobs').next({ agent: 'worker-1' }))
    const manual = await claimed(leaving.queue('jobs').next({ renew: false }))

    await leaving.close()

    expect(await hf.queue('jobs').get(forOther.item.id)).toMatchObject({ holder: 'worker-1' })
    expect(await hf.queue('jobs').get(manual.item.id)).toMatchObject({ holder: 'leaving' })
  })

  test('a handle without background work takes manual leases that nobody renews', async () => {
    const { hf, env } = await engine.open({ background: false, agent: 'one-shot' })
    await hf.queue('jobs').add(null)

    const { item, lease } = await claimed(hf.queue('jobs').next())
    await env.advance(300_001)

    expect(lease).toBeNull()
    expect(item.lease).toMatchObject({ agent: 'one-shot', instance: null, leaseMs: 300_000 })
    expect((await claimed(hf.queue('jobs').next())).item).toMatchObject({ id: item.id, crashes: 1 })
  })
})
