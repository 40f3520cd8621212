/** The lease clock of a SQLite store is that of its host and sleeps with it; a server's goes on without its clients. */
import { expect, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a host that sleeps takes no lease and lets none run out', async () => {
    const { hf, env, store } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    const bound = await claimed(q.next())
    const manual = await claimed(q.next({ agent: 'worker-1', leaseMs: 60_000 }))

    env.suspend(8 * 3_600_000)
    const rival = (await store.open({ agent: 'rival' })).queue('jobs')
    await env.advance(1_000)

    expect((await rival.next()).outcome).toBe('empty')
    expect(bound.lease?.isHeld).toBe(true)
    expect(await q.get(manual.item.id)).toMatchObject({
      holder: 'worker-1',
      lease: { remainingMs: 59_000 },
    })
  })
})
