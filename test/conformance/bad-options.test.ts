/** What a handle takes beside the input of its operations: checked before anything is done. */
import { open } from 'holdfast'
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { openPost, recorder } from '../support/messages.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a place in line is no option of acquireLock, also when the lock is held', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await take(hf, 'press')

    for (const options of [{ wait: true }, { waiter: 'somebody' }]) {
      const error = await refusal(() => hf.locks.acquireLock('press', options as object))
      expect(error).toMatchObject({ code: 'INVALID', message: expect.stringContaining('waitMs') })
    }
    expect((await hf.locks.getCurrentLockInfo('press')).waiting).toBe(0)
  })

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 9e9, '1000'])(
    'an adapter that may take %s ms is refused: its deliveries could never be claimed',
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
    expect(await hf.locks.progress.get('run')).toBeNull()
  })

  test.each([0, -1, 1.5, Number.NaN, '5'])('updateWithRetry does not try %s times', async (attemptsMax) => {
    const { hf } = await engine.open({ agent: 'ada' })
    await hf.tasks.addTask('print', { key: 'T-1' })
    const options = { attemptsMax: attemptsMax as number }

    expect(await refusalCode(() => hf.tasks.updateWithRetry('T-1', () => null, options))).toBe('INVALID')
  })

  test('an unknown option of the background cleanup is refused with the nearest name', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    const error = await refusal(() => hf.tasks.startLockCleanupBackground({ evryMs: 5 } as object))

    expect(error).toMatchObject({ code: 'INVALID', message: expect.stringContaining('everyMs') })
  })
})
