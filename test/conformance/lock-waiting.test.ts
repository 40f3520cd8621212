/** Waiting for a lock: first come, first served, bounded in time, and dead waiters block nobody. */
import type { AcquiredLock, Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take, taken } from '../support/locks.ts'
import { refusal } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes, type Store } from '../support/stores.ts'
import { neverLooks, whileTimePasses } from '../support/wake.ts'

const minuteMs = 60_000

forEachEngine((engine) => {
  test('waiters get the lock in order of arrival [L16]', async () => {
    const { hf, env } = await engine.open({ agent: 'holder' })
    await take(hf, 'deploy')
    const served: string[] = []
    const waits: Promise<void>[] = []
    for (const agent of ['a', 'b', 'c', 'd']) {
      waits.push(waitAndRelease(hf, agent, served))
      await env.advance(0)
    }

    await hf.locks.releaseLock('deploy')
    for (let round = 0; round < 8; round++) await env.advance(600)
    await Promise.all(waits)

    expect(served).toEqual(['a', 'b', 'c', 'd'])
    expect((await hf.locks.list()).locks).toEqual([])
  })

  test('a release wakes a waiter on another handle without polling [L16] [S5-26]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    const other = await store.open({ agent: 'next', environment: neverLooks(env) })
    await take(hf, 'deploy')
    const waiting = other.locks.acquireLock('deploy', { waitMs: 60 * minuteMs })
    await env.advance(5_000)

    await hf.locks.releaseLock('deploy')

    expect(await whileTimePasses(env, waiting)).toMatchObject({
      outcome: 'acquired',
      lock: { holder: 'next' },
    })
  })

  test('a newcomer does not overtake a waiter, even if the lock is free at that moment [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder', recovery: false })
    const patient = await store.open({ agent: 'patient', recovery: false })
    const pushy = await store.open({ agent: 'pushy', recovery: false })
    await take(hf, 'deploy')
    const waiting = patient.locks.acquireLock('deploy', { waitMs: minuteMs })
    await env.advance(1_000)

    // In one turn: the newcomer asks after the release and before the waiter looks.
    const [, answer] = await Promise.all([
      hf.locks.releaseLock('deploy'),
      hf.locks.acquireLock('deploy', { agent: 'pushy' }),
    ])
    const late = pushy.locks.acquireLock('deploy')
    await env.advance(600)

    expect(answer).toMatchObject({ outcome: 'held', holder: 'patient' })
    expect(await late).toMatchObject({ outcome: 'held', holder: 'patient' })
    expect(await waiting).toMatchObject({ outcome: 'acquired' })
  })

  test('a wait that times out names the holder, and leaves no position behind [L16] [L2]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    const other = await store.open({ agent: 'next' })
    const { lock } = await take(hf, 'deploy', { agent: 'person' })
    const waiting = other.locks.acquireLock('deploy', { waitMs: 3_000 })

    await env.advance(2_900)
    const meanwhile = (await hf.locks.getCurrentLockInfo('deploy')).waiting
    await env.advance(200)

    expect(meanwhile).toBe(1)
    expect(await waiting).toEqual({
      outcome: 'held',
      holder: 'person',
      since: lock.acquiredAt,
      expiresAt: lock.lease.expiresAt,
    })
    expect(await waitersIn(store)).toEqual([])
  })

  test('a wait aborted by its signal rejects with the signal’s reason and leaves no position behind [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    await take(hf, 'deploy')
    const end = new AbortController()
    const waiting = hf.locks.acquireLock('deploy', { waitMs: minuteMs, signal: end.signal })
    const settled = waiting.catch((reason: unknown) => reason)
    await env.advance(1_000)

    end.abort(new Error('no longer needed'))
    await env.advance(10)

    expect(await settled).toMatchObject({ message: 'no longer needed' })
    expect(await waitersIn(store)).toEqual([])
    await expect(hf.locks.acquireLock('x', { waitMs: 5, signal: end.signal })).rejects.toThrow(
      'no longer needed',
    )
  })

  test('a signal ends a wait within 2 s while a turn in line cannot be taken [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder', background: false })
    const other = await store.open({ agent: 'next', background: false })
    await take(hf, 'deploy', { agent: 'person', leaseMs: 3_000 })
    const end = new AbortController()
    let ended = ''
    const wait = { waitMs: minuteMs, signal: end.signal }
    const waiting = other.locks.acquireLock('deploy', wait).catch((reason: unknown) => {
      ended = String(reason)
    })
    await env.advance(1_000)
    const letGo = await store.damage.holdUpWriters()
    await env.advance(3_000)

    end.abort(new Error('no longer needed'))
    await env.advance(2_100)
    const endedAs = ended
    await letGo()
    await env.advance(5_000)
    await waiting

    expect(endedAs).toBe('Error: no longer needed')
    expect(await waitersIn(store)).toEqual([])
    expect((await hf.locks.getCurrentLockInfo('deploy')).isLocked).toBe(false)
  })

  test('a handle that closes gives up its waits and positions [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    const other = await store.open({ agent: 'next' })
    await take(hf, 'deploy')
    const refused = refusal(() => other.locks.acquireLock('deploy', { waitMs: minuteMs }))
    await env.advance(1_000)

    await other.close()

    expect(await refused).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(await waitersIn(store)).toEqual([])
  })

  test('a waiter keeps its position however long it waits, by showing signs of life [L16]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'holder' })
    const first = await store.open({ agent: 'first', ...rareProbes })
    const second = await store.open({ agent: 'second', ...rareProbes })
    await take(hf, 'deploy')
    const waits: ReturnType<typeof hf.locks.acquireLock>[] = []
    for (const handle of [first, second]) {
      waits.push(handle.locks.acquireLock('deploy', { waitMs: 10 * minuteMs }))
      // One after the other: two that ask at once may come in either order.
      await env.advance(0)
    }
    await env.advance(minuteMs)

    await hf.locks.releaseLock('deploy')
    await env.advance(600)
    await first.locks.releaseLock('deploy')
    await env.advance(600)

    expect(await Promise.all(waits)).toMatchObject([
      { lock: { holder: 'first' } },
      { lock: { holder: 'second' } },
    ])
    const gone = (await readFeed(hf)).filter(({ kind, detail }) => kind === 'waiter.left' && detail?.evidence)
    expect(gone).toEqual([])
  })

  test('a waiter gets a lock that lapses, and one whose holder died, without any call [L16] [L9]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const victim = await store.open({ agent: 'victim', environment: host.process(101) })
    const heir = await store.open({ agent: 'heir', environment: host.process(102) })
    await take(victim, 'lapses', { agent: 'person', leaseMs: 2_000 })
    await take(victim, 'dies')
    const waits = ['lapses', 'dies'].map((name) => taken(heir.locks.acquireLock(name, { waitMs: minuteMs })))
    await env.advance(2_600)

    host.kill(101)
    await env.advance(1_000)

    const [lapsed, died] = await Promise.all(waits)
    expect(lapsed?.lock.holder).toBe('heir')
    expect(died?.lock.holder).toBe('heir')
  })

  test('a dead waiter delays nobody: its position goes once death is proven, or at the latest when it lapses [L16]', async () => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const holder = await store.open({ agent: 'holder', environment: host.process(100) })
    const victim = await store.open({ agent: 'victim', environment: host.process(101) })
    const heir = await store.open({ agent: 'heir', environment: host.process(102) })
    await take(holder, 'deploy')
    const lost = victim.locks.acquireLock('deploy', { waitMs: 10 * minuteMs })
    lost.catch(() => {})
    await env.advance(100)
    const waiting = taken(heir.locks.acquireLock('deploy', { waitMs: minuteMs }))
    await env.advance(100)

    // Its own loop must not go on renewing its place: a dead process does nothing.
    await victim.close()
    host.kill(101)
    await holder.locks.releaseLock('deploy')
    await env.advance(1_000)

    expect((await waiting).lock.holder).toBe('heir')
  })

  test('waiters of a lock with slots fill each free slot, in order [L16]', async () => {
    const { hf, env } = await engine.open({ agent: 'holder' })
    const first = await take(hf, 'gpu', { slots: 2 })
    await take(hf, 'gpu', { slots: 2 })
    const waits: Promise<AcquiredLock>[] = []
    for (const agent of ['a', 'b', 'c']) {
      waits.push(hf.locks.acquireLock('gpu', { slots: 2, agent, waitMs: 3_000 }))
      await env.advance(0)
    }

    await hf.locks.releaseLock('gpu', { token: first.lock.lease.token })
    await env.advance(1_000)
    await hf.locks.releaseLock('gpu')
    await env.advance(4_000)

    const answers = await Promise.all(waits)
    expect(answers.map(({ outcome }) => outcome)).toEqual(['acquired', 'acquired', 'held'])
  })

  test('an acquire that need not wait records no position, however long it would have waited', async () => {
    const { hf } = await engine.open({ agent: 'ada' })

    await take(hf, 'deploy', { waitMs: minuteMs })

    expect((await readFeed(hf)).filter(({ subject }) => subject === 'waiter')).toEqual([])
  })

  describe('what the store says of a line', () => {
    test('can be rebuilt from its events: positions taken and left [X2]', async () => {
      const { hf, env, store } = await engine.open({ agent: 'holder' })
      await take(hf, 'deploy')
      const waiting = hf.locks.acquireLock('deploy', { agent: 'next', waitMs: 2_000 })
      await env.advance(100)
      const during = await waitersIn(store)
      await env.advance(2_000)
      await waiting

      const events = (await readFeed(hf)).filter(({ subject }) => subject === 'waiter')
      expect(during).toHaveLength(1)
      expect(events.map(({ kind, agent }) => [kind, agent])).toEqual([
        ['waiter.joined', 'next'],
        ['waiter.left', 'next'],
      ])
    })
  })
})

async function waitAndRelease(hf: Holdfast, agent: string, served: string[]): Promise<void> {
  const { lock } = await take(hf, 'deploy', { agent, waitMs: minuteMs })
  served.push(agent)
  await hf.locks.releaseLock('deploy', { agent, token: lock.lease.token })
}

async function waitersIn(store: Store): Promise<string[]> {
  return [...(await store.readTables()).keys()].filter((key) => key.startsWith('waiter:'))
}
