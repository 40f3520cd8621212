/** A process proven dead loses its bound leases at once; no other lease ends early. */
import { expect, test } from 'vitest'
import { claimed, claimedWithLock } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('what a dead process held is free within a second, long before its lease lapses [Q13]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const victim = await store.open({ agent: 'victim', environment: host.process(101), leaseMs: 3_600_000 })
    const survivor = await store.open({ agent: 'survivor', environment: host.process(102) })
    const q = survivor.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })
    await claimedWithLock(victim.queue('main').nextWithLock())
    await env.advance(2_000)
    const before = await q.get('w1')

    host.kill(101)
    await env.advance(1_000)

    expect(before).toMatchObject({ holder: 'victim' })
    expect(await q.get('w1')).toMatchObject({ state: 'pending', crashes: 1 })
    expect(await q.getProcessingLock()).toBeNull()
    expect((await q.events('w1')).find(({ kind }) => kind === 'item.reclaimed')).toMatchObject({
      detail: { holder: 'victim', evidence: 'process 101 is gone', trigger: 'death' },
    })
  })

  test('many items of a dead process are all reclaimed, and only then is it marked as ended [Q13]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const victim = await store.open({ agent: 'victim', environment: host.process(101) })
    const survivor = await store.open({ agent: 'survivor', environment: host.process(102) })
    const q = survivor.queue('jobs')
    await q.addMany(Array.from({ length: 250 }, (_, number) => ({ payload: number })))
    for (const limit of [100, 100, 50]) await victim.queue('jobs').claimMany(limit)

    host.kill(101)
    await env.advance(1_000)

    expect(await q.stats()).toMatchObject({ pending: 250, processing: 0 })
  })

  test('a manual lease made through a process that died lasts until it lapses [Q13]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const victim = await store.open({ agent: 'victim', environment: host.process(101) })
    const survivor = await store.open({ agent: 'survivor', environment: host.process(102) })
    const q = survivor.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    const forAnother = await claimed(victim.queue('jobs').next({ agent: 'a-person', leaseMs: 5_000 }))
    const unrenewed = await claimed(victim.queue('jobs').next({ renew: false, leaseMs: 5_000 }))

    host.kill(101)
    await env.advance(5_000)
    const inTime = await q.stats()
    await env.advance(6_000)

    expect([forAnother.lease, unrenewed.lease]).toEqual([null, null])
    expect(inTime).toMatchObject({ processing: 2 })
    expect(await q.stats()).toMatchObject({ processing: 0, pending: 2 })
  })

  test('with probing off, a dead process is noticed only when its lease lapses [Q13]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const recovery = { probeEveryMs: 0 }
    const victim = await store.open({ agent: 'victim', environment: host.process(101), recovery })
    const survivor = await store.open({ agent: 'survivor', environment: host.process(102), recovery })
    const q = survivor.queue('jobs')
    await q.add(null)
    await claimed(victim.queue('jobs').next())

    host.kill(101)
    await env.advance(10_000)

    expect(await q.stats()).toMatchObject({ processing: 1 })
  })

  test('a live process that renews never loses its leases, however long it works [Q13]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const worker = await store.open({
      agent: 'worker',
      environment: host.process(101),
      leaseMs: 3_000,
      ...rareProbes,
    })
    const rival = await store.open({ agent: 'rival', environment: host.process(102) })
    await worker.queue('jobs').add(null)
    const { item, lease } = await claimed(worker.queue('jobs').next())

    await env.advance(120_000)
    const taken = await rival.queue('jobs').next()

    expect(taken.outcome).toBe('empty')
    expect(lease?.isHeld).toBe(true)
    expect(await rival.queue('jobs').get(item.id)).toMatchObject({
      holder: 'worker',
      crashes: 0,
      attempts: 1,
    })
  })
})
