/** Locks whose holders are gone: freed at start-up, by a sweep or by whoever asks next; their runs are paused. */
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { present } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, type Opened } from '../support/stores.ts'

const hourMs = 3_600_000

forEachEngine((engine) => {
  /** A server that crashed in the middle of a run, long ago; nothing has healed since. */
  async function crashed(): Promise<Opened> {
    const opened = await engine.open({ background: false, recovery: false })
    const { hf, env } = opened
    await take(hf, 'global', { agent: 'server-1', run: 'c1', user: 'olga' })
    await hf.runs.start('c1', { agent: 'server-1', total: 10 })
    await hf.runs.record('c1', { agent: 'server-1', done: 4, cursor: 'item-4' })
    await env.advance(2 * hourMs)
    return opened
  }

  test('the five steps: a stale lock, its run, recovery, a new lock, clean-up [L19] [L9] [P4]', async () => {
    const { store } = await crashed()

    const server = await store.open({ agent: 'server-2', recovery: { onOpen: false } })
    const report = await server.locks.recoverLocksOnStartup()

    expect(report).toMatchObject({ locksReleased: 1, runsPaused: 1, kept: [] })
    expect(await server.locks.getCurrentLockInfo()).toMatchObject({ isLocked: false, lockedBy: null })
    expect(await server.runs.get('c1')).toMatchObject({
      status: 'paused',
      pauseReason: expect.stringContaining('Server restart'),
      done: 4,
      cursor: 'item-4',
    })
    expect(await server.locks.acquireLock('global', { run: 'c1' })).toMatchObject({ outcome: 'acquired' })
    expect(await server.locks.releaseLock('global')).toBe(true)
    expect(await server.runs.remove('c1')).toBe(true)
    expect([...(await store.readTables()).keys()].filter((key) => !key.startsWith('instance:'))).toEqual([])
  })

  test('opening the store recovers automatically, and the report mentions it once [L9] [P6]', async () => {
    const { store } = await crashed()

    const server = await store.open({ agent: 'server-2' })

    expect(await server.locks.isAnyLocked()).toBe(false)
    expect(await server.locks.recoverLocksOnStartup()).toMatchObject({ locksReleased: 1, runsPaused: 1 })
    expect(await server.locks.recoverLocksOnStartup()).toMatchObject({ locksReleased: 0, runsPaused: 0 })
  })

  test('of two servers that start together, one acts [L10]', async () => {
    const { hf, store } = await crashed()
    const servers = await Promise.all(
      ['server-2', 'server-3'].map((agent) => store.open({ agent, recovery: { onOpen: false } })),
    )

    const reports = await Promise.all(servers.map((server) => server.locks.recoverLocksOnStartup()))

    expect(reports.reduce((sum, { locksReleased }) => sum + locksReleased, 0)).toBe(1)
    expect(reports.reduce((sum, { runsPaused }) => sum + runsPaused, 0)).toBe(1)
    const kinds = (await readFeed(hf)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'lock.expired' || kind === 'run.paused')).toHaveLength(2)
  })

  test('another live server’s lock is left alone, and the report names it [L9]', async () => {
    const { store } = await crashed()
    const alive = await store.open({ agent: 'server-2' })
    await take(alive, 'other', { run: 'c2' })
    await alive.runs.start('c2', { lock: 'other', total: 5 })

    const server = await store.open({ agent: 'server-3' })
    const report = await server.locks.recoverLocksOnStartup()

    expect(report.kept).toMatchObject([{ name: 'other', holder: 'server-2' }])
    expect(await server.runs.get('c2')).toMatchObject({ status: 'running' })
    expect(await server.locks.isLockedBy('other', { agent: 'server-2' })).toBe(true)
  })

  test('one’s own locks are not reported as kept by others, however many there are [S5c-51]', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const host = machine(env)
    const server = await store.open({ agent: 'server-1', environment: host.process(101) })
    const twin = await store.open({ agent: 'server-1', environment: host.process(102) })
    for (let number = 0; number < 3; number++) await take(server, `own-${number}`)
    await take(server, 'manual', { renew: false })
    await take(twin, 'twin')
    await take(server, 'zoe', { agent: 'zoe' })

    const { kept } = await server.locks.recoverLocksOnStartup()

    expect(kept.map(({ name, holder }) => [name, holder])).toEqual([
      ['twin', 'server-1'],
      ['zoe', 'zoe'],
    ])
  })

  test('a configured pause reason comes first [S5-18]', async () => {
    const { store } = await crashed()
    const recovery = { pauseReason: 'Server restart - evaluation paused' }
    const server = await store.open({ agent: 'server-2', recovery })

    expect((await present(server.runs.get('c1'))).pauseReason).toMatch(
      /^Server restart - evaluation paused: its lease lapsed \d+ ms ago$/,
    )
  })

  test('a manual start-up recovery may set the reason itself [S5-18]', async () => {
    const { store } = await crashed()
    const server = await store.open({ agent: 'server-2', recovery: { onOpen: false } })

    await server.locks.recoverLocksOnStartup({ pauseReason: 'Neustart' })

    expect((await present(server.runs.get('c1'))).pauseReason).toMatch(/^Neustart: /)
  })

  test('the lock of a predecessor proven dead is freed at once, not when its lease ends [L9] [P4]', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const host = machine(env)
    const before = await store.open({ agent: 'server-1', environment: host.process(101), recovery: false })
    await take(before, 'global', { run: 'c1', leaseMs: hourMs })
    await before.runs.start('c1', { total: 3 })

    host.kill(101)
    const after = await store.open({ agent: 'server-2', environment: host.process(102) })

    expect(await after.locks.recoverLocksOnStartup()).toMatchObject({ locksReleased: 1, runsPaused: 1 })
    expect(await after.runs.get('c1')).toMatchObject({
      status: 'paused',
      pauseReason: 'Server restart - run paused: process 101 is gone',
    })
  })

  test('the sweep of any running process does the same as a start [L10]', async () => {
    const { store, env } = await crashed()
    const server = await store.open({ agent: 'server-2', recovery: { onOpen: false } })

    await env.advance(6_000)

    expect(await server.locks.isAnyLocked()).toBe(false)
    expect(await server.runs.get('c1')).toMatchObject({ status: 'paused' })
  })

  test('a dry run reports what would be freed and paused, and changes nothing [L10]', async () => {
    const { hf, store } = await crashed()
    const before = await store.readTables()

    const report = await hf.recovery.detectAndRecoverStale({ dryRun: true })

    expect(report).toMatchObject({ locksCleaned: 1, runsPaused: 1, waitersRemoved: 0 })
    expect(await store.readTables()).toEqual(before)
  })

  describe('the lock of a run', () => {
    test('that is stale and of another run is taken by a start, whose run pauses the old one [L11] [P3]', async () => {
      const { hf } = await crashed()

      const answer = await hf.locks.acquireLock('global', { agent: 'server-2', run: 'c2' })

      expect(answer).toMatchObject({ outcome: 'acquired', recoveredFrom: { holder: 'server-1' } })
      expect(await hf.runs.get('c1')).toMatchObject({
        status: 'paused',
        pauseReason: 'its lock was taken over',
        done: 4,
      })
    })

    test('that is stale and of the same run is taken at once by its restart [L11] [P3]', async () => {
      const { hf } = await crashed()

      await take(hf, 'global', { agent: 'server-1', run: 'c1' })

      expect(await hf.runs.resume('c1', { agent: 'server-1' })).toMatchObject({
        status: 'running',
        done: 4,
      })
    })

    test.each(['release', 'force', 'transfer', 'close'] as const)(
      'ended by %s pauses it with the reason [L9]',
      async (how) => {
        const { hf, store } = await engine.open({ agent: 'ada' })
        const reader = await store.open({ agent: 'reader' })
        await take(hf, 'global', { run: 'c1' })
        await hf.runs.start('c1', { total: 3 })

        if (how === 'release') await hf.locks.releaseLock('global')
        if (how === 'force') await hf.locks.forceRelease('global', { reason: 'it hangs' })
        if (how === 'transfer') await hf.locks.transfer('global', { to: 'bob', reason: 'night' })
        if (how === 'close') await hf.close()

        const reasons = {
          release: 'its lock was released',
          force: 'its lock was released by force: it hangs',
          transfer: 'its lock was transferred to bob',
          close: 'its process closed the store',
        }
        expect(await reader.runs.get('c1')).toMatchObject({
          status: 'paused',
          pauseReason: reasons[how],
        })
      },
    )
  })

  test('events describe a recovery: whose lock, which token, how the death was known, what triggered it [L17]', async () => {
    const { hf, store } = await crashed()
    const token = (await hf.locks.getCurrentLockInfo()).token

    await store.open({ agent: 'server-2' })

    const [expired] = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.expired')
    expect(expired).toMatchObject({
      agent: 'server-2',
      detail: { holder: 'server-1', token, trigger: 'open', evidence: expect.stringContaining('lapsed') },
    })
  })
})
