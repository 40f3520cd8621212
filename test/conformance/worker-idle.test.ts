/** Waiting until a worker has nothing left to do. */
import type { OpenOptions, Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine, rareProbes } from '../support/stores.ts'
import { whileTimePasses } from '../support/wake.ts'

forEachEngine((engine) => {
  describe('idle()', () => {
    test('resolves once everything added before has ended [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const worker = hf.work(q, ({ payload }) => payload, { concurrency: 2 })
      for (let number = 0; number < 5; number++) await q.add(number)

      expect(await whileTimePasses(env, worker.idle())).toBe(true)

      expect(await q.stats()).toMatchObject({ completed: 5, processing: 0, pending: 0 })
      expect(worker.running).toBe(0)
    })

    test('needs no polling: it resolves while time stands still [S6-24]', async () => {
      const { hf, q } = await openJobs(engine)
      for (let number = 0; number < 3; number++) await q.add(number)
      const worker = hf.work(q, ({ payload }) => payload)

      expect(await worker.idle()).toBe(true)
      expect(await worker.idle()).toBe(true)

      expect(await q.stats()).toMatchObject({ completed: 3 })
    })

    test('sees what another process has just added, before any wake-up [S6-24]', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      const other = await store.open({ agent: 'other' })
      const worker = hf.work(q, () => null)
      await whileTimePasses(env, worker.idle())

      await other.queue('jobs').add('news')
      await whileTimePasses(env, worker.idle())

      expect(await q.stats()).toMatchObject({ completed: 1, pending: 0, processing: 0 })
    })

    test('waits for an item whose failure the store could not record at first [S6-24]', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      const { item } = await q.add('flaky')
      let finish = () => {}
      let runs = 0
      const work = async () => {
        if (++runs > 1) return
        await new Promise<void>((resolve) => (finish = resolve))
        throw new Error('not yet')
      }
      const worker = hf.work(q, work, { concurrency: 2, backoff: { baseMs: 0 } })
      await env.advance(100)
      const runsWhenIdle = worker.idle().then(() => runs)
      const mend = await store.damage.failItems()
      finish()
      await env.advance(50)
      await mend()

      expect(await whileTimePasses(env, runsWhenIdle)).toBe(2)
      expect(await q.get(item.id)).toMatchObject({ state: 'done', failures: 1 })
    })

    test('resolves on an unused queue, and again later [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const worker = hf.work(q, () => null)

      expect(await whileTimePasses(env, worker.idle())).toBe(true)
      await q.add('later')
      expect(await whileTimePasses(env, worker.idle())).toBe(true)

      expect(await q.stats()).toMatchObject({ completed: 1 })
    })

    test('waits for a running handler, and for what it adds [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine, rareProbes)
      await q.add('first')
      let finish = () => {}
      const work = async ({ payload }: { payload: unknown }) => {
        if (payload !== 'first') return
        await new Promise<void>((resolve) => (finish = resolve))
        await q.add('second')
      }
      // The second of two handlers finds nothing to do, all the while.
      const worker = hf.work(q, work, { concurrency: 2 })
      let isIdle = false
      const idle = worker.idle().then((answer) => {
        isIdle = true
        return answer
      })

      await env.advance(60_000)
      expect(isIdle).toBe(false)
      finish()

      expect(await whileTimePasses(env, idle)).toBe(true)
      expect(await q.stats()).toMatchObject({ completed: 2 })
    })

    test('does not wait for items that are delayed or wait for a retry [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.add('tomorrow', { delayMs: 86_400_000 })
      await q.add('bad')
      const worker = hf.work(q, () => Promise.reject(new Error('no')), { backoff: { baseMs: 3_600_000 } })

      expect(await whileTimePasses(env, worker.idle())).toBe(true)

      expect(await q.stats()).toMatchObject({ blocked: 2, processing: 0 })
    })

    test('waits for a failed item that is ready again at once [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add('flaky')
      const worker = hf.work(
        q,
        ({ failures }) => {
          if (failures < 2) throw new Error('not yet')
        },
        { backoff: { baseMs: 0 } },
      )

      expect(await whileTimePasses(env, worker.idle())).toBe(true)

      expect(await q.get(item.id)).toMatchObject({ state: 'done', failures: 2 })
    })

    test('waits while the queue is paused, until it is aborted or the queue resumes [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.add('kept back')
      await q.pause()
      const worker = hf.work(q, () => null)
      const patience = new AbortController()
      const idle = worker.idle({ signal: patience.signal })
      idle.catch(() => {})

      await env.advance(10_000)
      patience.abort(new Error('too long'))
      await expect(idle).rejects.toThrow('too long')
      const again = worker.idle()
      await q.resume()

      expect(await whileTimePasses(env, again)).toBe(true)
      expect(await q.stats()).toMatchObject({ completed: 1 })
    })

    test('of a queue with a processing lock resolves when its last change has ended [S6-24]', async () => {
      const { hf, env } = await engine.open()
      const serial = hf.queue('serial', { slots: 1 })
      for (let number = 0; number < 3; number++) await serial.add(number)
      const worker = hf.work(serial, () => null)

      expect(await whileTimePasses(env, worker.idle())).toBe(true)

      expect(await serial.stats()).toMatchObject({ completed: 3 })
      expect(await serial.getProcessingLock()).toBeNull()
    })

    test('resolves to false when the worker is stopped or its handle closed [S6-24]', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.add('kept back')
      await q.pause()
      const [stopped, closed] = [hf.work(q, () => null), hf.work(q, () => null)]
      const idle = [stopped.idle(), closed.idle()]
      await env.advance(100)

      await stopped.stop()
      expect(await idle[0]).toBe(false)
      expect(await stopped.idle()).toBe(false)
      await hf.close()

      expect(await idle[1]).toBe(false)
    })

    test('refuses anything that is not a signal [S6-24]', async () => {
      const { hf, q } = await openJobs(engine)
      const worker = hf.work(q, () => null)

      expect(await refusalCode(() => worker.idle({ signal: 'soon' as never }))).toBe('INVALID')
    })
  })
})

async function openJobs(engine: Engine, options: OpenOptions = {}) {
  const opened = await engine.open(options)
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}
