/** Work under a lock: nobody else holds it meanwhile, and it is released however the work ends. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { gate } from '../support/messages.ts'
import { refusal } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('work under a lock is alone, and its result is the answer', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    const answer = await hf.locks.withLock('deploy', async (lease) => {
      lease.assertHeld()
      return await hf.locks.acquireLock('deploy', { agent: 'bob' })
    })

    expect(answer).toMatchObject({ outcome: 'finished', result: { outcome: 'held', holder: 'ada' } })
    expect((await hf.locks.list()).locks).toEqual([])
  })

  test('a lock is released when the work under it throws, and the error is the one thrown', async () => {
    const { hf } = await engine.open()
    const error = new Error('no disk')

    const running = hf.locks.withLock('deploy', () => {
      throw error
    })

    await expect(running).rejects.toBe(error)
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('work does not start while somebody else holds the lock', async () => {
    const { hf } = await engine.open()
    await take(hf, 'deploy', { agent: 'bob' })
    let started = false

    const answer = await hf.locks.withLock('deploy', () => {
      started = true
    })

    expect(answer).toMatchObject({ outcome: 'held', holder: 'bob' })
    expect(started).toBe(false)
  })

  test('work waits in line when asked to, and its signal ends the wait', async () => {
    const { hf, env } = await engine.open()
    const { lock } = await take(hf, 'deploy', { agent: 'bob' })
    const giveUp = new AbortController()
    const waiting = hf.locks.withLock('deploy', () => 'done', { waitMs: 60_000 })
    await env.advance(0)
    const abandoned = hf.locks.withLock('deploy', () => 'never', { waitMs: 60_000, signal: giveUp.signal })

    giveUp.abort(new Error('enough'))
    await expect(abandoned).rejects.toThrow('enough')
    await hf.locks.releaseLock('deploy', { agent: 'bob', token: lock.lease.token })
    await env.advance(600)

    expect(await waiting).toEqual({ outcome: 'finished', result: 'done' })
  })

  test('work whose lock was taken from it is told, and never passes for finished', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    let reason: unknown

    const running = hf.locks.withLock('deploy', async ({ signal }) => {
      await hf.locks.forceRelease('deploy', { reason: 'stuck' })
      await take(hf, 'deploy', { agent: 'bob' })
      await env.advance(1_000)
      reason = signal.reason
      return 'late'
    })

    expect(await refusal(() => running)).toMatchObject({ code: 'LEASE_LOST' })
    expect(reason).toMatchObject({ code: 'LEASE_LOST' })
    expect(await hf.locks.isLockedBy('deploy', { agent: 'bob' })).toBe(true)
  })

  test('work that learns of its loss only when it gives back the lock has not finished either', async () => {
    const { hf, store } = await engine.open({ agent: 'ada' })
    const operator = await store.open({ agent: 'operator', recovery: false })

    const running = hf.locks.withLock('deploy', async () => {
      await operator.locks.forceRelease('deploy', { reason: 'stuck' })
      return 'late'
    })

    expect(await refusal(() => running)).toMatchObject({ code: 'LEASE_LOST' })
  })

  test('work may release its lock early', async () => {
    const { hf } = await engine.open()

    const answer = await hf.locks.withLock('deploy', async () => {
      await hf.locks.releaseLock('deploy')
      await take(hf, 'deploy', { agent: 'bob' })
    })

    expect(answer).toEqual({ outcome: 'finished', result: undefined })
    expect(await hf.locks.isLockedBy('deploy', { agent: 'bob' })).toBe(true)
  })

  test('a reentrant lock is kept by the outer work when the inner work ends', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    const answer = await hf.locks.withLock('deploy', async (lease) => {
      await hf.locks.withLock('deploy', () => {}, { reentrant: true })
      lease.assertHeld()
      return await hf.locks.isLockedBy('deploy')
    })

    expect(answer).toEqual({ outcome: 'finished', result: true })
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('a handle that renews nothing does not start work under a lock, and leaves none behind', async () => {
    const { hf } = await engine.open({ background: false })
    let started = false

    const running = hf.locks.withLock('deploy', () => {
      started = true
    })

    expect(await refusal(() => running)).toMatchObject({ code: 'INVALID' })
    expect(started).toBe(false)
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('work that is no function, and options it does not have, are refused before the lock is taken', async () => {
    const { hf } = await engine.open()

    const none = hf.locks.withLock('deploy', undefined as never)
    const other = hf.locks.withLock('deploy', () => {}, { agent: 'bob' } as never)

    expect(await refusal(() => none)).toMatchObject({ code: 'INVALID' })
    expect(await refusal(() => other)).toMatchObject({ code: 'INVALID' })
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('work under a lock that was not named has the default lock, and gives it back', async () => {
    const { hf } = await engine.open()

    const answer = await hf.locks.withLock(undefined as never, () => hf.locks.isLockedBy())

    expect(answer).toEqual({ outcome: 'finished', result: true })
    expect(await hf.locks.isAnyLocked()).toBe(false)
  })

  test('closing waits for the work under a lock', async () => {
    const { hf, env } = await engine.open()
    const started = gate()
    const finish = gate()
    const running = hf.locks.withLock('deploy', async () => {
      started.open()
      await finish.opened
      return await hf.locks.isLockedBy('deploy')
    })
    await started.opened

    const closing = hf.close()
    await env.advance(1_000)
    finish.open()
    const answer = await running
    await closing

    expect(answer).toEqual({ outcome: 'finished', result: true })
  })
})
