/** Programs throw anything at all. Whatever it is, nothing stays held because of it. */
import type { Logger } from 'holdfast'
import { expect, test, vi } from 'vitest'
import { claimed, present } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const never = (): never => {
  throw new Error('it cannot be read')
}
/** The stack first: it is made when it is replaced, out of the others. */
const unreadable = ['stack', 'message', 'code', 'cause', 'retryable', 'toString', 'toJSON']

/** Each of these throws when it is looked at. */
const thrown: Readonly<Record<string, () => unknown>> = {
  'an object without a prototype': () => Object.create(null),
  'a symbol': () => Symbol('odd'),
  'a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
  'a proxy with no prototype to ask for': () => new Proxy(new Error(), { getPrototypeOf: never, has: never }),
  'an error whose fields throw': () =>
    Object.defineProperties(
      new Error('x'),
      Object.fromEntries(unreadable.map((field) => [field, { get: never }])),
    ),
  'errors that cause each other': () => {
    const [one, other] = [new Error('one'), new Error('other')]
    one.cause = other
    other.cause = one
    return one
  },
  'an error with a code of ours and nothing else': () =>
    Object.assign(new Error('away'), { code: 'STORE_UNAVAILABLE' }),
  'an error whose code is the name of a method': () => Object.assign(new Error('x'), { code: 'toString' }),
}

const kinds = Object.keys(thrown)

forEachEngine((engine) => {
  test('a handler may throw anything, and its item fails [S5c-3]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue<string>('jobs')
    await q.addMany(kinds.map((payload) => ({ payload, maxAttempts: 1 })))

    const worker = hf.work(q, ({ payload }) => {
      throw thrown[payload]?.()
    })
    await env.advance(1_000)
    await worker.stop()

    const { items } = await q.list({ states: ['failed'] })
    expect(items.map(({ payload }) => payload).sort()).toEqual(kinds.toSorted())
  })

  test('an error thrown while the store closes leaves nothing held [S5c-3]', async () => {
    const { hf, env, store } = await engine.open()
    const q = hf.queue<string>('jobs')
    const { ids } = await q.addMany(kinds.map((payload) => ({ payload })))
    let goOn = () => {}
    const gate = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const handler = async ({ payload }: { payload: string }) => {
      await gate
      throw thrown[payload]?.()
    }
    hf.work(q, handler, { concurrency: kinds.length })
    await env.advance(100)

    const closing = hf.close()
    await env.advance(10)
    goOn()
    await env.advance(1_000)
    await closing

    const later = (await store.open()).queue('jobs')
    const left = await Promise.all(ids.map((id) => later.get(id)))
    expect(left).toMatchObject(ids.map(() => ({ holder: null, failures: 1, crashes: 0 })))
  })

  test('a logger that throws does not leave an item held [S5c-3]', async () => {
    const onStderr: string[] = []
    const write = vi.spyOn(process.stderr, 'write').mockImplementation((text) => onStderr.push(`${text}`) > 0)
    const logger: Logger = { debug: never, info: never, warn: never, error: never }
    const { hf, env } = await engine.open({ logger })
    const q = hf.queue('jobs')
    const { item } = await q.add(null, { maxAttempts: 1 })

    const worker = hf.work(q, () => {
      throw new Error('no such user')
    })
    await env.advance(100)
    await worker.stop()
    write.mockRestore()

    expect(await q.get(item.id)).toMatchObject({ state: 'failed', failures: 1 })
    expect(onStderr.join('')).toContain('item.failed queue="jobs"')
  })

  test('an item whose end the store never records is no longer renewed [S5c-3]', async () => {
    const { hf, env, store } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    let answer = () => {}
    const handler = () => new Promise<void>((resolve) => (answer = resolve))
    hf.work(q, handler, { leaseMs: 3_000 })
    await env.advance(100)
    const mend = await store.damage.failEvents()

    answer()
    await env.advance(15_000)
    const { lease } = await present(q.get(item.id))
    await mend()

    expect(lease?.expiresAt).toBeLessThan(env.now())
  })

  test('fail() with any value succeeds, or is refused as INVALID [S5c-3]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany(kinds.map((payload) => ({ payload, maxAttempts: 1 })))
    const answers: unknown[] = []

    for (const make of Object.values(thrown)) {
      const { item } = await claimed(q.next())
      const failing = q.fail(item.id, make() as Error)
      answers.push(
        await failing.then(
          ({ state }) => state,
          ({ code }) => code,
        ),
      )
    }

    expect(answers.filter((answer) => answer !== 'failed' && answer !== 'INVALID')).toEqual([])
  })

  test('a batch continues after a handler threw something without a text [S5c-3]', async () => {
    const { hf, env } = await engine.open()

    const running = hf.locks.runBatch('evaluation', kinds, (kind) => {
      throw thrown[kind]?.()
    })
    await env.advance(10_000)

    expect(await running).toMatchObject({ outcome: 'completed', progress: { failed: kinds.length } })
  })

  test('an adapter may throw anything, and its message is recorded as failed [S5c-3]', async () => {
    const send = ({ content }: { content: unknown }) => {
      throw thrown[content as string]?.()
    }
    const { hf, env } = await engine.open({ redelivery: false, adapters: { odd: { send } } })
    await hf.messages.register('bob', { adapter: 'odd' })
    const sent = await Promise.all(kinds.map((content) => hf.messages.sendWithAck('bob', { content })))

    const passing = hf.messages.processRetries()
    await env.advance(10_000)

    expect(await passing).toMatchObject({ failed: kinds.length })
    const messages = await Promise.all(sent.map(({ message }) => hf.messages.get(message.id)))
    expect(messages).toMatchObject(
      kinds.map(() => ({ deliveries: [{ attempts: 1, error: expect.stringMatching(/./) }] })),
    )
  })
})
