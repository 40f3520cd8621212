/** Warnings that a lease is near its end: each once, and at no cost when there are none. */
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { openPost } from '../support/messages.ts'
import { claimed, claimedMany, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('many leases near their end are all warned of, each once, a hundred per transaction [T10]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs')
    await q.addMany(Array.from({ length: 250 }, (_, number) => ({ payload: number })))
    for (let held = 0; held < 250; held += 50)
      await claimedMany(q.claimMany(50, { agent: 'crowd', leaseMs: 60_000 }))

    await env.advance(58_000)

    const warnings = (await readFeed(hf)).filter(({ kind }) => kind === 'item.expiring')
    expect(warnings).toHaveLength(250)
    expect(new Set(warnings.map(({ id }) => id)).size).toBe(250)
    const leases = warnings.map(({ id, token }) => ({ kind: 'item' as const, id, token: token as number }))
    expect(await refusalCode(() => hf.execute('lease.warnNear', { leases }))).toBe('INVALID')
  })

  test('a sweep without new warnings writes nothing for them', async () => {
    const { env, store } = await engine.open({ background: false })
    let transactions = 0
    const environment = {
      ...machine(env).process(7),
      reached(point: string) {
        if (point === 'transaction.begun') transactions++
      },
    }
    const hf = await store.open({ agent: 'ada', environment, redelivery: false })
    await hf.queue('jobs').add(null)
    await claimed(hf.queue('jobs').next({ agent: 'slow', leaseMs: 200_000 }))
    await env.advance(145_000)
    const told = (await readFeed(hf)).filter(({ kind }) => kind === 'item.expiring')
    transactions = 0

    await env.advance(20_000)

    expect(told).toHaveLength(1)
    // One for each sweep, which heals.
    expect(transactions).toBeLessThanOrEqual(5)
  })

  test('if two processes find the same lease at once, one warns', async () => {
    const { hf, env } = await engine.open({ agent: 'ada', background: false })
    await hf.queue('jobs').add(null)
    await claimed(hf.queue('jobs').next({ leaseMs: 3_000 }))
    await env.advance(2_500)
    const leases = await hf.execute('lease.listNear', {})

    const told = await Promise.all([1, 2].map(() => hf.execute('lease.warnNear', { leases })))
    const gone = { kind: 'item', id: 'no such item', token: 1 } as const

    expect(leases).toHaveLength(1)
    expect(told.toSorted()).toEqual([0, 1])
    expect(await hf.execute('lease.warnNear', { leases: [gone] })).toBe(0)
    expect(await hf.execute('lease.listNear', {})).toEqual([])
  })

  test('a delivery whose sender is slow is warned of before its lease ends [A8]', async () => {
    const post = await openPost(engine, { background: true, ...rareProbes })
    post.messages.adapter('slow', { timeoutMs: 60_000, send: () => new Promise<never>(() => {}) })
    await post.messages.register('bob', { adapter: 'slow', agent: 'bob' })
    const { message } = await post.messages.sendWithAck('bob', { content: 1 })

    await post.env.advance(170_000)

    const warnings = (await readFeed(post.hf)).filter(({ kind }) => kind === 'delivery.expiring')
    expect(warnings).toMatchObject([
      { subject: 'delivery', id: `${message.id}/0`, version: null, detail: { holder: 'alice' } },
    ])
  })
})
