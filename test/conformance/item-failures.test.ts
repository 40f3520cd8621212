/** A handler that throws is heard of: in the log, on the item, in `status` and from `doctor`. */
import { expect, test } from 'vitest'
import * as z from 'zod'
import { collectLogs } from '../support/logs.ts'
import { present } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const escapeCharacter = String.fromCharCode(27)

function explode(): never {
  throw new TypeError('no such user')
}

forEachEngine((engine) => {
  test('[S5-4] every throw of a handler is logged with its item, its attempt and its stack', async () => {
    const { logger, named } = collectLogs()
    const { hf, env } = await engine.open({ logger })
    const { item } = await hf.queue('jobs').add(null, { maxAttempts: 2 })

    const worker = hf.work('jobs', explode)
    await env.advance(10_000)
    await worker.stop()

    const line = (attempt: number) => ({
      level: 'warn',
      name: 'item.failed',
      facts: {
        queue: 'jobs',
        item: item.id,
        attempt,
        error: 'no such user',
        stack: expect.stringMatching(/^TypeError: no such user\n.*at explode .*item-failures\.test/s),
      },
    })
    expect(named('item.failed')).toEqual([line(1), line(2)])
  })

  test('[S5-4] the error of a failed item keeps the stack', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { maxAttempts: 1 })

    const worker = hf.work(q, explode)
    await env.advance(100)
    await worker.stop()

    const { error } = await present(q.get(item.id))
    expect(error).toMatchObject({ message: 'no such user' })
    expect(error?.stack).toMatch(/^TypeError: no such user\n\s+at explode .*item-failures\.test/)
  })

  test('[S5-4] a stored stack has a bounded length, includes its causes, and cannot control a terminal', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { maxAttempts: 1 })

    const worker = hf.work(q, () => {
      const cause = new Error(`${escapeCharacter}[2Jcleared\u009b`)
      throw new Error('long '.repeat(5_000), { cause })
    })
    await env.advance(100)
    await worker.stop()

    const { error } = await present(q.get(item.id))
    expect(error?.stack?.length).toBeLessThanOrEqual(4_000)
    expect(error?.stack).toContain('item-failures.test')
    expect(error?.stack).toContain('caused by: Error: \\u001b[2Jcleared\\u009b')
    expect(error?.stack).not.toMatch(/[^\P{Cc}\n\t]/u)
  })

  test('[S5-4] a thrown value that cannot be turned into text still fails the item', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue<number>('jobs')
    const thrown = [Object.create(null), undefined, { status: 503 }, Symbol('odd'), 'x'.repeat(20_000)]
    const { ids } = await q.addMany(thrown.map((_, index) => ({ payload: index, maxAttempts: 1 })))

    const worker = hf.work(q, ({ payload }) => {
      throw thrown[payload]
    })
    await env.advance(1_000)
    await worker.stop()

    const items = await Promise.all(ids.map((id) => present(q.get(id))))
    expect(items.map(({ state }) => state)).toEqual(ids.map(() => 'failed'))
    expect(items.map(({ error }) => error?.message.slice(0, 20))).toEqual([
      'the thrown value has',
      'undefined',
      '{"status":503}',
      'Symbol(odd)',
      'x'.repeat(20),
    ])
  })

  test('[S5-4] a payload that no longer fits its schema is logged', async () => {
    const { logger, named } = collectLogs()
    const { hf, env } = await engine.open({ logger })
    const { item } = await hf.queue('texts').add(1)

    const worker = hf.work(hf.queue('texts', { schema: z.string() }), () => {})
    await env.advance(1_000)
    await worker.stop()

    expect(named('item.failed').map(({ facts }) => [facts.queue, facts.item, facts.attempt])).toEqual([
      ['texts', item.id, 1],
    ])
  })

  test.each([
    ['too large', 'x'.repeat(300_000)],
    ['no JSON', new Map()],
  ])(
    '[S5-20] an item whose handler returns what is %s is done; that is told of and left out',
    async (_, returned) => {
      const { logger, named } = collectLogs()
      const { hf, env } = await engine.open({ logger })
      const { item } = await hf.queue('jobs').add(null)

      const worker = hf.work('jobs', () => returned)
      await env.advance(1_000)
      await worker.stop()

      expect(await hf.queue('jobs').get(item.id)).toMatchObject({ state: 'done', result: null, failures: 0 })
      expect(named('result.dropped').map(({ facts }) => [facts.queue, facts.item])).toEqual([
        ['jobs', item.id],
      ])
    },
  )

  test('[S5-4] an error thrown because the worker stops is not a failure', async () => {
    const { logger, named } = collectLogs()
    const { hf, env } = await engine.open({ logger })
    const { item } = await hf.queue('jobs').add(null)
    const worker = hf.work(
      'jobs',
      (_, { signal }) =>
        new Promise((_done, fail) => signal.addEventListener('abort', () => fail(signal.reason))),
    )
    await env.advance(100)

    const stopping = worker.stop({ drainMs: 0 })
    await env.advance(100)
    await stopping

    expect(named('item.failed').map(({ level }) => level)).toEqual(['info'])
    expect(await hf.queue('jobs').get(item.id)).toMatchObject({ state: 'pending', failures: 0, error: null })
  })

  test('[S5-4] status separates succeeded from failed and cancelled items', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue<string>('jobs')
    await q.addMany(['good', 'good', 'bad'].map((payload) => ({ payload, maxAttempts: 1 })))
    const { item: unwanted } = await q.add('unwanted', { runAt: env.now() + 60_000 })
    await q.cancel(unwanted.id)

    const worker = hf.work(q, ({ payload }) => {
      if (payload === 'bad') throw new Error(payload)
    })
    await env.advance(100)
    await worker.stop()

    const { queues } = await hf.fleet.status()
    expect(queues).toMatchObject([
      {
        name: 'jobs',
        closed: { count: 4, more: false },
        succeeded: { count: 2 },
        failed: { count: 1 },
        cancelled: { count: 1 },
      },
    ])
  })

  test('[S5-4] doctor names a queue that mostly fails now, whatever it did before', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue<number>('jobs')
    const fine = hf.queue<number>('fine')
    let isBroken = false
    const handler = ({ payload }: { payload: number }) => {
      if (isBroken && payload > 0) throw new Error('broken')
    }
    const workers = [hf.work(q, handler, { concurrency: 50 }), hf.work(fine, handler)]
    const add = (queue: typeof q, count: number, payload: number) =>
      queue.addMany(Array.from({ length: count }, () => ({ payload, maxAttempts: 1 })))
    await add(q, 300, 1)
    await env.advance(5_000)
    const before = await hf.fleet.doctor()

    isBroken = true
    await add(q, 60, 1)
    await add(fine, 3, 0)
    await add(fine, 2, 1)
    await env.advance(5_000)
    await Promise.all(workers.map((worker) => worker.stop()))

    const failing = (findings: typeof before.findings) =>
      findings.filter(({ check }) => check === 'mostly_failing')
    expect(failing(before.findings)).toEqual([])
    expect(failing((await hf.fleet.doctor()).findings)).toMatchObject([
      {
        level: 'warning',
        what: 'queue jobs: 60 of the last 100 finished items failed',
        remedy: expect.stringContaining('holdfast queue list jobs --state failed'),
      },
    ])
    expect((await hf.fleet.status()).alerts).toMatchObject([{ code: 'mostly_failing' }])
  })
})
