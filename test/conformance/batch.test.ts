/** The batch runner: bounded, checked before every item, resumed with the rest. */
import type { BatchReport, Holdfast, RunBatchOptions } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

forEachEngine((engine) => {
  test('works on every item once, records the outcome of each, and completes the run [L13] [L7]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []

    const report = await hf.locks.runBatch(
      'c1',
      letters,
      (item) => {
        worked.push(item)
        if (item === 'b') throw new Error('no luck')
        return item === 'c' ? 'skipped' : item
      },
      { gapMs: 0, reason: 'scoring', user: 'olga' },
    )

    expect(report).toMatchObject({
      outcome: 'completed',
      progress: { done: 6, failed: 1, skipped: 1, total: 8 },
    })
    expect(worked.toSorted()).toEqual(letters)
    expect((await hf.runs.outcomes('c1', { outcome: 'failed' })).outcomes).toMatchObject([
      { key: 'b', error: 'no luck' },
    ])
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('returns held, with the holder, and works on nothing while another runs [L11]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await take(hf, 'global', { agent: 'bob' })

    const report = await hf.locks.runBatch('c1', letters, () => expect.fail('it worked'))

    expect(report).toMatchObject({ outcome: 'held', holder: 'bob' })
    expect(await hf.runs.get('c1')).toBeNull()
  })

  test('never works on more items at once than allowed, by default a number that depends on the total [L13]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    let atOnce = 0
    const most: number[] = []
    const handler = async () => {
      atOnce++
      most.push(atOnce)
      await env.advance(0)
      atOnce--
    }

    await hf.locks.runBatch('c1', letters, handler, { gapMs: 0 })
    const byDefault = Math.max(...most.splice(0))
    await hf.locks.runBatch('c2', letters, handler, { gapMs: 0, concurrency: 2 })

    expect(byDefault).toBe(3)
    expect(Math.max(...most)).toBe(2)
  })

  test('pauses between items, 200 ms unless set otherwise [L13]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const startedAt = env.now()
    const beganAt: number[] = []
    const running = hf.locks.runBatch('c1', ['a', 'b', 'c'], () => void beganAt.push(env.now() - startedAt), {
      concurrency: 1,
    })

    for (let round = 0; round < 10; round++) await env.advance(100)
    await running

    expect(beganAt).toEqual([0, 200, 400])
  })

  test('begins no item after a pause from anywhere; running items are finished and counted [L12] [P5]', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const operator = await store.open({ agent: 'olga' })
    const worked: string[] = []

    const report = await hf.locks.runBatch(
      'c1',
      letters,
      async (item) => {
        worked.push(item)
        if (item === 'c') await operator.runs.pause('c1', { reason: 'lunch' })
      },
      { concurrency: 1, gapMs: 0 },
    )

    expect(report).toMatchObject({ outcome: 'paused', progress: { done: 3, pauseReason: 'lunch' } })
    expect(worked).toEqual(['a', 'b', 'c'])
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('resumed, does only the rest, including items that were added later [L11]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []
    const stop = new AbortController()
    const run = (items: string[], signal?: AbortSignal) =>
      hf.locks.runBatch(
        'c1',
        items,
        (item) => {
          worked.push(item)
          if (item === 'c') stop.abort()
        },
        { concurrency: 1, gapMs: 0, ...(signal ? { signal } : {}) },
      )

    const first = await run(letters, stop.signal)
    const second = await run([...letters, 'i', 'j'])

    expect(first).toMatchObject({ outcome: 'paused', progress: { done: 3, pauseReason: 'it was stopped' } })
    expect(second).toMatchObject({ outcome: 'completed', progress: { done: 10, total: 10 } })
    expect(worked).toEqual([...letters, 'i', 'j'])
  })

  test('resumed with only what is left, or after counts without keys, does all of it before it completes [L11]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []
    const closed: number[] = []
    const options = {
      concurrency: 1,
      gapMs: 0,
      onComplete: ({ processed }: { processed: number }) => void closed.push(processed),
    }
    const pauseAtB = async (item: string) => {
      if (item === 'b') await hf.runs.pause('c1')
    }
    await hf.locks.runBatch('c1', ['a', 'b', 'c', 'd', 'e'], pauseAtB, options)
    await take(hf, 'global', { run: 'counted' })
    await hf.runs.start('counted')
    await hf.runs.record('counted', { done: 2 })
    await hf.locks.releaseLock('global')

    const resumed = await hf.locks.runBatch('c1', ['c', 'd', 'e'], (item) => worked.push(item), options)
    const counted = await hf.locks.runBatch('counted', ['f', 'g', 'h'], (item) => worked.push(item), options)

    expect(worked).toEqual(['c', 'd', 'e', 'f', 'g', 'h'])
    expect([resumed, counted]).toMatchObject([
      { outcome: 'completed', progress: { done: 5, total: 5 } },
      { outcome: 'completed', progress: { done: 5, total: 5 } },
    ])
    expect(closed).toEqual([5, 5])
  })

  test('if no item may fail, resumed with only what failed repeats that and completes [L7]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []
    const options = { concurrency: 1, gapMs: 0, completion: 'successful' } as const
    const failLate = (item: string) => {
      if (item > 'b') throw new Error('no ink')
    }
    const first = await hf.locks.runBatch('c1', ['a', 'b', 'c', 'd'], failLate, options)

    const second = await hf.locks.runBatch('c1', ['c', 'd'], (item) => worked.push(item), options)

    expect([first.outcome, worked]).toEqual(['failed', ['c', 'd']])
    expect(second).toMatchObject({ outcome: 'completed', progress: { done: 4, failed: 0, total: 4 } })
  })

  test('if no item may fail, it is not completed while one that failed is not given again [L7]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const closed: unknown[] = []
    const options = {
      concurrency: 1,
      gapMs: 0,
      completion: 'successful',
      onComplete: (run: unknown) => void closed.push(run),
    } as const
    const failLate = (item: string) => {
      if (item > 'b') throw new Error('no ink')
    }
    await hf.locks.runBatch('c1', ['a', 'b', 'c', 'd'], failLate, options)

    const second = await hf.locks.runBatch('c1', ['d', 'e'], () => {}, options)
    const closedEarly = closed.length
    const third = await hf.locks.runBatch('c1', ['c'], () => {}, options)

    expect(second).toMatchObject({ outcome: 'failed', progress: { done: 4, failed: 1, total: 5 } })
    expect(third).toMatchObject({ outcome: 'completed', progress: { done: 5, failed: 0, total: 5 } })
    expect([closedEarly, closed.length]).toEqual([0, 1])
  })

  test('losing the lock midway stops it; it neither records nor pauses its successor’s run [L12] [P1]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada' })
    const successor = await store.open({ agent: 'bob' })
    const worked: string[] = []
    let letGo: () => void = () => {}
    const running = hf.locks.runBatch(
      'c1',
      letters,
      async (item, { signal }) => {
        worked.push(item)
        await new Promise<void>((resolve) => {
          letGo = resolve
          signal.addEventListener('abort', () => resolve())
        })
      },
      { concurrency: 1, gapMs: 0 },
    )
    await env.advance(0)
    await successor.locks.forceRelease('global', { reason: 'it hangs' })
    await take(successor, 'global', { run: 'c1' })
    await successor.runs.resume('c1')

    await env.advance(1_000)
    letGo()
    const report = await running

    expect(worked).toEqual(['a'])
    expect(report).toMatchObject({ progress: { status: 'running', done: 0 } })
    expect(await successor.runs.get('c1')).toMatchObject({ status: 'running', done: 0 })
    expect(await successor.locks.isLockedBy('global', { agent: 'bob' })).toBe(true)
  })

  test('resumes at its cursor when items come from a function, and repeats none', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const asked: unknown[] = []
    const worked: string[] = []
    const stop = new AbortController()
    const items = (cursor: unknown) => {
      asked.push(cursor)
      return letters.slice(cursor === null ? 0 : letters.indexOf(cursor as string))
    }
    const handler = (item: string) => {
      worked.push(item)
      if (item === 'd') stop.abort()
    }

    await hf.locks.runBatch('c1', items, handler, { concurrency: 1, gapMs: 0, signal: stop.signal })
    const report = await hf.locks.runBatch('c1', items, handler, { concurrency: 1, gapMs: 0 })

    expect(asked).toEqual([null, 'c'])
    expect(worked).toEqual(letters)
    expect(report).toMatchObject({ outcome: 'completed', progress: { done: 8, total: 8 } })
  })

  test('if no item may fail, a run with failures fails, and a resume repeats those [L7]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []
    let lucky = false
    const run = () =>
      hf.locks.runBatch(
        'c1',
        ['a', 'b', 'c'],
        (item) => {
          worked.push(item)
          if (item === 'b' && !lucky) throw new Error('no luck')
        },
        { concurrency: 1, gapMs: 0, completion: 'successful' },
      )

    const first = await run()
    lucky = true
    const second = await run()

    expect(first).toMatchObject({
      outcome: 'failed',
      progress: { pauseReason: '1 failed', done: 2, failed: 1 },
    })
    expect(second).toMatchObject({ outcome: 'completed', progress: { done: 3, failed: 0 } })
    expect(worked).toEqual(['a', 'b', 'c', 'b'])
  })

  test('items with the same key are one item', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []

    const report = await hf.locks.runBatch('c1', ['a', 'b', 'a'], (item) => void worked.push(item), {
      gapMs: 0,
    })

    expect(worked).toEqual(['a', 'b'])
    expect(report).toMatchObject({ outcome: 'completed', progress: { done: 2, failed: 0, total: 2 } })
  })

  test('a handler that ignores its signal delays a close by thirty seconds and no longer', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    hf.locks.runBatch('c1', letters, () => new Promise(() => {})).catch(() => {})
    await env.advance(0)
    let closed = false
    const closing = hf.close().then(() => {
      closed = true
    })

    await env.advance(29_000)
    const early = closed
    await env.advance(2_000)
    await closing

    expect([early, closed]).toEqual([false, true])
  })

  test('its closing step runs once, under the lock, in the runner that completed it [L13]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const closed: unknown[] = []
    const options = {
      gapMs: 0,
      async onComplete({ processed }: { processed: number }) {
        closed.push([processed, await hf.locks.isLockedBy('global', { run: 'c1' })])
      },
    }

    await hf.locks.runBatch('c1', letters, () => {}, options)
    await hf.locks.runBatch('c1', letters, () => expect.fail('it worked again'), options)

    expect(closed).toEqual([[8, true]])
  })

  describe('its closing step runs, once', () => {
    const closing = () => {
      const closed: number[] = []
      const onComplete = ({ processed }: { processed: number }) => void closed.push(processed)
      return { closed, options: { gapMs: 0, onComplete } }
    }

    test('when resuming it with fewer items completes it [S5c-18]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const { closed, options } = closing()
      const pauseAtB = async (item: string) => {
        if (item === 'b') await hf.runs.pause('c1')
      }
      await hf.locks.runBatch('c1', letters, pauseAtB, { ...options, concurrency: 1 })

      const resumed = await hf.locks.runBatch('c1', ['a', 'b'], () => expect.fail('it worked'), options)
      await hf.locks.runBatch('c1', ['a', 'b'], () => expect.fail('it worked'), options)

      expect(resumed).toMatchObject({ outcome: 'completed', progress: { done: 2, failed: 0, total: 2 } })
      expect(closed).toEqual([2])
    })

    test('when there was nothing to do from the start [S5c-18]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const { closed, options } = closing()

      const report = await hf.locks.runBatch('c1', [], () => expect.fail('it worked'), options)
      await hf.locks.runBatch('c1', [], () => expect.fail('it worked'), options)

      expect(report).toMatchObject({ outcome: 'completed', progress: { done: 0, total: 0 } })
      expect(closed).toEqual([0])
    })
  })

  describe('called again for a completed run', () => {
    const quick = { gapMs: 0, concurrency: 1 }

    test('handles new items, and completes it again [S5c-40]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const handled: string[] = []
      const completed: number[] = []
      const handle = (item: string) => void handled.push(item)
      const options = {
        ...quick,
        onComplete: ({ processed }: { processed: number }) => void completed.push(processed),
      }
      await hf.locks.runBatch('c1', ['a', 'b'], handle, options)

      const more = await hf.locks.runBatch('c1', ['a', 'b', 'c'], handle, options)
      const newOnly = await hf.locks.runBatch('c1', ['d', 'e'], handle, options)
      const none = await hf.locks.runBatch('c1', ['a', 'd'], handle, options)

      expect(handled).toEqual(['a', 'b', 'c', 'd', 'e'])
      expect([more, newOnly, none]).toMatchObject([
        { outcome: 'completed', progress: { done: 3, total: 3 } },
        { outcome: 'completed', progress: { done: 5, total: 5 } },
        { outcome: 'completed', progress: { done: 5, total: 5 } },
      ])
      expect(completed).toEqual([2, 3, 5])
    })

    test('handles new items that come one by one, from its cursor on [S5c-40]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const handled: string[] = []
      const all = ['a', 'b']
      async function* after(cursor: unknown) {
        for (const item of all.slice(cursor === null ? 0 : all.indexOf(String(cursor)) + 1)) yield item
      }
      await hf.locks.runBatch('c1', after, (item) => void handled.push(item), quick)
      all.push('c', 'd')

      const report = await hf.locks.runBatch('c1', after, (item) => void handled.push(item), quick)

      expect(report).toMatchObject({ outcome: 'completed', progress: { done: 4, total: 4 } })
      expect(handled).toEqual(['a', 'b', 'c', 'd'])
    })

    test('handles nothing if only counts are known, or its items no longer are [S5c-40]', async () => {
      const retention = { itemsMs: 30 * 60_000 }
      const { hf, env } = await engine.open({ agent: 'ada', recovery: false, retention })
      await take(hf, 'global', { run: 'counted' })
      await hf.runs.start('counted', { total: 2 })
      await hf.runs.record('counted', { done: 2 })
      await hf.locks.releaseLock('global')
      await hf.locks.runBatch('old', ['a', 'b'], () => {}, quick)
      const fail = () => expect.fail('it worked')

      const counted = await hf.locks.runBatch('counted', ['a', 'b'], fail, quick)
      env.suspend(31 * 60_000)
      await env.advance(4 * 60_000)
      const old = await hf.locks.runBatch('old', ['a', 'b', 'c'], fail, { ...quick, onComplete: fail })

      expect([counted, old]).toMatchObject([
        { outcome: 'completed', progress: { done: 2, failed: 0 } },
        { outcome: 'completed', progress: { done: 2, failed: 0, outcomesRemovedAt: expect.any(Number) } },
      ])
    })
  })

  test('a failing store stops it, with the error, before the next item [L12] [P5] [P6]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const worked: string[] = []

    const running = hf.locks.runBatch(
      'c1',
      letters,
      async (item) => {
        worked.push(item)
        if (item === 'b') await hf.runs.pause('c1')
        if (item === 'b') await hf.runs.remove('c1')
      },
      { concurrency: 1, gapMs: 0 },
    )

    expect(await refusalCode(() => running)).toBe('NOT_FOUND')
    expect(worked).toEqual(['a', 'b'])
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('closing the handle stops it; its run is paused and its lock free', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada' })
    const reader = await store.open({ agent: 'reader' })
    const worked: string[] = []
    const running = hf.locks.runBatch('c1', letters, async (item) => void worked.push(item), {
      concurrency: 1,
    })
    await env.advance(0)

    await hf.close()

    expect(await running).toMatchObject({ outcome: 'paused', progress: { done: 1 } })
    expect(worked).toEqual(['a'])
    expect(await reader.locks.isAnyLocked()).toBe(false)
  })

  test('items that arrive one by one, in unknown number, are completed when they end', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    async function* source() {
      for (const name of letters) yield { name }
    }

    const report = await hf.locks.runBatch('c1', source(), () => {}, { gapMs: 0, keyOf: ({ name }) => name })

    expect(report).toMatchObject({ outcome: 'completed', progress: { total: 8, done: 8 } })
  })

  test('a source that is not read to its end is notified, and can close what it reads from', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    let isClosed = false
    async function* source() {
      try {
        yield* letters
      } finally {
        isClosed = true
      }
    }

    const report = await hf.locks.runBatch('c1', source(), () => hf.runs.pause('c1'), {
      gapMs: 0,
      concurrency: 1,
    })

    expect(report.outcome).toBe('paused')
    expect(isClosed).toBe(true)
  })

  describe('while its source keeps it waiting, it ends', () => {
    type End = (hf: Holdfast, give: { stop(): void; another(): void }) => unknown
    const ends: Readonly<Record<string, End>> = {
      'when its signal fires': (_, { stop }) => stop(),
      'when its lock is lost': (hf) => hf.locks.forceRelease('global', { reason: 'test' }),
      'when the handle is closed': (hf) => hf.close(),
      'once the run is paused and another item comes': async (hf, { another }) => {
        await hf.runs.pause('c1')
        another()
      },
    }

    test.each(Object.keys(ends))('%s, and its lock is free', async (how) => {
      const { hf, env, store } = await engine.open({ agent: 'ada' })
      const observer = await store.open({ agent: 'bob' })
      const stop = new AbortController()
      let another = () => {}
      async function* source() {
        yield 'a'
        await new Promise<void>((resolve) => {
          another = resolve
        })
        yield 'b'
        await new Promise(() => {})
      }
      const worked: string[] = []
      const options = { gapMs: 0, concurrency: 2, signal: stop.signal }

      const running = hf.locks.runBatch('c1', source(), (item) => worked.push(item), options)
      await env.advance(1_000)
      await ends[how]?.(hf, { stop: () => stop.abort(), another: () => another() })
      await env.advance(1_000)

      expect(await running).toMatchObject({ outcome: 'paused', progress: { done: 1 } })
      expect(worked).toEqual(['a'])
      expect(await observer.locks.isAnyLocked()).toBe(false)
    })
  })

  describe('misuse of a batch', () => {
    const bad: [string, (hf: Holdfast) => Promise<BatchReport>][] = [
      ['no concurrency', (hf) => hf.locks.runBatch('c1', letters, () => {}, { concurrency: 0 })],
      ['a negative gap', (hf) => hf.locks.runBatch('c1', letters, () => {}, { gapMs: -1 })],
      ['items without keys', (hf) => hf.locks.runBatch('c1', [{} as string], () => {}, { gapMs: 0 })],
      ['a hostile run', (hf) => hf.locks.runBatch('../x', letters, () => {})],
      [
        'an unknown option',
        (hf) => hf.locks.runBatch('c1', letters, () => {}, { gapsMs: 5 } as RunBatchOptions<string>),
      ],
      ['a processing lock', (hf) => hf.locks.runBatch('c1', letters, () => {}, { lock: 'queue:x' })],
    ]

    test.each(bad)('%s is refused as INVALID, and the lock is free', async (_, call) => {
      const { hf } = await engine.open({ agent: 'ada' })

      expect(await refusalCode(() => call(hf))).toBe('INVALID')
      expect(await hf.locks.isAnyLocked()).toBe(false)
    })

    test('a handle that renews nothing cannot run a batch', async () => {
      const { hf } = await engine.open({ agent: 'ada', background: false })

      expect(await refusalCode(() => hf.locks.runBatch('c1', letters, () => {}))).toBe('INVALID')
      expect(await hf.locks.isAnyLocked()).toBe(false)
    })
  })
})
