/** A paused queue: no new claims, everything else goes on. */
import { expect, test } from 'vitest'
import { claimed, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('no kind of claim takes anything from a paused queue, and each says why', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null)

    const paused = await q.pause({ reason: 'deploying' })

    const answer = { outcome: 'paused', reason: 'deploying' }
    expect(paused).toBe(true)
    expect(await q.next()).toEqual(answer)
    expect(await q.nextWithLock()).toEqual(answer)
    expect(await q.claimMany(5)).toEqual(answer)
    expect(await q.stats()).toMatchObject({ paused: true, pending: 1 })
  })

  test('items held when their queue is paused are still finished', async () => {
    const { hf, env } = await engine.open(rareProbes)
    const q = hf.queue('jobs')
    await q.add(null)
    const { item, lease } = await claimed(q.next())
    await q.pause()

    await env.advance(60_000)
    const done = await q.complete(item.id)

    expect(lease?.signal.aborted).toBe(false)
    expect(done.state).toBe('done')
  })

  test('a holder that asks again while its queue is paused gets its unfinished item, and nothing new', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })
    await q.submit('w2', { headSha: 'abcd' })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.pause()

    const again = await claimed(q.nextWithLock({ agent: 'worker-1' }))
    await q.fail('w1', 'done with', { agent: 'worker-1' })

    expect(again.item.key).toBe('w1')
    expect((await q.nextWithLock({ agent: 'worker-1' })).outcome).toBe('paused')
  })

  test('a paused queue accepts new items, heals, and serves everything once resumed', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    await q.add('before')
    await q.next({ agent: 'worker-1', leaseMs: 1_000 })
    await q.pause()
    await q.add('during')
    await env.advance(7_000)
    const healed = await q.stats()

    await q.resume()

    expect(healed).toMatchObject({ processing: 0, pending: 2 })
    expect((await claimed(q.next())).item.payload).toBe('before')
    expect((await claimed(q.next())).item.payload).toBe('during')
  })

  test('pausing twice and resuming twice report no change, and leave one event each', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add(null)

    const answers = [await q.pause(), await q.pause(), await q.resume(), await q.resume()]

    expect(answers).toEqual([true, false, true, false])
    const kinds: string[] = []
    for await (const { kind } of hf.events()) {
      kinds.push(kind)
      if (kind === 'queue.resumed') break
    }
    expect(kinds.filter((kind) => kind === 'queue.paused')).toHaveLength(1)
  })

  test('a resumed queue wakes its worker', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    await q.add('work')
    await q.pause()
    const seen: unknown[] = []
    const worker = hf.work(q, (item) => {
      seen.push(item.payload)
    })
    await env.advance(3_000)
    const before = [...seen]

    await q.resume()
    await env.advance(0)
    await worker.stop()

    expect([before, seen]).toEqual([[], ['work']])
  })

  test('a pause does not affect other queues', async () => {
    const { hf } = await engine.open()
    await hf.queue('paused').add(null)
    await hf.queue('open').add(null)

    await hf.queue('paused').pause()

    expect((await hf.queue('open').next()).outcome).toBe('claimed')
  })

  test('a queue that does not exist cannot be paused', async () => {
    const { hf } = await engine.open()

    expect(await refusalCode(() => hf.queue('nowhere').pause())).toBe('NOT_FOUND')
  })
})
