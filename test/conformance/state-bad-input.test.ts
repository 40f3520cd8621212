/** Misuse of a versioned document is refused with an explanation before anything changes. */
import type { Holdfast, State } from 'holdfast'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { readFeed } from '../support/feed.ts'
import { present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const hostileKeys = ['', ' ', '-lead', 'trail ', '../up', 'a\nb', 'a\0b', 'a"b', 'a%b', 'x'.repeat(201)]
const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

const misuses: Record<string, (state: State, hf: Holdfast) => unknown> = {
  'set of undefined': (state) => state.set(undefined),
  'set of a function': (state) => state.set(() => 1),
  'set of a symbol': (state) => state.set(Symbol('s')),
  'set of a big integer': (state) => state.set(1n),
  'set of not-a-number': (state) => state.set(Number.NaN),
  'set of a cycle': (state) => state.set(cyclic),
  'set of too much': (state) => state.set('x'.repeat(256 * 1024)),
  'set with a negative version': (state) => state.set(1, { expectedVersion: -1 }),
  'set with half a version': (state) => state.set(1, { expectedVersion: 0.5 }),
  'set with a version that is text': (state) => state.set(1, { expectedVersion: '1' as never }),
  'set by nobody': (state) => state.set(1, { agent: '' }),
  'history of no entries': (state) => state.history({ limit: 0 }),
  'history of too many entries': (state) => state.history({ limit: 1001 }),
  'history before a negative number': (state) => state.history({ before: -1 }),
  'update to a function': (state) => state.update(() => (() => 1) as never),
  'update without any attempt': (state) => state.update(() => 1, { maxAttempts: 0 }),
  'update with negative attempts': (state) => state.update(() => 1, { maxAttempts: -1 }),
  'update with endless attempts': (state) => state.update(() => 1, { maxAttempts: Number.POSITIVE_INFINITY }),
  'update with something else than a signal': (state) => state.update(() => 1, { signal: {} as never }),
  'update without a function': (state) => state.update(1 as never),
  'watch since a negative version': (state) => state.watch({ since: -1 }),
  'a schema that is none': (_state, hf) => hf.state('plan', { schema: 1 as never }).get(),
  'list of no keys': (_state, hf) => hf.state.list({ limit: 0 }),
  'list of a prefix too long': (_state, hf) => hf.state.list({ prefix: 'x'.repeat(201) }),
}

const typos: Record<string, { meant: string; act: (state: State, hf: Holdfast) => unknown }> = {
  set: { meant: 'expectedVersion', act: (state) => state.set(1, { expectedVerison: 1 } as object) },
  delete: { meant: 'expectedVersion', act: (state) => state.delete({ expectVersion: 1 } as object) },
  update: { meant: 'maxAttempts', act: (state) => state.update(() => 1, { maxAttempt: 1 } as object) },
  history: { meant: 'limit', act: (state) => state.history({ limt: 1 } as object) },
  watch: { meant: 'since', act: (state) => state.watch({ sinc: 1 } as object) },
  state: { meant: 'schema', act: (_state, hf) => hf.state('plan', { shema: z.string() } as object) },
  list: { meant: 'prefix', act: (_state, hf) => hf.state.list({ prefx: 'a' } as object) },
}

forEachEngine((engine) => {
  test.each(hostileKeys)('the key %j is refused by every call', async (key) => {
    const { hf } = await engine.open()
    const state = hf.state(key)

    const codes = await Promise.all(
      [
        () => state.get(),
        () => state.set(1),
        () => state.update(() => 1),
        () => state.delete(),
        () => state.history(),
        () => state.watch().next(),
      ].map(refusalCode),
    )

    expect(new Set(codes)).toEqual(new Set(['INVALID']))
    expect((await hf.state.list()).states).toEqual([])
  })

  test.each(Object.keys(misuses))('%s is INVALID and changes nothing', async (what) => {
    const { hf, plan, unchanged } = await openPlan(engine)

    const refused = await refusal(() => misuses[what]?.(plan, hf))

    expect(refused.code).toBe('INVALID')
    expect(refused.next).not.toBe('')
    await unchanged()
  })

  test.each(Object.entries(typos))(
    'an unknown option of %s is refused with the nearest known name',
    async (_name, { meant, act }) => {
      const { hf, plan, unchanged } = await openPlan(engine)

      const refused = await refusal(() => act(plan, hf))

      expect(refused.code).toBe('INVALID')
      expect(refused.message).toContain(`did you mean "${meant}"?`)
      await unchanged()
    },
  )

  describe('a schema', () => {
    const schema = z.object({ steps: z.array(z.string()).default([]) })

    test('is checked on write, and reads return its output', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan', { schema })

      const refused = await refusal(() => plan.set({ steps: [1] } as never))
      const update = await plan.update(() => ({}) as never)

      expect(refused).toMatchObject({ code: 'INVALID', facts: { state: 'plan' } })
      expect(refused.message).toContain('steps.0')
      expect(update).toMatchObject({ value: { steps: [] } })
      expect((await plan.get())?.value).toEqual({ steps: [] })
      expect((await hf.state('plan').get())?.value).toEqual({})
    })

    test('is checked on read, before an update sees a value that does not fit', async () => {
      const { hf } = await engine.open()
      await hf.state('plan').set('of another age')
      const plan = hf.state('plan', { schema })
      let calls = 0

      const codes = [
        await refusalCode(() => plan.get()),
        await refusalCode(() => plan.update(() => void calls++ as never)),
        await refusalCode(() => plan.watch().next()),
      ]

      expect(codes).toEqual(['INVALID', 'INVALID', 'INVALID'])
      expect(calls).toBe(0)
      expect((await plan.history()).entries).toMatchObject([{ value: 'of another age' }])
    })
  })
})

async function openPlan(engine: Engine) {
  const { hf } = await engine.open()
  const plan = hf.state('plan')
  await plan.set('as it is')
  const entry = await present(plan.get())
  const feed = await readFeed(hf)
  return {
    hf,
    plan,
    async unchanged() {
      expect(await plan.get()).toEqual(entry)
      expect(await readFeed(hf)).toEqual(feed)
    },
  }
}
