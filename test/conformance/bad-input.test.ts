/** Misuse is refused with an explanation before anything changes. */
import { type OpenOptions, open, type Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const hostileNames = [
  '',
  ' ',
  '-lead',
  ' lead',
  'trail ',
  '../up',
  'a/../b',
  'a\nb',
  'a\0b',
  'a"b',
  "a'b",
  '\u202Egpj',
  'x'.repeat(201),
]
const hostileDurations = [-1, Number.NaN, Number.POSITIVE_INFINITY, 0.5, 86_400_001, Number.MAX_SAFE_INTEGER]

forEachEngine((engine) => {
  describe('a name', () => {
    const names = hostileNames.map((name) => ({ shown: JSON.stringify(name).slice(0, 20), name }))

    test.each(names)('$shown is refused as queue, key, dedupe key and agent', async ({ name }) => {
      const { hf, q, store } = await openJobs(engine)

      const codes = await Promise.all([
        refusalCode(() => hf.queue(name).add(null)),
        refusalCode(() => q.add(null, { key: name })),
        refusalCode(() => q.add(null, { dedupeKey: name })),
        refusalCode(() => store.open({ agent: name })),
      ])

      expect(codes).toEqual(['INVALID', 'INVALID', 'INVALID', 'INVALID'])
      expect((await q.list()).items).toEqual([])
    })

    test('that is refused as the agent of a handle is also refused for a single call', async () => {
      const { q } = await openJobs(engine)
      await q.add(null)

      for (const agent of hostileNames) {
        expect(await refusalCode(() => q.add(null, { agent }))).toBe('INVALID')
        expect(await refusalCode(() => q.next({ agent }))).toBe('INVALID')
        expect(await refusalCode(() => q.acquireProcessingLock({ agent }))).toBe('INVALID')
      }
      expect(await q.stats()).toMatchObject({ total: 1, processing: 0 })
    })

    test('that looks like SQL is only a name', async () => {
      const { hf } = await openJobs(engine)
      const q = hf.queue('jobs -- drop table item')

      await q.add(null, { key: 'x = 1, y ~ 2' })

      expect(await q.get('x = 1, y ~ 2')).toMatchObject({ state: 'pending' })
    })
  })

  describe('a duration', () => {
    test.each(hostileDurations)('of %d ms is refused wherever a lease is asked for', async (ms) => {
      const { q } = await openJobs(engine)
      const { item } = await q.add(null)

      const codes = [
        await refusalCode(() => q.next({ leaseMs: ms })),
        await refusalCode(() => q.nextWithLock({ agent: 'worker-1', leaseMs: ms })),
        await refusalCode(() => q.claimMany(1, { leaseMs: ms })),
        await refusalCode(() => q.acquireProcessingLock({ leaseMs: ms })),
      ]
      await q.next({ agent: 'worker-1' })
      codes.push(await refusalCode(() => q.renew(item.id, { agent: 'worker-1', leaseMs: ms })))
      await q.acquireProcessingLock({ agent: 'worker-1' })
      codes.push(await refusalCode(() => q.renewLock({ agent: 'worker-1', leaseMs: ms })))
      codes.push(await refusalCode(() => q.extendLock({ agent: 'worker-1', extraMs: ms })))

      expect(new Set(codes)).toEqual(new Set(['INVALID']))
    })

    test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, 0.5])(
      'of %d ms is refused as an age, a threshold and an option',
      async (ms) => {
        const { q, store } = await openJobs(engine)
        await q.add(null)

        const codes = await Promise.all([
          refusalCode(() => q.cleanup({ maxAgeMs: ms })),
          refusalCode(() => q.reclaimStale({ thresholdMs: ms })),
          refusalCode(() => store.open({ leaseMs: ms })),
          refusalCode(() => store.open({ busyTimeoutMs: ms })),
          refusalCode(() => store.open({ recovery: { everyMs: ms } })),
        ])

        expect(new Set(codes)).toEqual(new Set(['INVALID']))
      },
    )

    test.each([Number.NaN, -1, 1e20, new Date(Number.NaN)])(
      'or time of %s is refused as runAt',
      async (runAt) => {
        const { q } = await openJobs(engine)

        expect(await refusalCode(() => q.add(null, { runAt }))).toBe('INVALID')
      },
    )

    test('of the greatest possible length does no harm as a wait', async () => {
      const { q, env } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))
      const backoff = { baseMs: Number.MAX_SAFE_INTEGER, factor: 10, maxMs: Number.MAX_SAFE_INTEGER }

      const answer = await q.fail(item.id, 'no', { agent: 'worker-1', backoff }).catch((error) => error)

      if (answer instanceof Error) expect(answer).toMatchObject({ code: 'INVALID' })
      else expect(answer.runAt).toBeGreaterThan(env.now())
      expect((await q.list()).items).toHaveLength(1)
      expect((await q.next({ agent: 'worker-2' })).outcome).not.toBe('claimed')
    })
  })

  describe('a payload', () => {
    test.each([
      { what: 'a circle', payload: circle() },
      { what: 'a bigint', payload: { n: 1n } },
    ])('that is $what is refused', async ({ payload }) => {
      const { q } = await openJobs(engine)

      expect(await refusalCode(() => q.add(payload))).toBe('INVALID')
    })

    test('at the limit is kept and beyond it is refused, with both lengths', async () => {
      const { q } = await openJobs(engine)
      const most = 'x'.repeat(256 * 1024 - 2)

      const { item } = await q.add(most)
      const refused = await refusal(() => q.add(`${most}x`))
      const many = await refusalCode(() => q.addMany([{ payload: 1 }, { payload: `${most}x` }]))

      expect(item.payload).toBe(most)
      expect(refused).toMatchObject({ code: 'INVALID', facts: { bytes: 262_145, maxBytes: 262_144 } })
      expect(many).toBe('INVALID')
      expect(await q.stats()).toMatchObject({ total: 1 })
    })

    test('is measured in bytes, not in characters', async () => {
      const { q } = await openJobs(engine)
      const most = 'é'.repeat(128 * 1024 - 1)

      const { item } = await q.add(most)
      const refused = await refusal(() => q.add(`${most}é`))

      expect(item.payload).toBe(most)
      expect(refused).toMatchObject({ code: 'INVALID', facts: { bytes: 262_146, maxBytes: 262_144 } })
    })

    test('nested two hundred levels deep is kept, and deeper ones are refused: not every engine could read them', async () => {
      const { q } = await openJobs(engine)
      const levels = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`)
      const text = { text: '[{"\\'.repeat(1_000) }

      await q.add(levels(200))
      await q.add(text)
      const refused = await refusal(() => q.add(levels(201)))

      expect(refused).toMatchObject({ code: 'INVALID', facts: { maxDepth: 200 } })
      const { items } = await q.list()
      expect(items.map(({ payload }) => payload)).toEqual([levels(200), text])
    })

    test('is limited in size together with everything a workflow adds to it', async () => {
      const { q } = await openJobs(engine)
      const half = 'x'.repeat(140_000)
      const { item } = await q.add(null, { data: { one: half } })
      await q.next({ agent: 'worker-1' })

      const code = await refusalCode(() =>
        q.progress(item.id, 1, { agent: 'worker-1', data: { two: half } } as object),
      )

      expect(code).toBe('INVALID')
      expect((await q.get(item.id))?.data).toEqual({ one: half })
    })

    const values: unknown[] = [
      null,
      0,
      -0.5,
      '',
      '"',
      'nul \u0000 and lone \ud800',
      [],
      {},
      { constructor: 1, toString: 2 },
      { deep: [[[[[1]]]]] },
    ]

    test.each(values.map((payload) => ({ shown: JSON.stringify(payload), payload })))(
      '$shown comes back as it went in',
      async ({ payload }) => {
        const { q } = await openJobs(engine)
        await q.add(payload)

        const { item } = await claimed(q.next({ agent: 'worker-1' }))

        expect(item.payload).toEqual(payload)
      },
    )

    test.each(['result', 'progress', 'error'])('of a %s is limited in size too', async (kind) => {
      const { q } = await openJobs(engine)
      await q.add(null)
      const { item } = await claimed(q.next({ agent: 'worker-1' }))
      const big = 'x'.repeat(300_000)

      const acts: Record<string, () => Promise<unknown>> = {
        result: () => q.complete(item.id, { agent: 'worker-1', result: big }),
        progress: () => q.progress(item.id, big, { agent: 'worker-1' }),
        error: () => q.fail(item.id, big, { agent: 'worker-1' }),
      }

      expect(await refusalCode(acts[kind] as () => Promise<unknown>)).toBe('INVALID')
      expect(await q.get(item.id)).toMatchObject({ state: 'running' })
    })
  })

  describe('an unknown option', () => {
    test('of open is refused with the nearest known name', async () => {
      const { store } = await openJobs(engine)

      const top = await refusal(() => store.open({ leaseMS: 5 } as OpenOptions))
      const nested = await refusal(() => store.open({ recovery: { onopen: true } } as unknown as OpenOptions))

      expect([top.code, nested.code]).toEqual(['INVALID', 'INVALID'])
      expect(top.message).toContain('did you mean "leaseMs"?')
      expect(nested.message).toContain('did you mean "onOpen"?')
    })

    const calls: Record<
      string,
      { wrong: Record<string, unknown>; meant: string; act: (q: Queue, options: object) => unknown }
    > = {
      add: { wrong: { priorty: 1 }, meant: 'priority', act: (q, options) => q.add(null, options) },
      submit: {
        wrong: { headSha: 'abcd', beed: 'bd-1' },
        meant: 'bead',
        act: (q, options) => q.submit('w1', options as { headSha: string }),
      },
      list: { wrong: { state: ['pending'] }, meant: 'states', act: (q, options) => q.list(options) },
      next: { wrong: { leaseMS: 1_000 }, meant: 'leaseMs', act: (q, options) => q.next(options) },
      claimMany: {
        wrong: { leaseMS: 1_000 },
        meant: 'leaseMs',
        act: (q, options) => q.claimMany(1, options),
      },
      complete: {
        wrong: { agent: 'worker-1', reslt: 1 },
        meant: 'result',
        act: (q, options) => q.complete('held', options),
      },
      fail: {
        wrong: { agent: 'worker-1', retriable: false },
        meant: 'retryable',
        act: (q, options) => q.fail('held', 'no', options),
      },
      cancel: { wrong: { reasn: 'x' }, meant: 'reason', act: (q, options) => q.cancel('held', options) },
    }

    test.each(Object.entries(calls))('of %s is refused with the nearest known name', async (_name, call) => {
      const { q } = await openJobs(engine)
      await q.add(null, { key: 'held' })
      await q.next({ agent: 'worker-1' })
      const before = await q.get('held')

      const refused = await refusal(() => call.act(q, call.wrong))

      expect(refused.code).toBe('INVALID')
      expect(refused.message).toContain(`did you mean "${call.meant}"?`)
      expect(await q.get('held')).toEqual(before)
    })

    test('of a queue or a worker is refused with the nearest known name', async () => {
      const { hf } = await openJobs(engine)

      const queue = await refusal(() => hf.queue('main', { workflw: 'merge' } as object).add(null))
      const worker = await refusal(() => hf.work('jobs', () => {}, { concurency: 2 } as object))

      expect(queue.message).toContain('did you mean "workflow"?')
      expect(worker.message).toContain('did you mean "concurrency"?')
    })
  })

  describe('a move', () => {
    test('that the workflow does not have names both states and the possible moves', async () => {
      const { hf } = await openJobs(engine)
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1' })

      const refused = await refusal(() => q.move('w1', 'testing', { agent: 'worker-1' }))

      expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'claimed', to: 'testing' } })
      expect(refused.message).toContain('rebasing')
    })

    test('to an unknown state names the nearest one', async () => {
      const { hf } = await openJobs(engine)
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1' })

      const refused = await refusal(() => q.move('w1', 'rebaseing', { agent: 'worker-1' }))

      expect(refused.code).toBe('INVALID')
      expect(refused.message).toContain('did you mean "rebasing"?')
    })

    test('into a held state without a claim is refused', async () => {
      const { hf } = await openJobs(engine)
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })

      expect(await refusalCode(() => q.move('w1', 'claimed'))).toBe('ILLEGAL_MOVE')
    })
  })

  describe('a workflow', () => {
    const state = { moves: [] }

    test.each([
      { fault: 'no claimable state', states: { new: state, done: { ...state, closed: 'succeeded' } } },
      {
        fault: 'a held state that could never heal',
        states: {
          new: { claimTo: 'busy', moves: [] },
          busy: { held: true, moves: ['done'] },
          done: { ...state, closed: 'succeeded' },
        },
      },
      {
        fault: 'an arrow to nowhere',
        states: {
          new: { claimTo: 'busy', moves: ['nowhere'] },
          busy: { held: true, lostTo: 'new', moves: ['done'] },
          done: { ...state, closed: 'succeeded' },
        },
      },
    ])('with $fault is refused when it is defined', async ({ states }) => {
      const { hf } = await openJobs(engine)
      const workflow = { name: 'mine', initial: 'new', failsRetryably: true, retryForgives: true, states }

      expect(await refusalCode(() => hf.queue('own', { workflow: workflow as never }).define())).toBe(
        'INVALID',
      )
    })

    test('other than that of its queue is refused before anything is added', async () => {
      const { hf } = await openJobs(engine)
      await hf.queue('main', { workflow: 'merge' }).define()

      expect(await refusalCode(() => hf.queue('main', { workflow: 'job' }).add(null))).toBe('INVALID')
      expect(await refusalCode(() => hf.queue('other', { workflow: 'unheard-of' }).add(null))).toBe(
        'NOT_FOUND',
      )
    })

    test('that was missing at the first try is used once it is defined', async () => {
      const { hf } = await openJobs(engine)
      const q = hf.queue('other', { workflow: 'late' })
      const early = await refusalCode(() => q.add(null))
      const busy = { held: true, lostTo: 'new', moves: ['done'], completeTo: 'done' }
      const states = { new: { claimTo: 'busy', moves: [] }, busy, done: { moves: [], closed: 'succeeded' } }
      await hf.execute('workflow.define', { workflow: { name: 'late', initial: 'new', states } })

      const { item } = await q.add(null)

      expect(early).toBe('NOT_FOUND')
      expect(item.state).toBe('new')
    })

    test('defined by the user heals and completes like the built-in ones', async () => {
      const { hf, env } = await openJobs(engine)
      const q = hf.queue('reviews', {
        workflow: {
          name: 'review',
          initial: 'open',
          cancelTo: 'dropped',
          failsRetryably: true,
          retryForgives: true,
          states: {
            open: { claimTo: 'reading', moves: ['dropped'] },
            reading: {
              held: true,
              lostTo: 'open',
              moves: ['deciding', 'dropped'],
              failTo: 'dropped',
              failRetryableTo: 'open',
            },
            deciding: { held: true, lostTo: 'open', moves: ['approved'], completeTo: 'approved' },
            approved: { closed: 'succeeded', moves: [] },
            dropped: { closed: 'failed', moves: [] },
          },
        },
      })
      const { item } = await q.add(null)
      await q.next({ agent: 'worker-1', leaseMs: 1_000 })
      await q.move(item.id, 'deciding', { agent: 'worker-1' })
      await env.advance(1_001)
      await claimed(q.next({ agent: 'worker-2' }))
      await q.move(item.id, 'deciding', { agent: 'worker-2' })

      const done = await q.complete(item.id, { agent: 'worker-2' })

      expect(done).toMatchObject({ state: 'approved', outcome: 'succeeded', attempts: 2, crashes: 1 })
    })
  })

  test.each([0, -1, 101, 0.5, Number.NaN])('claiming %d items at once is refused', async (limit) => {
    const { q } = await openJobs(engine)
    await q.add(null)

    expect(await refusalCode(() => q.claimMany(limit))).toBe('INVALID')
  })

  test('claiming many from a queue with a lock is refused, and the error names the call to use [Q7]', async () => {
    const { hf } = await openJobs(engine)
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })

    const refused = await refusal(() => q.claimMany(2))

    expect(refused.code).toBe('INVALID')
    expect(refused.message).toContain('nextWithLock')
  })

  test.each(['{', '[]', '["open"]', '["closed",1]', 'null', '["open","a","b","c"]'])(
    'a page called %s is refused',
    async (after) => {
      const { q } = await openJobs(engine)

      expect(await refusalCode(() => q.list({ after }))).toBe('INVALID')
    },
  )

  test('taking work from live processes requires a reason [Q15]', async () => {
    const { q } = await openJobs(engine)
    await q.add(null)
    await claimed(q.next())

    expect(await refusalCode(() => q.reclaimStale({ thresholdMs: 0, force: true }))).toBe('INVALID')
    expect(await q.stats()).toMatchObject({ processing: 1 })
  })

  test('a method that returns a promise never throws synchronously', async () => {
    const { q } = await openJobs(engine)
    const throwsAtOnce = (call: () => Promise<unknown>) => {
      try {
        call().catch(() => {})
        return false
      } catch {
        return true
      }
    }

    expect(throwsAtOnce(() => q.reclaimStale({ thresholdMs: 0, force: true }))).toBe(false)
    expect(throwsAtOnce(() => q.add(null, { key: '' }))).toBe(false)
    expect(throwsAtOnce(() => open(''))).toBe(false)
  })

  describe('a store', () => {
    test.each(Object.keys(engine.unfit))('that is %s is refused and left as it was', async (what) => {
      const place = (await engine.unfit[what]?.()) ?? expect.fail('no such place')
      const before = await place.contents()

      const refused = await refusal(() => open(place.url, { logger: false }))

      expect(refused.code).toBe(place.code)
      expect(refused.message).toContain(place.named)
      expect(await place.contents()).toBe(before)
    })

    test.each(['', 'sqlite:', 'mongodb://host/db', 'a\0b'])('called %j is refused', async (url) => {
      expect(await refusalCode(() => open(url, { logger: false }))).toBe('INVALID')
    })

    test('that was closed answers every call with an explanation', async () => {
      const { hf, q } = await openJobs(engine)
      await q.add(null, { key: 'k' })
      await hf.close()
      await hf.close()

      const codes = await Promise.all([
        refusalCode(() => q.add(null)),
        refusalCode(() => q.next()),
        refusalCode(() => q.get('k')),
        refusalCode(() => q.list()),
        refusalCode(() => hf.recovery.detectAndRecoverStale()),
        refusalCode(() => hf.work('jobs', () => {})),
      ])

      expect(new Set(codes)).toEqual(new Set(['STORE_UNAVAILABLE']))
    })

    test('that is being closed answers calls made before', async () => {
      const { hf, q, store } = await openJobs(engine)

      const adding = q.add(null, { key: 'k' })
      const closing = hf.close()

      expect((await adding).item.key).toBe('k')
      await closing
      expect(await (await store.open()).queue('jobs').get('k')).not.toBeNull()
    })
  })
})

async function openJobs(engine: Engine) {
  const opened = await engine.open()
  const q: Queue = opened.hf.queue('jobs')
  return { ...opened, q }
}

function circle(): unknown {
  const self: { self?: unknown } = {}
  self.self = self
  return self
}
