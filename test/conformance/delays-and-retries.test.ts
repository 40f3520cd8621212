/** Not before a time, and again after a failure. */
import { randomUUID } from 'node:crypto'
import type { Queue, QueueItem } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed, present, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a delayed item', () => {
    test('is not returned by any claim before its time, and is returned when it is due [Q12]', async () => {
      const { q, env } = await openJobs(engine)
      const runAt = env.now() + 10_000
      const { item, position } = await q.add('later', { runAt: new Date(runAt) })

      await env.advance(9_999)
      const early = [await q.next({ agent: 'worker-1' }), await q.claimMany(5, { agent: 'worker-1' })]
      await env.advance(1)
      const inTime = await claimed(q.next({ agent: 'worker-1' }))

      expect(item).toMatchObject({ phase: 'waiting', runAt })
      expect(position).toBeNull()
      expect(early).toEqual([
        { outcome: 'empty', nextDueAt: runAt, exists: true },
        { outcome: 'empty', nextDueAt: runAt, exists: true },
      ])
      expect(inTime.item).toMatchObject({ id: item.id, runAt: null })
    })

    test('does not wake processes that wait for another queue', async () => {
      const { hf, q, env } = await openJobs(engine)
      await hf.queue('other').add('later', { delayMs: 1_000 })

      const early = await q.next()
      await env.advance(1_001)
      const look = await hf.execute('queue.look', { queue: 'jobs' })

      expect(early).toMatchObject({ outcome: 'empty', nextDueAt: null })
      expect(look).toMatchObject({ ready: false, nextDueAt: null })
    })

    test('may be given as a delay from now: alone, among many and with a change [S6-25]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const delayMs = 10_000
      const runAt = env.now() + delayMs
      const merges = hf.queue('merges', { workflow: 'merge' })
      const { ids } = await q.addMany([{ payload: 1, delayMs }, { payload: 2 }])

      expect((await q.add('later', { delayMs })).item).toMatchObject({ phase: 'waiting', runAt })
      expect(await q.get(ids[0] as string)).toMatchObject({ phase: 'waiting', runAt })
      expect(await q.get(ids[1] as string)).toMatchObject({ phase: 'ready', runAt: null })
      expect((await q.add('now', { delayMs: 0 })).item).toMatchObject({ phase: 'ready', runAt: null })
      const first = await merges.submit('w1', { headSha: 'abcd', delayMs })
      const again = await merges.submit('w1', { headSha: 'abcd', delayMs: 2 * delayMs })
      expect([first.item.runAt, again.item.runAt]).toEqual([runAt, runAt + delayMs])
    })

    test.each([
      { delayMs: -1 },
      { delayMs: 0.5 },
      { delayMs: Number.MAX_SAFE_INTEGER },
      { delayMs: 1, runAt: 1 },
    ])('is refused with %o, and nothing is added [S6-25]', async (options) => {
      const { q } = await openJobs(engine)

      expect(await refusalCode(() => q.add('x', options))).toBe('INVALID')
      expect(await q.stats()).toMatchObject({ total: 0 })
    })

    test('whose time has already passed is in line at once [Q12]', async () => {
      const { q, env } = await openJobs(engine)

      const { item, position } = await q.add(null, { runAt: env.now() - 1 })

      expect(item).toMatchObject({ phase: 'ready', runAt: null })
      expect(position).toBe(1)
    })

    test('is ordered by priority and age once it is due [Q5]', async () => {
      const { q, env } = await openJobs(engine)
      await q.add('delayed', { runAt: env.now() + 1_000 })
      await env.advance(1)
      await q.add('younger')
      await env.advance(1_000)

      const order = [await claimed(q.next({ agent: 'w' })), await claimed(q.next({ agent: 'w' }))]

      expect(order.map(({ item }) => item.payload)).toEqual(['delayed', 'younger'])
    })

    test('reaches a worker when it is due, without any call [Q12]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const seen: unknown[] = []
      const worker = hf.work(q, (item) => {
        seen.push(item.payload)
      })
      await q.add('later', { runAt: env.now() + 3_000 })

      await env.advance(2_900)
      const early = [...seen]
      await env.advance(200)
      await worker.stop()

      expect(early).toEqual([])
      expect(seen).toEqual(['later'])
    })

    test('adds nothing to the cost of other claims, however many are ahead [Q12]', async () => {
      const { q, env } = await openJobs(engine)
      const runAt = env.now() + 86_400_000
      for (let batch = 0; batch < 3; batch++)
        await q.addMany(Array.from({ length: 1_000 }, () => ({ payload: 'later', priority: 0, runAt })))
      await q.add('now', { priority: 9 })

      expect((await claimed(q.next({ agent: 'worker-1' }))).item.payload).toBe('now')
    })
  })

  describe('a failed job', () => {
    test('is retried after a delay, with its error and failure count kept [Q19]', async () => {
      const { q, env } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))

      const failed = await q.fail(item.id, Object.assign(new Error('flaky'), { code: 'E_NET' }), {
        agent: 'worker-1',
      })
      const atOnce = await q.next({ agent: 'worker-1' })
      await env.advance(1_000)
      const again = await claimed(q.next({ agent: 'worker-1' }))

      expect(failed).toMatchObject({
        state: 'pending',
        phase: 'waiting',
        failures: 1,
        error: { message: 'flaky', code: 'E_NET', retryable: true },
        closedAt: null,
        startedAt: null,
      })
      expect(atOnce.outcome).toBe('empty')
      expect(again.item).toMatchObject({ id: item.id, attempts: 2, failures: 1 })
    })

    test('waits longer each time, between half of a doubling step and all of it [Q19]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs', { maxAttempts: 6 })
      await q.add(null)
      const waits: number[] = []
      for (let attempt = 1; attempt <= 4; attempt++) {
        const { item } = await claimed(q.next({ agent: 'worker-1' }))
        const { runAt } = await q.fail(item.id, 'no', { agent: 'worker-1' })
        waits.push((runAt ?? 0) - env.now())
        await env.advance(waits.at(-1) ?? 0)
      }

      for (const [index, wait] of waits.entries()) {
        const step = 1_000 * 2 ** index
        expect(wait).toBeGreaterThanOrEqual(step / 2)
        expect(wait).toBeLessThanOrEqual(step)
      }
    })

    test('waits as long as its caller says, up to the caller’s maximum [Q19]', async () => {
      const { q, env } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))

      const backoff = { baseMs: 60_000, factor: 3, maxMs: 10_000 }
      const { runAt } = await q.fail(item.id, 'no', { agent: 'worker-1', backoff })

      expect((runAt ?? 0) - env.now()).toBeGreaterThanOrEqual(5_000)
      expect((runAt ?? 0) - env.now()).toBeLessThanOrEqual(10_000)
    })

    test('waits as its queue says, unless the worker or the caller says otherwise [S6-25]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs', { backoff: { baseMs: 600_000, factor: 1 } })
      const wait = async (fail: (id: string) => Promise<QueueItem<unknown>>) => {
        const { item } = await q.add(null)
        await q.next({ agent: 'w' })
        const { runAt } = await fail(item.id)
        return ((runAt ?? 0) - env.now()) / 1000
      }

      const byQueue = await wait((id) => q.fail(id, 'no', { agent: 'w' }))
      const byCaller = await wait((id) => q.fail(id, 'no', { agent: 'w', backoff: { baseMs: 2_000 } }))
      const told: number[] = []
      const worker = hf.work(q, () => Promise.reject(new Error('no')), { backoff: { maxMs: 40_000 } })
      worker.on('failed', ({ item }) => told.push(((item.runAt ?? 0) - env.now()) / 1000))
      await q.add(null)
      await env.advance(100)
      await worker.stop()

      expect(await hf.queues()).toMatchObject([{ backoff: { baseMs: 600_000, factor: 1, maxMs: 600_000 } }])
      expect(byQueue).toBeGreaterThanOrEqual(300)
      expect(byQueue).toBeLessThanOrEqual(600)
      expect(byCaller).toBeLessThanOrEqual(2)
      expect(told).toHaveLength(1)
      expect(told[0]).toBeGreaterThan(19)
      expect(told[0]).toBeLessThanOrEqual(40)
    })

    test.each([{ baseMs: -1 }, { factor: 0.5 }, { maxMs: 0.5 }, { jitter: true }, 5])(
      'of a queue or worker refuses the backoff %o before anything is claimed [S6-25]',
      async (backoff) => {
        const { hf, q } = await openJobs(engine)
        await q.add(null)
        const options = { backoff } as never

        expect(await refusalCode(() => hf.work(q, () => null, options))).toBe('INVALID')
        expect(await refusalCode(() => hf.queue('others', options).define())).toBe('INVALID')
        expect(await q.stats()).toMatchObject({ pending: 1 })
      },
    )

    test('without a base delay is ready again at once, however often it failed before [S5c-14]', async () => {
      const { hf, q } = await openJobs(engine)
      const tired = { id: randomUUID(), state: 'pending', failures: 400, maxAttempts: 1_000, addedAt: 1 }
      await hf.execute('queue.import', { queue: q.name, workflow: 'job', from: 'test', entries: [tired] })
      const { item } = await claimed(q.next())

      const failed = await q.fail(item.id, 'no', { backoff: { baseMs: 0, factor: 10 } })

      expect(failed).toMatchObject({ failures: 401, lease: null })
      expect((await claimed(q.next())).item.id).toBe(item.id)
    })

    test('waits a year at most: longer waits are refused, and the item stays with its holder [S5c-14]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next())
      const year = 365 * 24 * 60 * 60 * 1000
      const fail = (ms: number) => q.fail(item.id, 'no', { backoff: { baseMs: ms, factor: 10, maxMs: ms } })

      const code = await refusalCode(() => fail(Number.MAX_SAFE_INTEGER))
      const { phase } = await present(q.get(item.id))
      const { runAt } = await fail(year)

      expect([code, phase]).toEqual(['INVALID', 'held'])
      expect(new Date(runAt ?? Number.NaN).getFullYear()).toBeLessThan(2100)
    })

    test('ends failed at its last attempt, which the queue or the item may set [Q19]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs', { maxAttempts: 2 })
      const byQueue = (await q.add(null)).item.id
      const byItem = (await q.add(null, { maxAttempts: 1, priority: 9 })).item.id

      const states = []
      for (const _ of [1, 2]) {
        for (const claim of [await claimed(q.next({ agent: 'w' })), await q.next({ agent: 'w' })]) {
          if (claim.outcome !== 'claimed') continue
          const { id, state } = await q.fail(claim.item.id, 'no', { agent: 'w' })
          states.push([id === byItem ? 'byItem' : 'byQueue', state])
        }
        await env.advance(1_000)
      }

      expect(states).toEqual([
        ['byQueue', 'pending'],
        ['byItem', 'failed'],
        ['byQueue', 'failed'],
      ])
      expect(await q.get(byQueue)).toMatchObject({
        outcome: 'failed',
        closedAt: expect.any(Number),
        failures: 2,
      })
    })

    test('reported as not retryable is failed at once [Q19]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))

      const failed = await q.fail(item.id, 'no', { agent: 'worker-1', retryable: false })

      expect(failed).toMatchObject({ state: 'failed', failures: 1 })
    })

    test('can be retried by an operator, which resets its failures [Q20]', async () => {
      const { q } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))
      await q.fail(item.id, 'no', { agent: 'worker-1', retryable: false })

      const retried = await q.retry(item.id, { reason: 'mended' })

      expect(retried).toMatchObject({ state: 'pending', phase: 'ready', failures: 0, error: null })
      expect((await q.events(item.id)).at(-1)).toMatchObject({
        kind: 'item.retried',
        detail: { reason: 'mended' },
      })
    })

    test('cannot be retried while it waits, runs or is done [Q20]', async () => {
      const { q } = await openJobs(engine)
      const { item } = await q.add(null)
      const codes = [await refusalCode(() => q.retry(item.id))]
      await q.next({ agent: 'worker-1' })
      codes.push(await refusalCode(() => q.retry(item.id)))
      await q.complete(item.id, { agent: 'worker-1' })
      codes.push(await refusalCode(() => q.retry(item.id)))

      expect(codes).toEqual(['ILLEGAL_MOVE', 'ILLEGAL_MOVE', 'ILLEGAL_MOVE'])
    })

    test('cannot be retried once another open item has its key [Q20] [E-21]', async () => {
      const { q } = await openJobs(engine)
      const { item } = await q.add(null, { key: 'k' })
      await q.next({ agent: 'worker-1' })
      await q.fail('k', 'no', { agent: 'worker-1', retryable: false })
      await q.add(null, { key: 'k' })

      expect(await refusalCode(() => q.retry(item.id))).toBe('DUPLICATE')
    })
  })

  test('attempts count claims, failures count handled failures, and crashes count lost holders [Q17] [Q19]', async () => {
    const { q, env } = await openJobs(engine)
    const { item } = await q.add(null)
    await q.next({ agent: 'worker-1' })
    await q.fail(item.id, 'no', { agent: 'worker-1' })
    await env.advance(1_000)
    await q.next({ agent: 'worker-1', leaseMs: 100 })
    await env.advance(101)
    await q.next({ agent: 'worker-1' })
    await q.release(item.id, { agent: 'worker-1' })

    expect(await present(q.get(item.id))).toMatchObject({ attempts: 3, failures: 1, crashes: 1 })
  })
})

async function openJobs(engine: Engine) {
  const opened = await engine.open()
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}
