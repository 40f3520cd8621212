/** What queues answer when there is nothing to claim, another holder, or too much. */
import type { Queue } from 'holdfast'
import { expect, test } from 'vitest'
import { refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('next() ignores the lock of a queue without slots, and only of those [S5c-50]', async () => {
    const { hf } = await engine.open()
    const free = hf.queue('jobs')
    const serial = hf.queue('serial', { slots: 1 })
    for (const q of [free, serial]) await q.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])

    const outcomes = async (q: Queue) => [
      (await q.nextWithLock({ agent: 'ada' })).outcome,
      (await q.nextWithLock({ agent: 'bob' })).outcome,
      (await q.next({ agent: 'bob' })).outcome,
    ]

    expect(await outcomes(free)).toEqual(['claimed', 'held', 'claimed'])
    expect(await outcomes(serial)).toEqual(['claimed', 'held', 'held'])
  })

  test('hf.queues() lists every queue of its namespace by name, with its settings [S6-21]', async () => {
    const { hf, store } = await engine.open()
    const elsewhere = await store.open({ namespace: 'elsewhere' })
    await elsewhere.queue('other').add(1)
    await hf.queue('jobs', { maxAttempts: 7 }).add(1)
    await hf.queue('changes', { workflow: 'merge' }).define()
    await hf.queue('jobs').pause({ reason: 'deploy' })

    expect(await hf.queues()).toMatchObject([
      { name: 'changes', workflow: 'merge', slots: 1, pausedAt: null },
      { name: 'jobs', workflow: 'job', slots: null, maxAttempts: 7, pauseReason: 'deploy' },
    ])
  })

  test('hf.queues() is empty on an unused store and refused on a closed one [S6-21]', async () => {
    const { hf } = await engine.open()

    expect(await hf.queues()).toEqual([])

    await hf.close()
    expect(await refusalCode(() => hf.queues())).toBe('STORE_UNAVAILABLE')
  })

  test('every read shows an unused queue as empty [S5c-51]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('nowhere')

    expect(await q.stats()).toEqual({
      total: 0,
      pending: 0,
      blocked: 0,
      quarantined: 0,
      processing: 0,
      completed: 0,
      failed: 0,
      cancelled: 0,
      byState: {},
      oldestReadyMs: null,
      paused: false,
      exists: false,
    })
    expect(await q.next()).toEqual({ outcome: 'empty', nextDueAt: null, exists: false })
    expect(await q.claimMany(1)).toEqual({ outcome: 'empty', nextDueAt: null, exists: false })
    expect(await q.list()).toEqual({ items: [], next: null })
    expect([await q.peek(), await q.get('w1'), await q.getProcessingLock()]).toEqual([null, null, null])
    expect(await hf.execute('queue.describe', { queue: 'nowhere' })).toBeNull()
  })

  test('an empty answer says when the next item is due, and whether the queue is there [S5c-51]', async () => {
    const { hf, env } = await engine.open()
    const runAt = env.now() + 60_000
    await hf.queue('jobs').add(null, { runAt })
    await hf.tasks.addTask('later')
    await hf.tasks.claimNext({ agent: 'ada' })
    await hf.tasks.handoff({ agent: 'ada', to: 'bob', offerMs: 30_000 })

    const there = [await hf.queue('jobs').next(), await hf.tasks.claimNext()]
    const nowhere = [
      await hf.queue('nowhere').next(),
      await hf.queue('nowhere').nextWithLock(),
      await hf.queue('nowhere').claimMany(1),
    ]

    expect(there).toEqual([
      { outcome: 'empty', nextDueAt: runAt, exists: true },
      { outcome: 'empty', nextDueAt: env.now() + 30_000, exists: true },
    ])
    expect(nowhere).toEqual(nowhere.map(() => ({ outcome: 'empty', nextDueAt: null, exists: false })))
  })

  test('a refusal that names the holder also says since when it holds [S5c-51]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('serial', { slots: 1 })
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    await hf.tasks.addTask('t', { key: 't' })
    const since = env.now()
    await q.nextWithLock({ agent: 'ada' })
    await hf.tasks.claimTaskForAgent('t', { agent: 'ada' })
    await hf.locks.acquireLock('deploy', { agent: 'ada' })
    await hf.locks.reserve('src/**', { agent: 'ada' })
    await env.advance(1_000)

    const answers = [
      await q.next({ agent: 'bob' }),
      await q.nextWithLock({ agent: 'bob' }),
      await q.acquireProcessingLock({ agent: 'bob' }),
      await hf.tasks.claimTaskForAgent('t', { agent: 'bob' }),
      await hf.locks.acquireLock('deploy', { agent: 'bob' }),
      await hf.locks.reserve('src/a.ts', { agent: 'bob' }),
    ]

    for (const answer of answers) expect(answer).toMatchObject({ outcome: 'held', holder: 'ada', since })
  })

  test('a page of anything has up to 1,000 entries, and no more [S5c-51]', async () => {
    const { hf } = await engine.open()
    await hf.queue('jobs').addMany(Array.from({ length: 600 }, () => ({ payload: 1 })))

    const { items, next } = await hf.queue('jobs').list({ limit: 1000 })
    const pages = [
      (limit: number) => hf.queue('jobs').list({ limit }),
      (limit: number) => hf.tasks.listTasks({ limit }),
      (limit: number) => hf.locks.list({ limit }),
      (limit: number) => hf.state.list({ limit }),
      (limit: number) => hf.execute('events.list', { limit }),
      (limit: number) => hf.execute('events.images', { limit }),
    ]
    for (const page of pages) await page(1000)
    const codes = await Promise.all(pages.map((page) => refusalCode(() => page(1001))))

    expect([items.length, next]).toEqual([600, null])
    expect(codes).toEqual(pages.map(() => 'INVALID'))
  })
})
