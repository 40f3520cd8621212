/** hf.work: claims, runs, finishes, gives back. */
import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { OpenOptions, Queue, QueueItem } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import * as z from 'zod'
import { collectLogs } from '../support/logs.ts'
import { claimed, claimedMany, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine, rareProbes } from '../support/stores.ts'
import { neverLooks, whileTimePasses } from '../support/wake.ts'

forEachEngine((engine) => {
  describe('a worker', () => {
    test('runs its handler once per item and keeps the result', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { ids } = await q.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
      const seen: unknown[] = []

      const worker = hf.work(q, (item) => {
        seen.push(item.payload)
        return { doubled: (item.payload as number) * 2 }
      })
      await env.advance(100)
      await worker.stop()

      expect(seen).toEqual([1, 2, 3])
      expect(await q.get(ids[2] as string)).toMatchObject({ state: 'done', result: { doubled: 6 } })
      expect(await q.stats()).toMatchObject({ completed: 3 })
    })

    test('wakes for an item that another handle adds, without polling [S5-26]', async () => {
      const { q, env, store } = await openJobs(engine)
      const idle = await store.open({ environment: neverLooks(env) })
      const seen = new Promise((resolve) => idle.work('jobs', ({ payload }) => resolve(payload)))
      await env.advance(1_500)

      await q.add('news')

      expect(await whileTimePasses(env, seen)).toBe('news')
    })

    test('that is idle writes nothing when a ring is for others', async () => {
      let transactions = 0
      const reached = (point: string) => {
        if (point === 'transaction.committed') transactions++
      }
      const environment = new MovableEnvironment({ reached })
      const { hf } = await engine.open({ environment, recovery: { everyMs: 0, probeEveryMs: 0 } })
      const q = hf.queue('jobs')
      const seen: unknown[] = []
      const worker = hf.work(q, (item) => void seen.push(item.payload))
      await environment.advance(100)

      transactions = 0
      await hf.state('weather').set('rain')
      await environment.advance(100)
      const afterRing = transactions
      await q.add('news')
      await environment.advance(100)
      await worker.stop()

      expect(afterRing).toBe(1)
      expect(seen).toEqual(['news'])
    })

    test('that is idle claims what its own process adds in the same transaction', async () => {
      let transactions = 0
      const reached = (point: string) => {
        if (point === 'transaction.committed') transactions++
      }
      const environment = new MovableEnvironment({ reached })
      const { hf } = await engine.open({ environment, recovery: { everyMs: 0, probeEveryMs: 0 } })
      const q = hf.queue('jobs')
      await q.define()
      const seen: number[] = []
      const worker = hf.work(q, () => void seen.push(transactions))
      await environment.advance(100)

      transactions = 0
      await q.add('news')
      await environment.advance(100)
      await worker.stop()

      expect(seen).toEqual([1])
    })

    test('runs as many handlers at once as configured, and no more', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.addMany(Array.from({ length: 10 }, (_, number) => ({ payload: number })))
      const gates: (() => void)[] = []
      let most = 0

      const worker = hf.work(q, () => new Promise<void>((resolve) => gates.push(resolve)), { concurrency: 3 })
      for (let round = 0; round < 10; round++) {
        await env.advance(50)
        most = Math.max(most, worker.running)
        expect(await q.stats()).toMatchObject({ processing: worker.running })
        gates.shift()?.()
      }
      await env.advance(50)
      await worker.stop()

      expect(most).toBe(3)
      expect(await q.stats()).toMatchObject({ completed: 10 })
    })

    test('holds prefetched items under leases and renews them', async () => {
      const { hf, q, env, store } = await openJobs(engine, rareProbes)
      await q.addMany(Array.from({ length: 5 }, (_, number) => ({ payload: number })))
      const open: (() => void)[] = []

      const worker = hf.work(q, () => new Promise<void>((resolve) => open.push(resolve)), { prefetch: 2 })
      await env.advance(100)
      const rival = await store.open({ agent: 'rival' })
      await env.advance(70_000)
      const ahead = await q.list({ phase: 'held' })

      expect(worker.running).toBe(1)
      expect(ahead.items.map(({ holder }) => holder)).toEqual([hf.agent, hf.agent, hf.agent])
      expect(ahead.items.map(({ crashes }) => crashes)).toEqual([0, 0, 0])
      expect((await claimed(rival.queue('jobs').next())).item.payload).toBe(3)
      for (const each of open) each()
    })

    test('releases prefetched items when it stops, without counting a crash or an attempt', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.addMany(Array.from({ length: 3 }, (_, number) => ({ payload: number })))
      let finish = () => {}
      const worker = hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)), { prefetch: 2 })
      await env.advance(100)

      const stopping = worker.stop()
      await env.advance(10)
      const during = await q.stats()
      finish()
      await env.advance(10)
      await stopping

      expect(during).toMatchObject({ processing: 1, pending: 2 })
      expect(await q.stats()).toMatchObject({ completed: 1, pending: 2, processing: 0 })
      const { items } = await q.list({ phase: 'ready' })
      expect(items.map(({ crashes, failures }) => [crashes, failures])).toEqual([
        [0, 0],
        [0, 0],
      ])
    })

    test('waits for its handlers when it stops', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let finish = () => {}
      const worker = hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)))
      await env.advance(100)

      let hasStopped = false
      const stopping = worker.stop().then(() => {
        hasStopped = true
      })
      await env.advance(5_000)
      const before = hasStopped
      finish()
      await env.advance(10)
      await stopping

      expect(before).toBe(false)
      expect(await q.get(item.id)).toMatchObject({ state: 'done' })
    })

    test('fires the signals of handlers that outlast the drain and releases their items', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let reason: unknown
      const worker = hf.work(q, async (_item, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reason = signal.reason
      })
      await env.advance(100)

      const stopping = worker.stop({ drainMs: 2_000 })
      await env.advance(2_100)
      await stopping

      expect(reason).toMatchObject({ code: 'TIMEOUT' })
      expect(await q.get(item.id)).toMatchObject({ state: 'pending', failures: 0, crashes: 0 })
    })

    test('that was told to stop begins nothing more, not even what it was just granted', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let runs = 0

      const worker = hf.work(q, () => {
        runs++
      })
      await worker.stop()
      await env.advance(100)

      expect(runs).toBe(0)
      expect(await q.get(item.id)).toMatchObject({ state: 'pending' })
    })

    test('is stopped by its signal, even one that fired before it began', async () => {
      const { hf, q, env } = await openJobs(engine)
      const end = new AbortController()
      const seen: unknown[] = []
      hf.work(
        q,
        (item) => {
          seen.push(item.payload)
        },
        { signal: end.signal },
      )
      await q.add('first')
      await env.advance(100)
      end.abort()
      hf.work(
        q,
        () => {
          seen.push('never')
        },
        { signal: AbortSignal.abort() },
      )
      await q.add('second')
      await env.advance(5_000)

      expect(seen).toEqual(['first'])
    })

    test('ends with its store, which waits for the handlers', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      const { item } = await q.add(null)
      let finish = () => {}
      hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)))
      await env.advance(100)

      const closing = hf.close()
      await env.advance(100)
      finish()
      await closing

      const reader = await store.open()
      expect(await reader.queue('jobs').get(item.id)).toMatchObject({ state: 'done' })
    })

    test('counts and awaits both its handlers of an item it lost and claimed again', async () => {
      const { hf, q, env } = await openJobs(engine)
      await q.add(null)
      const open: (() => void)[] = []
      const worker = hf.work(q, () => new Promise<void>((resolve) => open.push(resolve)), { concurrency: 2 })
      await env.advance(100)
      await q.reclaimStale({ thresholdMs: 0, force: true, reason: 'runaway' })
      await env.advance(2_000)

      open[0]?.()
      await env.advance(100)
      const running = worker.running
      open[1]?.()
      await worker.stop()

      expect([open.length, running]).toEqual([2, 1])
    })

    test('that stops releases only what it still holds, not what another worker of its process has now', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let finish = () => {}
      const late = hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)))
      await env.advance(100)
      await q.reclaimStale({ thresholdMs: 0, force: true, reason: 'runaway' })
      const { item: anew } = await claimed(q.next())

      const stopping = late.stop({ drainMs: 10 })
      await env.advance(20)
      await stopping
      finish()

      expect(anew.id).toBe(item.id)
      expect(await q.get(item.id)).toMatchObject({ phase: 'held', token: anew.token })
    })

    test('that stops while its store fails releases everything once it works again, and still waits for its handlers', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      let finish = () => {}
      const worker = hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)), { prefetch: 1 })
      await env.advance(100)
      const mend = await store.damage.failItems()

      let hasStopped = false
      const stopping = worker.stop().finally(() => {
        hasStopped = true
      })
      await env.advance(100)
      const before = hasStopped
      await mend()
      await env.advance(1_000)
      finish()
      await env.advance(100)
      await stopping

      expect(before).toBe(false)
      expect(await q.stats()).toMatchObject({ completed: 1, pending: 1, processing: 0 })
    })

    test('that stops waits no longer than its drain for a failing store, and then renews nothing', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      const { ids } = await q.addMany([{ payload: 1 }, { payload: 2 }])
      const leaseMs = 60_000
      let finish = () => {}
      const handler = () => new Promise<void>((resolve) => (finish = resolve))
      const worker = hf.work(q, handler, { prefetch: 1, leaseMs })
      await env.advance(100)
      const mend = await store.damage.failItems()
      finish()

      let hasStopped = false
      const stopping = worker.stop({ drainMs: 2_000 }).then(() => {
        hasStopped = true
      })
      await env.advance(2_100)
      const inTime = hasStopped
      await env.advance(leaseMs)
      await mend()
      await stopping
      await env.advance(10_000)

      expect(inTime).toBe(true)
      expect(await Promise.all(ids.map((id) => q.get(id)))).toMatchObject([
        { phase: 'ready', exposures: 1 },
        { phase: 'ready', exposures: 1 },
      ])
    })

    test('that takes a lock also stops within its drain when the store fails', async () => {
      const { hf, env, store } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      let finish = () => {}
      const handler = () => new Promise<void>((resolve) => (finish = resolve))
      const worker = hf.work(q, handler, { leaseMs: 3_600_000 })
      await env.advance(100)
      const mend = await store.damage.failItems()
      finish()
      await env.advance(100)

      let hasStopped = false
      const stopping = worker.stop({ drainMs: 2_000 }).then(() => {
        hasStopped = true
      })
      await env.advance(2_100)
      const inTime = hasStopped
      await mend()
      await env.advance(10_000)
      await stopping

      expect(inTime).toBe(true)
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('releases its lock while its queue is paused, and takes it again afterwards [S5c-6]', async () => {
      const { hf, env } = await engine.open(rareProbes)
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      let finish = () => {}
      const seen: unknown[] = []
      const worker = hf.work(q, async ({ key, id }) => {
        seen.push(key)
        await new Promise<void>((resolve) => (finish = resolve))
        await q.fail(id, 'over')
      })
      await env.advance(100)
      await q.submit('w2', { headSha: 'abcd' })

      await q.pause()
      await env.advance(60_000)
      const during = await q.getProcessingLock()
      finish()
      await env.advance(3_000)
      const after = await q.getProcessingLock()
      await q.resume()
      await env.advance(3_000)
      const again = await q.getProcessingLock()
      finish()
      await env.advance(100)
      await worker.stop()

      expect(during).toMatchObject({ holder: hf.agent, stale: false })
      expect(after).toBeNull()
      expect(again).toMatchObject({ holder: hf.agent })
      expect(seen).toEqual(['w1', 'w2'])
    })

    test.each([1, 2])(
      'never has the same item as another of its handle, with %d slots of the processing lock [Q7]',
      async (slots) => {
        const { hf, env } = await engine.open()
        const q = hf.queue('jobs', { slots })
        await q.addMany(Array.from({ length: 6 }, (_, number) => ({ payload: number })))
        const seen: unknown[] = []
        let atOnce = 0
        const handler = async ({ payload }: QueueItem<unknown>) => {
          seen.push(payload)
          expect(++atOnce).toBe(1)
          await new Promise<void>((resolve) => void env.timer(3_000, resolve))
          atOnce--
        }

        const workers = [hf.work(q, handler), hf.work(q, handler)]
        for (let step = 0; step < 30; step++) await env.advance(1_000)
        const stopping = Promise.all(workers.map((worker) => worker.stop()))
        await env.advance(100)
        await stopping

        expect(seen).toEqual([0, 1, 2, 3, 4, 5])
        expect(await q.stats()).toMatchObject({ completed: 6, failed: 0 })
        expect(await q.getProcessingLock()).toBeNull()
      },
    )

    test('does not wake idle workers of its own handle [Q7]', async () => {
      const { hf, env } = await engine.open()
      await hf.execute('queue.define', { queue: 'jobs', slots: 1 })
      const q = hf.queue('jobs')
      const claims = vi.spyOn(Object.getPrototypeOf(q) as Queue, 'nextWithLock')
      onTestFinished(() => claims.mockRestore())

      for (let number = 0; number < 4; number++) hf.work(q, () => {})
      for (let round = 0; round < 100; round++) await env.advance(1)

      expect(claims.mock.calls.length).toBeGreaterThan(0)
      expect(claims.mock.calls.length).toBeLessThanOrEqual(4)
    })

    test('takes over from another of its handle that stops, without waiting for its next poll [Q7]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const seen: string[] = []
      const handler =
        (name: string) =>
        async ({ id }: QueueItem<unknown>) => {
          seen.push(name)
          await new Promise<void>((resolve) => void env.timer(1_000, resolve))
          await q.fail(id, 'over')
        }
      const first = hf.work(q, handler('first'))
      await env.advance(100)
      hf.work(q, handler('second'), { pollEveryMs: 3_600_000 })
      await env.advance(100)
      await q.submit('w2', { headSha: 'abcd' })

      const stopping = first.stop()
      await env.advance(1_000)
      await stopping
      await env.advance(100)

      expect(seen).toEqual(['first', 'second'])
    })

    test('takes over from another of its handle whose item was lost [Q7]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const seen: string[] = []
      const stuck = hf.work(q, () => {
        seen.push('stuck')
        return new Promise(() => {})
      })
      await env.advance(100)
      hf.work(q, async ({ id, key }) => {
        seen.push(String(key))
        await q.fail(id, 'over')
      })
      await q.submit('w2', { headSha: 'abcd' })

      await q.cancel('w1', { reason: 'not wanted' })
      await env.advance(5_000)
      const stopping = stuck.stop({ drainMs: 100 })
      await env.advance(3_000)
      await stopping

      expect(seen).toEqual(['stuck', 'w2'])
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('that could not release its lock does so when the store is back [S5c-6]', async () => {
      const { hf, env, store } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const worker = hf.work(q, async ({ id }) => {
        await q.fail(id, 'over')
        mend = await store.damage.failEvents()
      })
      let mend = async () => {}

      await env.advance(1_000)
      const during = await q.getProcessingLock()
      await mend()
      await env.advance(10_000)
      const after = await q.getProcessingLock()
      await worker.stop()

      expect(during).toMatchObject({ holder: hf.agent })
      expect(after).toBeNull()
    })

    test('that stops while its claim is unanswered keeps neither lock nor item [S5c-6]', async () => {
      const { hf, env, store } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const free = await store.damage.holdUpWriters()
      const seen: unknown[] = []
      const worker = hf.work(q, ({ key }) => void seen.push(key))
      await q.usesProcessingLock()

      const stopped = worker.stop({ drainMs: 0 })
      await env.advance(3_000)
      await stopped
      await free()
      await env.advance(3_000)

      expect(await q.getProcessingLock()).toBeNull()
      expect(await q.get('w1')).toMatchObject({ phase: 'ready' })
      expect(seen).toEqual([])
    })

    test('that has stopped leaves no listener on its signal', async () => {
      const { hf, q } = await openJobs(engine)
      const { signal } = new AbortController()

      await hf.work(q, () => {}, { signal }).stop()

      expect(getEventListeners(signal, 'abort')).toEqual([])
    })

    test.each([0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])(
      'refuses to poll every %d ms, and to wait that long for its handlers',
      async (ms) => {
        const { hf, q } = await openJobs(engine)
        const worker = hf.work(q, () => {})

        expect(await refusalCode(() => hf.work(q, () => {}, { pollEveryMs: ms }))).toBe('INVALID')
        if (ms !== 0) expect(await refusalCode(() => worker.stop({ drainMs: ms }))).toBe('INVALID')
      },
    )

    test.each([
      { concurrency: 0 },
      { concurrency: 1.5 },
      { concurrency: Number.NaN },
      { prefetch: -1 },
      { concurrency: 100_000 },
      { leaseMs: 1 },
      { leaseMs: Number.NaN },
      { backoff: { factor: 0 } },
    ])('refuses %o', async (options) => {
      const { hf } = await openJobs(engine)

      expect(await refusalCode(() => hf.work('jobs', () => {}, options))).toBe('INVALID')
    })

    test('names the option that was probably meant [S6-1]', async () => {
      const { hf } = await openJobs(engine)

      const refused = await refusal(() => hf.work('jobs', () => {}, { concurency: 2 } as never))

      expect(refused.message).toMatch(/^work: unknown option "concurency"; did you mean "concurrency"\?$/)
    })
  })

  describe('a handler', () => {
    test('can record progress, which others see', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let finish = () => {}

      const worker = hf.work(q, async (_item, { progress }) => {
        await progress({ done: 3, of: 10 })
        await new Promise<void>((resolve) => (finish = resolve))
      })
      await env.advance(100)

      expect(await q.get(item.id)).toMatchObject({ state: 'running', progress: { done: 3, of: 10 } })
      finish()
      await worker.stop()
    })

    test('keeps its lease for as long as it works, and never longer than the store says', async () => {
      const { hf, q, env } = await openJobs(engine, rareProbes)
      const { item } = await q.add(null)
      let finish = () => {}
      const held: boolean[] = []
      const worker = hf.work(q, async (_item, { lease }) => {
        held.push(lease.isHeld)
        await new Promise<void>((resolve) => (finish = resolve))
        lease.assertHeld()
        held.push(lease.isHeld)
      })
      await env.advance(180_000)

      expect(await q.get(item.id)).toMatchObject({ holder: hf.agent, attempts: 1 })
      finish()
      await worker.stop()
      expect(held).toEqual([true, true])
      expect(await q.get(item.id)).toMatchObject({ state: 'done' })
    })

    test('has its signal fired when an operator takes its item by force, which is recorded with the reason', async () => {
      const { hf, q, env, store } = await openJobs(engine)
      const { item } = await q.add(null)
      const told: string[] = []
      hf.work(q, async (_item, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        told.push((signal.reason as { code: string }).code)
        await q.pause()
      })
      await env.advance(100)
      const operator = (await store.open({ agent: 'operator' })).queue('jobs')

      const spared = await operator.reclaimStale({ thresholdMs: 0 })
      const forced = await operator.reclaimStale({ thresholdMs: 0, force: true, reason: 'runaway' })
      await env.advance(999)

      expect([spared, forced]).toEqual([0, 1])
      expect(told[0]).toBe('LEASE_LOST')
      const events = await operator.events(item.id)
      expect(events.find(({ kind }) => kind === 'item.reclaimed')).toMatchObject({
        agent: 'operator',
        detail: { reason: 'runaway' },
      })
    })

    test('that throws has its item retried after a delay, with the error', async () => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      let runs = 0

      const worker = hf.work(q, () => {
        runs++
        if (runs === 1) throw Object.assign(new Error('flaky'), { code: 'E_FLAKY' })
      })
      await env.advance(100)
      const failed = await present(q.get(item.id))
      await env.advance(3_000)
      await worker.stop()

      expect(failed).toMatchObject({
        state: 'pending',
        failures: 1,
        error: { message: 'flaky', code: 'E_FLAKY' },
      })
      expect(runs).toBe(2)
      expect(await q.get(item.id)).toMatchObject({ state: 'done', attempts: 2, failures: 1, error: null })
    })

    test('that throws every time is not run more often than attempts are allowed', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs', { maxAttempts: 2 })
      const { item } = await q.add(null)
      let runs = 0
      const worker = hf.work(q, () => {
        runs++
        throw new Error('no')
      })

      await env.advance(20_000)
      await worker.stop()

      expect(runs).toBe(2)
      expect(await q.get(item.id)).toMatchObject({ state: 'failed' })
    })

    test.each([
      {
        thrown: 'an error that says it is hopeless',
        error: Object.assign(new Error('no'), { retryable: false }),
      },
      { thrown: 'a string', error: 'plain text' },
    ])('may throw $thrown', async ({ error }) => {
      const { hf, q, env } = await openJobs(engine)
      const { item } = await q.add(null)
      const worker = hf.work(q, () => Promise.reject(error))

      await env.advance(100)
      await worker.stop()

      const found = await present(q.get(item.id))
      expect(found.error?.message).toBe(typeof error === 'string' ? error : 'no')
      expect(found.state).toBe(typeof error === 'string' ? 'pending' : 'failed')
    })

    test('that throws in a workflow without failures loses its item as in a crash', async () => {
      const { hf, env } = await engine.open(rareProbes)
      const busy = { held: true, lostTo: 'new', moves: [], completeTo: 'done' } as const
      const states = {
        new: { claimTo: 'busy', moves: [] },
        busy,
        done: { moves: [], closed: 'succeeded' },
      } as const
      const workflow = { name: 'hopeful', initial: 'new', failsRetryably: true, retryForgives: true, states }
      const q = hf.queue('hopes', { workflow })
      const { item } = await q.add(null)
      const worker = hf.work(q, () => Promise.reject(new Error('no')), { leaseMs: 3_000 })

      await env.advance(60_000)
      await worker.stop()

      expect(await q.get(item.id)).toMatchObject({ holder: null, crashes: 3 })
    })

    test('whose result cannot be stored fails its item instead of holding it', async () => {
      const { hf, q, env } = await openJobs(engine, rareProbes)
      const { item } = await q.add(null)
      let runs = 0
      const worker = hf.work(q, () => {
        runs++
        return { big: 'x'.repeat(300_000) }
      })

      await env.advance(60_000)
      await worker.stop()

      expect(runs).toBeLessThanOrEqual(3)
      expect((await present(q.get(item.id))).phase).not.toBe('held')
    })
  })

  describe('a payload schema', () => {
    const schema = z.object({ url: z.url(), tries: z.int().default(1) })

    test('is checked when an item is added, and fills in defaults when it is claimed', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('fetch', { schema })

      const { item } = await q.add({ url: 'https://example.com' } as z.output<typeof schema>)
      const code = await refusalCode(() => q.add({ url: 'nonsense', tries: 1 }))
      const many = await refusalCode(() => q.addMany([{ payload: { url: 'nonsense', tries: 1 } }]))

      expect(item.payload).toEqual({ url: 'https://example.com' })
      expect((await claimed(q.next())).item.payload).toEqual({ url: 'https://example.com', tries: 1 })
      expect([code, many]).toEqual(['INVALID', 'INVALID'])
      expect(await q.stats()).toMatchObject({ total: 1 })
    })

    test('that nothing in line fits leaves no lock behind [Q11]', async () => {
      const { hf } = await engine.open()
      await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd', payload: 'old' })
      const q = hf.queue('main', { schema })

      const claim = await q.nextWithLock()

      expect(claim.outcome).toBe('empty')
      expect(await q.get('w1')).toMatchObject({ state: 'failed_terminal' })
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('whose unfit item is taken away in the meantime does not keep others from its handler', async () => {
      const { hf, store } = await engine.open()
      const { ids } = await hf.queue('fetch').addMany([{ payload: 'unfit' }, { payload: 'fit' }])
      const operator = (await store.open({ agent: 'operator' })).queue('fetch')
      const isFit = async (payload: string) => {
        if (payload === 'unfit') await operator.remove(ids[0] as string, { force: true, reason: 'mine' })
        return payload === 'fit'
      }
      const q = hf.queue('fetch', { schema: z.string().refine(isFit) })

      const items = await claimedMany(q.claimMany(2))

      expect(items.map(({ payload }) => payload)).toEqual(['fit'])
    })

    test('keeps items that do not fit from the handler: they fail for good, naming the fault', async () => {
      const { hf, env } = await engine.open()
      const old = await hf.queue('fetch').add({ address: 'example.com' })
      const q = hf.queue('fetch', { schema })
      await q.add({ url: 'https://example.com', tries: 2 })
      const seen: QueueItem<z.output<typeof schema>>['payload'][] = []

      const worker = hf.work(q, (item) => {
        seen.push(item.payload)
      })
      await env.advance(1_000)
      await worker.stop()

      expect(seen).toEqual([{ url: 'https://example.com', tries: 2 }])
      expect(await q.get(old.item.id)).toMatchObject({ state: 'failed', error: { code: 'INVALID' } })
    })
  })

  test('[S5-5] a worker without a handler is refused, and no job fails because of it', async () => {
    const { hf, q, env } = await openJobs(engine)
    await q.add(null)
    const work = hf.work.bind(hf) as (...given: unknown[]) => unknown

    const codes = await Promise.all(
      [[q], [q, { concurrency: 5 }], [q, null], [], [7, () => {}], ['', () => {}], [null, () => {}]].map(
        (given) => refusalCode(() => work(...given)),
      ),
    )
    await env.advance(1_000)

    expect(codes).toEqual(codes.map(() => 'INVALID'))
    expect(await q.stats()).toMatchObject({ pending: 1, processing: 0, failed: 0 })
  })

  test('[S5-5] a handle forgets its stopped workers', async () => {
    const { hf, q, env } = await openJobs(engine)
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    const never = new AbortController()
    const worked = async () => {
      const worker = hf.work(q, (item) => item.payload, { signal: never.signal })
      await env.advance(100)
      await worker.stop()
      return new WeakRef(worker)
    }

    const stopped = await worked()

    // Let go of by everybody, it can be collected.
    for (let round = 0; round < 20 && stopped.deref() !== undefined; round++) {
      await new Promise((resolve) => setImmediate(resolve))
      collectGarbage()
    }
    expect(stopped.deref()).toBeUndefined()
    expect(getEventListeners(never.signal, 'abort')).toEqual([])
    expect(await q.stats()).toMatchObject({ completed: 2 })
  })

  test('[S5-5] a close waits for a worker that is being stopped', async () => {
    const { hf, q, env, store } = await openJobs(engine)
    await q.add(null)
    let finish = () => {}
    const worker = hf.work(q, () => new Promise<void>((resolve) => (finish = resolve)))
    await env.advance(100)

    const stopping = worker.stop()
    const closing = hf.close()
    await env.advance(100)
    finish()
    await env.advance(100)
    await Promise.all([stopping, closing])

    expect(await (await store.open()).queue('jobs').stats()).toMatchObject({ completed: 1 })
  })

  test('a worker started before its queue exists works on it, even if that is claimed through a lock', async () => {
    const { hf, env, store } = await engine.open()
    const seen: (string | null)[] = []
    const worker = hf.work('main', (item) => {
      seen.push(item.key)
      throw new Error('enough')
    })
    await env.advance(2_000)

    const merges = (await store.open()).queue('main', { workflow: 'merge' })
    await merges.submit('w1', { headSha: 'abcd' })
    await env.advance(10_000)
    await worker.stop()

    expect(seen[0]).toBe('w1')
  })

  test('a worker whose store fails for a while reports it and resumes when it is back', async () => {
    const { logger, named } = collectLogs()
    const { hf, env, store } = await engine.open({ logger })
    const q = hf.queue('jobs')
    await q.add('work')
    const mend = await store.damage.failItems()
    const seen: unknown[] = []
    const worker = hf.work(q, (item) => {
      seen.push(item.payload)
    })

    await env.advance(2_000)
    await mend()
    await env.advance(10_000)
    await worker.stop()

    expect(named('worker.failed').length).toBeGreaterThan(0)
    expect(seen).toEqual(['work'])
  })

  test('a worker whose completion the store refused for a while does not keep the item forever', async () => {
    const { hf, q, env, store } = await openJobs(engine, rareProbes)
    const { item } = await q.add(null)
    let answer = () => {}
    hf.work(q, () => new Promise<void>((resolve) => (answer = resolve)))
    await env.advance(100)
    const mend = await store.damage.failItems()
    answer()
    await env.advance(100)
    await mend()

    await env.advance(120_000)
    answer()
    await env.advance(1_000)

    expect(await q.get(item.id)).toMatchObject({ state: 'done' })
  })
})

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

async function openJobs(engine: Engine, options: OpenOptions = {}) {
  const opened = await engine.open(options)
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}
