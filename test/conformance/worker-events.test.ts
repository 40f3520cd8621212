/** What a worker reports to its listeners. */
import type { Queue, Worker, WorkerEventName } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { walkTo } from '../support/merge.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const soon = { baseMs: 0, factor: 1, maxMs: 0 }

forEachEngine((engine) => {
  describe('a listener of a worker', () => {
    test('hears of each completion once the store has it, with the finished item [S6-22]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add({ n: 1 })
      const worker = hf.work(q, ({ payload }) => ({ doubled: (payload as { n: number }).n * 2 }))
      const told: unknown[] = []
      worker.on('completed', async (event) => told.push(event.item, await q.get(item.id)))

      await env.advance(100)
      await worker.stop()

      const done = { id: item.id, state: 'done', payload: { n: 1 }, result: { doubled: 2 } }
      expect(told).toMatchObject([done, done])
    })

    test('hears of each failure with what was thrown, and whether it is retried [S6-22]', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.add('bad', { maxAttempts: 2 })
      const thrown = new TypeError('no such branch')
      const worker = hf.work(q, () => Promise.reject(thrown), { backoff: soon })
      const told: unknown[] = []
      worker.on('failed', ({ item, error, willRetry }) =>
        told.push([item.failures, item.state, error === thrown, willRetry]),
      )

      await env.advance(5_000)
      await worker.stop()

      expect(told).toEqual([
        [1, 'pending', true, true],
        [2, 'failed', true, false],
      ])
    })

    test('hears when an item is taken from its handler, and nothing else [S6-22]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      const worker = hf.work(
        q,
        (_item, { signal }) =>
          new Promise((_resolve, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
          ),
      )
      const told = collect(worker)
      await env.advance(100)

      await q.cancel(item.id)
      await env.advance(10_000)
      await worker.stop()

      expect(told.names).toEqual(['lost'])
      expect(told.events[0]).toMatchObject({ item: { id: item.id }, error: { code: 'LEASE_LOST' } })
    })

    test('hears how a handler ended its item itself [S6-22]', async () => {
      const { hf, env } = await engine.open()
      const merges = hf.queue('merges', { workflow: 'merge' })
      for (const key of ['lands', 'breaks', 'returns']) await merges.submit(key, { headSha: 'abcd' })
      const worker = hf.work(merges, async ({ id, key }) => {
        if (key === 'breaks') await merges.failMerge(id, 'conflict', { retryable: true })
        else if (key === 'lands') {
          await walkTo(merges, id, 'merging', {})
          await merges.completeMerge(id, 'beef')
        }
      })
      const told: unknown[] = []
      worker.on('completed', ({ item }) => told.push([item.key, item.state]))
      worker.on('failed', ({ item, error, willRetry }) =>
        told.push([item.key, item.state, (error as Error).message, willRetry]),
      )

      await env.advance(10_000)
      await worker.stop()

      expect(told).toEqual([
        ['lands', 'merged'],
        ['breaks', 'failed_retryable', 'conflict', false],
        ['returns', 'failed_terminal', expect.stringContaining('claimed'), false],
      ])
    })

    test('hears nothing about an item that is released when the worker stops [S6-22]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      const worker = hf.work(
        q,
        (_item, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
      )
      const told = collect(worker)
      await env.advance(100)

      const stopping = worker.stop({ drainMs: 0 })
      await env.advance(1_000)
      await stopping

      expect(told.names).toEqual([])
      expect(await q.get(item.id)).toMatchObject({ state: 'pending' })
    })

    test('hears of trouble with the store, and the worker carries on [S6-22]', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      await q.add('work')
      const mend = await store.damage.failItems()
      const worker = hf.work(q, () => null)
      const told = collect(worker)

      await env.advance(2_000)
      await mend()
      await env.advance(10_000)
      await worker.stop()

      expect(told.names.at(0)).toBe('error')
      expect(told.events[0]).toMatchObject({ item: null })
      expect(told.names.at(-1)).toBe('completed')
    })

    test.each([
      [
        'throws',
        () => {
          throw new Error('listener down')
        },
      ],
      ['rejects', () => Promise.reject(new Error('listener down'))],
    ])(
      'that %s stops neither the worker nor other listeners, and is logged [S6-23]',
      async (_how, listener) => {
        const { logger, named } = collectLogs()
        const { hf, env } = await engine.open({ logger })
        const q = hf.queue('jobs')
        await q.addMany([{ payload: 1 }, { payload: 2 }])
        const worker = hf.work(q, () => null)
        const told: unknown[] = []
        worker.on('completed', listener)
        worker.on('completed', ({ item }) => told.push(item.payload))

        await env.advance(100)
        await worker.stop()

        expect(told).toEqual([1, 2])
        const facts = { queue: 'jobs', event: 'completed', error: 'Error: listener down' }
        expect(named('worker.failed')).toMatchObject([{ facts }, { facts }])
      },
    )

    test('that was removed hears nothing more; one added twice is removed once [S6-23]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const worker = hf.work(q, () => null)
      let calls = 0
      const listener = () => calls++
      const leave = worker.on('completed', listener)
      worker.on('completed', listener)

      await q.add(1)
      await env.advance(2_000)
      leave()
      leave()
      await q.add(2)
      await env.advance(2_000)
      await worker.stop()

      expect(calls).toBe(3)
    })

    test('for an unknown event, or that is not a function, is refused [S6-23]', async () => {
      const { hf, q } = await openJobs(engine)
      const worker = hf.work(q, () => null)

      const misspelt = await refusal(() => worker.on('complete' as 'completed', () => {}))
      expect(misspelt).toMatchObject({ code: 'INVALID' })
      expect(misspelt.message).toContain('completed')
      expect(await refusalCode(() => worker.on('completed', undefined as never))).toBe('INVALID')
    })
  })
})

/** Everything a worker tells, in order. */
function collect(worker: Worker<unknown>) {
  const names: WorkerEventName[] = []
  const events: unknown[] = []
  for (const name of ['completed', 'failed', 'lost', 'error'] as const) {
    worker.on(name, (event) => {
      names.push(name)
      events.push(event)
    })
  }
  return { names, events }
}

async function openJobs(engine: Engine) {
  const opened = await engine.open()
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}
