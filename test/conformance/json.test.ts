/**
 * Values of the caller's own (payloads, facts, results, progress, documents, contents) are turned into JSON once, where
 * they come in: the same on every engine, and what JSON cannot carry is refused with its path.
 */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

/** Every way in, and the way out; `at` is where its refusals begin. */
interface Place {
  readonly at: string
  keep(hf: Holdfast, value: unknown): Promise<unknown>
}

const places: Record<string, Place> = {
  'a payload': {
    at: 'payload',
    keep: async (hf, value) => (await hf.queue('q').get((await hf.queue('q').add(value)).item.id))?.payload,
  },
  'a payload under an idempotency key': {
    at: 'payload',
    keep: async (hf, value) => (await hf.queue('q').add(value, { idempotencyKey: 'k' })).item.payload,
  },
  'one of many payloads': {
    at: 'items.1.payload',
    async keep(hf, value) {
      const { ids } = await hf.queue('q').addMany([{ payload: 1 }, { payload: value }])
      return (await hf.queue('q').get(ids[1] as string))?.payload
    },
  },
  'the payload of a change': {
    at: 'payload',
    keep: async (hf, value) =>
      (await hf.queue('m', { workflow: 'merge' }).submit('w1', { headSha: 'abcd', payload: value })).item
        .payload,
  },
  'a fact': {
    at: 'data.fact',
    keep: async (hf, value) => (await hf.queue('q').add(null, { data: { fact: value } })).item.data.fact,
  },
  'progress of an item': {
    at: 'progress',
    async keep(hf, value) {
      await hf.queue('q').add(null)
      const { item } = await claimed(hf.queue('q').next())
      return (await hf.queue('q').progress(item.id, value)).progress
    },
  },
  'a result': {
    at: 'result',
    async keep(hf, value) {
      await hf.queue('q').add(null)
      const { item } = await claimed(hf.queue('q').next())
      return (await hf.queue('q').complete(item.id, { result: value })).result
    },
  },
  'a document': {
    at: 'value',
    async keep(hf, value) {
      await hf.state('plan').set(value)
      return (await hf.state('plan').get())?.value
    },
  },
  'a change of a document': {
    at: 'value',
    async keep(hf, value) {
      await hf.state('plan').update(() => value as never)
      return (await hf.state('plan').get())?.value
    },
  },
  'the content of a message': {
    at: 'content',
    async keep(hf, value) {
      await hf.messages.register('bob')
      const { message } = await hf.messages.sendWithAck('bob', { content: value })
      return (await hf.messages.get(message.id))?.content
    },
  },
  'metadata of a task': {
    at: 'metadata',
    keep: async (hf, value) => (await hf.tasks.addTask('t', { metadata: value })).metadata,
  },
  'progress of a task': {
    at: 'progress',
    async keep(hf, value) {
      const { id } = await hf.tasks.addTask('t')
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent(id))
      return (await hf.tasks.updateTask(task.id, { progress: value })).progress
    },
  },
  'a cursor': {
    at: 'cursor',
    async keep(hf, value) {
      await hf.locks.acquireLock('press', { run: 'r' })
      return (await hf.runs.start('r', { lock: 'press', cursor: value })).cursor
    },
  },
}

const circle: Record<string, unknown> = {}
circle.self = circle

/** What is not JSON, and where in it. */
const refused: Record<string, { value: unknown; path: string }> = {
  'a function': { value: () => 1, path: '' },
  'a function inside': { value: { call: () => 1 }, path: '.call' },
  'a Map inside': { value: { of: { users: new Map([['a', 1]]) } }, path: '.of.users' },
  'a Set': { value: new Set([1]), path: '' },
  'a BigInt inside': { value: [{ n: 1n }], path: '.0.n' },
  'not-a-number inside': { value: { n: Number.NaN }, path: '.n' },
  'an infinity': { value: Number.POSITIVE_INFINITY, path: '' },
  'undefined in a list': { value: [1, undefined], path: '.1' },
  'an object in itself': { value: circle, path: '.self' },
}

class Money {
  readonly #cents: number
  readonly currency = 'EUR'
  constructor(cents: number) {
    this.#cents = cents
  }
  cents() {
    return this.#cents
  }
}

forEachEngine((engine) => {
  describe.each(Object.entries(places))('%s', (_what, { at, keep }) => {
    test('that JSON cannot represent is refused with its path, and nothing is stored [S5-20] [S5-35]', async () => {
      const { hf } = await engine.openInRealTime({ agent: 'ada', durability: 'normal' })

      for (const [what, { value, path }] of Object.entries(refused)) {
        const error = await refusal(() => keep(hf, value))
        expect({ what, code: error.code }).toEqual({ what, code: 'INVALID' })
        expect(`${what}: ${error.what}`).toContain(`${at}${path}: `)
      }
    })

    test('is the same on every engine, whatever its toJSON does [S5-31]', async () => {
      const { hf } = await openFresh(engine)
      let asked = 0
      const value = {
        price: new Money(5),
        when: new Date(0),
        once: { toJSON: () => ++asked },
        left: undefined,
        list: [null, { deep: undefined }],
      }

      expect(await keep(hf, value)).toEqual({
        price: { currency: 'EUR' },
        when: '1970-01-01T00:00:00.000Z',
        once: 1,
        list: [null, {}],
      })
      expect(asked).toBe(1)
    })
  })

  test('undefined is not a payload, progress, document or content [S5-20]', async () => {
    const { hf } = await openFresh(engine)
    const q = hf.queue<unknown>('q')
    const { item } = await q.add(null)

    const codes = await Promise.all(
      [
        () => q.add(undefined),
        () => q.addMany([{ payload: undefined }]),
        () => q.progress(item.id, undefined),
        () => hf.state('plan').set(undefined),
        () => hf.messages.sendWithAck('ada', { content: undefined }),
      ].map(refusalCode),
    )

    expect(new Set(codes)).toEqual(new Set(['INVALID']))
    expect(await q.stats()).toMatchObject({ total: 1 })
  })

  test.each([-1, 11, 0.5, 2 ** 31])(
    '%d is not a priority, wherever one is given [S5-20]',
    async (priority) => {
      const { hf } = await openFresh(engine)
      const { item } = await hf.queue('q').add(null)
      await hf.tasks.addTask('t', { key: 'T-1' })

      const codes = await Promise.all(
        [
          () => hf.queue('q').add(null, { priority }),
          () => hf.queue('q').addMany([{ payload: 1, priority }]),
          () => hf.queue('q').submit('w', { headSha: 'abcd', priority }),
          () => hf.queue('q').setPriority(item.id, priority),
          () => hf.tasks.addTask('t', { priority }),
          () => hf.tasks.updateTask('T-1', { priority }),
          () => hf.tasks.listTasks({ maxPriority: priority }),
          () => hf.tasks.claimNext({ maxPriority: priority }),
          () => hf.messages.sendWithAck('ada', { content: 1, priority }),
        ].map(refusalCode),
      )

      expect(new Set(codes)).toEqual(new Set(['INVALID']))
    },
  )
})

function openFresh(engine: Engine) {
  return engine.openInRealTime({ agent: 'ada', durability: 'normal' })
}
