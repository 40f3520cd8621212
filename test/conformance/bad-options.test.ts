/** What a handle takes beside the input of its operations: checked before anything is done. */
import { type Holdfast, open } from 'holdfast'
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { openPost, recorder } from '../support/messages.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const mistyped = { dryrun: true } as object

forEachEngine((engine) => {
  test('a position in line is not an option of acquireLock, even when the lock is held', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await take(hf, 'press')

    for (const options of [{ wait: true }, { waiter: 'somebody' }]) {
      const error = await refusal(() => hf.locks.acquireLock('press', options as object))
      expect(error).toMatchObject({ code: 'INVALID', message: expect.stringContaining('waitMs') })
    }
    expect((await hf.locks.getCurrentLockInfo('press')).waiting).toBe(0)
  })

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 9e9, '1000'])(
    'an adapter with a timeout of %s ms is refused: its deliveries could never be claimed',
    async (timeoutMs) => {
      const { messages } = await openPost(engine)
      const adapter = { ...recorder(), timeoutMs: timeoutMs as number }
      const broadcaster = { ...recorder(), broadcastTimeoutMs: timeoutMs as number }

      expect(await refusalCode(() => messages.adapter('pigeon', adapter))).toBe('INVALID')
      expect(await refusalCode(() => messages.adapter('pigeon', broadcaster))).toBe('INVALID')
    },
  )

  test('the inbox cannot be replaced by an adapter', async () => {
    const { messages, store } = await openPost(engine)

    expect(await refusalCode(() => messages.adapter('inbox', recorder()))).toBe('INVALID')
    expect(await refusalCode(() => open(store.url, { adapters: { inbox: recorder() } }))).toBe('INVALID')
  })

  test('a batch without a handler or without items is refused before its lock is taken', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    expect(await refusalCode(() => hf.locks.runBatch('run', ['a'], undefined as never))).toBe('INVALID')
    for (const items of [42, 'abc', null, undefined, {}])
      expect(await refusalCode(() => hf.locks.runBatch('run', items as never, () => {}))).toBe('INVALID')

    expect((await hf.locks.list()).locks).toEqual([])
    expect(await hf.runs.get('run')).toBeNull()
  })

  test.each(['record', 'fail', 'pause'] as const)(
    'errors about options of runs.%s name it',
    async (method) => {
      const { hf } = await engine.open({ agent: 'ada' })

      const { message } = await refusal(() => hf.runs[method]('run', new Map() as never))

      expect(message).toMatch(new RegExp(`^runs\\.${method}: `))
    },
  )

  test.each([0, -1, 1.5, Number.NaN, '5'])('updateWithRetry refuses %s attempts', async (maxAttempts) => {
    const { hf } = await engine.open({ agent: 'ada' })
    await hf.tasks.addTask('print', { key: 'T-1' })
    const options = { maxAttempts: maxAttempts as number }

    expect(await refusalCode(() => hf.tasks.updateWithRetry('T-1', () => null, options))).toBe('INVALID')
  })

  test.each<[string, (hf: Holdfast) => Promise<unknown>]>([
    ['queue.detectAndRecoverStale', (hf) => hf.queue('q').detectAndRecoverStale(mistyped)],
    ['recovery.detectAndRecoverStale', (hf) => hf.recovery.detectAndRecoverStale(mistyped)],
    ['locks.recoverLocksOnStartup', (hf) => hf.locks.recoverLocksOnStartup(mistyped)],
    ['fleet.doctor', (hf) => hf.fleet.doctor(mistyped)],
    ['queue.events', (hf) => hf.queue('q').events('x', mistyped)],
    ['events', (hf) => hf.events(mistyped).next()],
  ])('%s refuses an option it does not know, and does nothing [S5-19]', async (name, act) => {
    const { hf, env } = await engine.open({ agent: 'ada', recovery: false })
    await hf.queue('q').add(1)
    await hf.queue('q').next({ renew: false, leaseMs: 1_000 })
    await env.advance(2_000)

    const error = await refusal(() => act(hf))

    expect(error).toMatchObject({ code: 'INVALID', facts: { unknown: ['dryrun'] } })
    expect(error.message).toContain(`${name}: unknown option "dryrun"`)
    expect(await hf.queue('q').stats()).toMatchObject({ processing: 1 })
  })

  test.each([
    ['null', null],
    ['a Map', new Map([['maxAttempts', 1]])],
    ['a promise that was not awaited', Promise.resolve({ maxAttempts: 1 })],
  ])('options that are %s are refused, not left out [S5-19] [S5-35]', async (_, options) => {
    const { hf } = await engine.open({ agent: 'ada' })

    expect(await refusalCode(() => hf.state('k').update(() => 1, options as never))).toBe('INVALID')
    expect(await refusalCode(async () => hf.work('q', () => {}, options as never))).toBe('INVALID')
    expect(await refusalCode(() => hf.queue('q').add(1, options as never))).toBe('INVALID')
    expect(await refusalCode(() => hf.tasks.addTask('print', options as never))).toBe('INVALID')
    expect(await hf.execute('queue.describe', { queue: 'q' })).toBeNull()
  })

  test('an error about unknown options stays short, however many and long they are [S5-19]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`option${index}`, 1]))

    for (const options of [many, { ['x'.repeat(1_000_000)]: 1 }]) {
      const error = await refusal(() => hf.queue('q').add(1, options))
      expect(error.code).toBe('INVALID')
      expect(JSON.stringify(error.message).length).toBeLessThan(1_000)
    }
  })

  test('an unknown option of the background cleanup is refused with the nearest name', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    const error = await refusal(() => hf.tasks.startLockCleanupBackground({ evryMs: 5 } as object))

    expect(error).toMatchObject({ code: 'INVALID', message: expect.stringContaining('everyMs') })
  })
})
