/** Named locks: one holder at a time, released by its token only, overridden by an operator with a reason. */
import type { Event, Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

const hourMs = 3_600_000

forEachEngine((engine) => {
  describe('a lock', () => {
    test('shows its holder, reason, start and end [L1] [L5]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      const before = await hf.locks.getCurrentLockInfo('deploy')

      const { lock } = await take(hf, 'deploy', { reason: 'release 7', user: 'olga', run: 'r7' })

      expect(before).toMatchObject({
        isLocked: false,
        lockedBy: null,
        lockedAt: null,
        token: null,
        slots: [],
      })
      expect(await hf.locks.getCurrentLockInfo('deploy')).toMatchObject({
        isLocked: true,
        lockedBy: 'r7',
        lockedByUser: 'olga',
        lockedAt: env.now(),
        lockReason: 'release 7',
        holder: 'ada',
        stale: false,
        token: lock.lease.token,
        version: 1,
        waiting: 0,
        progress: null,
      })
    })

    test('without a name is the one named global [L1]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })

      await hf.locks.acquireLock()

      expect(await hf.locks.isLockedBy('global')).toBe(true)
      expect(await hf.locks.getCurrentLockInfo()).toMatchObject({ name: 'global', lockedBy: 'ada' })
      expect(await hf.locks.releaseLock('global')).toBe(true)
    })

    test('is released by name or by its grant, and one of them is required [S6-C1]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const grant = await take(hf, 'deploy')
      const forBob = await take(hf, 'press', { agent: 'bob' })
      const paths = await hf.locks.reserve('src/**')
      const other = await hf.locks.acquireLock('press')
      await hf.locks.acquireLock()

      for (const nothing of [[], [undefined], [null], [{}], [{ lock: 'deploy' }], [other]])
        expect(await refusal(() => Reflect.apply(hf.locks.releaseLock, hf.locks, nothing))).toMatchObject({
          code: 'INVALID',
          message: expect.stringContaining('no lock was named'),
        })
      // @ts-expect-error A name or the grant is required.
      expect(await refusalCode(() => hf.locks.releaseLock())).toBe('INVALID')
      expect(await hf.locks.isLockedBy('global')).toBe(true)

      expect(await hf.locks.releaseLock(grant)).toBe(true)
      expect(await hf.locks.releaseLock(grant)).toBe(false)
      expect(await hf.locks.releaseLock(forBob)).toBe(true)
      expect(paths.outcome === 'acquired' && (await hf.locks.releaseLock(paths))).toBe(true)
      expect((await hf.locks.list()).locks).toMatchObject([{ name: 'global' }])
    })

    test('that another agent holds is reported as held, with holder, start and end [L2]', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada' })
      const other = await store.open({ agent: 'bob' })
      const { lock } = await take(hf, 'deploy')

      expect(await other.locks.acquireLock('deploy')).toEqual({
        outcome: 'held',
        holder: 'ada',
        since: env.now(),
        expiresAt: lock.lease.expiresAt,
      })
    })

    test('held by the caller is reported as held too, naming the caller [L2]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await take(hf, 'deploy')

      expect(await hf.locks.acquireLock('deploy')).toMatchObject({ outcome: 'held', holder: 'ada' })
    })

    test('entered again on request must be released as often, by the same holder [L2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const other = await store.open({ agent: 'bob' })
      const first = await take(hf, 'deploy', { reentrant: true })
      const second = await take(hf, 'deploy', { reentrant: true })

      expect(second.lock).toMatchObject({ depth: 2, lease: { token: first.lock.lease.token } })
      expect(await other.locks.acquireLock('deploy', { reentrant: true })).toMatchObject({ holder: 'ada' })
      expect(await hf.locks.releaseLock('deploy')).toBe(true)
      expect(await hf.locks.isLockedBy('deploy')).toBe(true)
      expect(first.lease?.isHeld).toBe(true)
      expect(await hf.locks.releaseLock('deploy')).toBe(true)
      expect(await hf.locks.releaseLock('deploy')).toBe(false)
      expect(await hf.locks.isAnyLocked()).toBe(false)
    })

    test('held manually is re-entered only with its token [L2]', async () => {
      const { hf } = await engine.open({ background: false, agent: 'ada' })
      const { lock } = await take(hf, 'deploy', { agent: 'person', reentrant: true })
      const { token } = lock.lease

      const wrong = await hf.locks.acquireLock('deploy', {
        agent: 'person',
        reentrant: true,
        token: token - 1,
      })
      const right = await take(hf, 'deploy', { agent: 'person', reentrant: true, token })

      expect(wrong).toMatchObject({ outcome: 'held', holder: 'person' })
      expect(right.lock.depth).toBe(2)
    })

    test('lasts an hour by hand and thirty seconds where a process renews it [L4]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })

      const manual = await take(hf, 'a', { agent: 'person' })
      const bound = await take(hf, 'b')
      const resource = await take(hf, 'file:src/a.ts', { agent: 'person' })

      expect(manual.lock.lease.leaseMs).toBe(hourMs)
      expect(manual.lease).toBeNull()
      expect(bound.lock.lease.leaseMs).toBe(30_000)
      expect(bound.lease?.isHeld).toBe(true)
      expect(resource.lock.lease.leaseMs).toBe(60_000)
    })

    test('of a healthy three-hour run is never taken by anyone [L4] [P2]', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada', background: false })
      const other = await store.open({ agent: 'bob', background: false })
      const { lock } = await take(hf, 'deploy')

      for (let third = 0; third < 9; third++) {
        await env.advance(hourMs / 3)
        expect(await other.locks.acquireLock('deploy')).toMatchObject({ outcome: 'held', holder: 'ada' })
        await other.recovery.detectAndRecoverStale()
        await hf.locks.renewLock('deploy')
      }

      expect(await hf.locks.getCurrentLockInfo('deploy')).toMatchObject({
        holder: 'ada',
        token: lock.lease.token,
      })
    })

    test('that lapsed goes to whoever asks next, and records whom it was recovered from [L2] [P3]', async () => {
      const { hf, env } = await engine.open({ recovery: false, background: false })
      const lost = await take(hf, 'deploy', { agent: 'ada', leaseMs: 1000 })
      await env.advance(1001)

      const next = await take(hf, 'deploy', { agent: 'bob' })

      expect(next.recoveredFrom).toEqual({ holder: 'ada', token: lost.lock.lease.token })
      expect(next.lock.lease.token).toBeGreaterThan(lost.lock.lease.token)
      const [stolen] = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.stolen')
      expect(stolen?.detail).toMatchObject({ previousHolder: 'ada', previousToken: lost.lock.lease.token })
    })

    test('that lapsed is shown as stale with everything known about its last holder [L5] [X3] [S5-17]', async () => {
      const { hf, env } = await engine.open({ recovery: false, background: false })
      const { lock } = await take(hf, 'deploy', {
        agent: 'ada',
        leaseMs: 1000,
        run: 'r',
        user: 'zoe',
        reason: 'release',
      })
      const held = await hf.locks.getCurrentLockInfo('deploy')
      await env.advance(1001)
      const lapsed = await hf.locks.getCurrentLockInfo('deploy')

      expect(held).toMatchObject({
        isLocked: true,
        stale: false,
        lockedBy: 'r',
        lockedByUser: 'zoe',
        lockReason: 'release',
        holder: 'ada',
        token: lock.lease.token,
      })
      const { slots: _held, ...before } = held
      const { slots: _lapsed, ...after } = lapsed
      expect(after).toEqual({ ...before, isLocked: false, stale: true })
      expect(await hf.locks.isLockedBy('deploy', { agent: 'ada' })).toBe(false)
      expect(await hf.locks.isAnyLocked()).toBe(false)
      expect((await hf.locks.list()).locks).toMatchObject([{ name: 'deploy', stale: true, holder: null }])
    })

    test('is renewed only with its token, for its length from now [L4] [L17]', async () => {
      const { hf, env } = await engine.open({ background: false, agent: 'ada' })
      const { lock } = await take(hf, 'deploy')
      await env.advance(1000)

      const renewed = await hf.locks.renewLock('deploy')

      expect(renewed.lease.expiresAt).toBe((lock.lease.expiresAt as number) + 1000)
      expect(await refusalCode(() => hf.locks.renewLock('deploy', { token: 1 }))).toBe('LEASE_LOST')
      expect((await kinds(hf)).filter((kind) => kind === 'lock.renewed')).toHaveLength(1)
    })

    test('gives consistent answers to every query [L5]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await take(hf, 'deploy', { run: 'r7' })

      expect(await hf.locks.isLockedBy('deploy')).toBe(true)
      expect(await hf.locks.isLockedBy('deploy', { run: 'r7' })).toBe(true)
      expect(await hf.locks.isLockedBy('deploy', { run: 'r8' })).toBe(false)
      expect(await hf.locks.isLockedBy('deploy', { agent: 'bob' })).toBe(false)
      expect(await hf.locks.isLockedBy('deploy', { agent: 'ada', run: 'r8' })).toBe(false)
      expect(await hf.locks.isAnyLocked()).toBe(true)
      expect((await hf.locks.getCurrentLockInfo('deploy')).isLocked).toBe(true)
    })

    test('is listed by name, in pages, by prefix and by agent [L15]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      for (const name of ['b#1', 'a', 'c']) await take(hf, name)
      await take(hf, 'cc', { agent: 'bob' })

      const first = await hf.locks.list({ limit: 2 })
      const rest = await hf.locks.list({ limit: 2, after: first.next as string })

      expect([...first.locks, ...rest.locks].map(({ name }) => name)).toEqual(['a', 'b#1', 'c', 'cc'])
      expect(rest.next).toBeNull()
      expect((await hf.locks.list({ prefix: 'c' })).locks.map(({ name }) => name)).toEqual(['c', 'cc'])
      expect((await hf.locks.list({ agent: 'bob' })).locks.map(({ name }) => name)).toEqual(['cc'])
    })
  })

  describe('releasing', () => {
    test('twice, late or by another agent changes nothing, returns false and is audited [L3] [L17] [P1]', async () => {
      const { hf, env, store } = await engine.open({ recovery: false, background: false })
      const late = await take(hf, 'deploy', { agent: 'ada', leaseMs: 1000 })
      await env.advance(1001)
      const next = await take(hf, 'deploy', { agent: 'bob' })
      const stranger = await store.open({ agent: 'eve', background: false })

      const answers = [
        await hf.locks.releaseLock('deploy', { agent: 'ada', token: late.lock.lease.token }),
        await stranger.locks.releaseLock('deploy'),
        await stranger.locks.releaseLock('deploy', { token: 5 }),
        await hf.locks.releaseLock('nothing', { token: 5 }),
      ]

      expect(answers).toEqual([false, false, false, false])
      expect(await hf.locks.getCurrentLockInfo('deploy')).toMatchObject({
        holder: 'bob',
        token: next.lock.lease.token,
        version: next.lock.version,
      })
      const refused = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.refused')
      expect(refused.map(({ agent, detail }) => [agent, detail?.holder, detail?.doubleUnlock])).toEqual([
        ['ada', 'bob', false],
        ['eve', 'bob', false],
        ['eve', 'bob', false],
        [hf.agent, null, true],
      ])
    })

    test('leaves no row behind; the next grant has a larger token though the row was gone [L3]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const tokens: number[] = []

      for (let round = 0; round < 50; round++) {
        tokens.push((await take(hf, 'deploy')).lock.lease.token)
        await hf.locks.releaseLock('deploy')
      }

      expect(tokens).toEqual(tokens.toSorted((left, right) => left - right))
      expect(new Set(tokens).size).toBe(50)
      expect([...(await store.readTables()).keys()].filter((key) => !key.startsWith('instance:'))).toEqual([])
    })

    test('by closing the handle frees the lock at once [L9]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const other = await store.open({ agent: 'bob' })
      await take(hf, 'deploy')

      await hf.close()

      expect(await other.locks.acquireLock('deploy')).toMatchObject({
        outcome: 'acquired',
        recoveredFrom: null,
      })
    })

    test('by one hundred agents at once frees one lock once [L19]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const { lock } = await take(hf, 'deploy', { agent: 'agent-42' })
      const { token } = lock.lease

      const storm = await Promise.all(
        Array.from({ length: 100 }, (_, number) =>
          hf.locks.releaseLock('deploy', { agent: `agent-${number}`, token: number >= 42 ? token : number }),
        ),
      )

      expect(storm.filter((released) => released)).toHaveLength(1)
      expect(storm[42]).toBe(true)
      expect(await hf.locks.acquireLock('deploy')).toMatchObject({ outcome: 'acquired' })
    })
  })

  describe('a lock with slots', () => {
    test('has that many holders, each with its own token, and no more [L2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada' })
      const other = await store.open({ agent: 'bob' })
      const first = await take(hf, 'gpu', { slots: 2 })
      const second = await take(other, 'gpu', { slots: 2 })

      expect(await hf.locks.acquireLock('gpu', { slots: 2 })).toMatchObject({ outcome: 'held' })
      expect([first.lock.slot, second.lock.slot]).toEqual([0, 1])
      expect(first.lock.lease.token).not.toBe(second.lock.lease.token)
      expect((await hf.locks.getCurrentLockInfo('gpu')).slots).toHaveLength(2)
      expect(await refusalCode(() => hf.locks.acquireLock('gpu'))).toBe('INVALID')
    })

    test('may be held twice by one process, and each grant is released by its token', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const first = await take(hf, 'gpu', { slots: 2 })
      const second = await take(hf, 'gpu', { slots: 2 })

      expect(await hf.locks.releaseLock('gpu', { token: first.lock.lease.token })).toBe(true)

      expect([first.lease?.isHeld, second.lease?.isHeld]).toEqual([false, true])
      expect(await hf.locks.releaseLock('gpu')).toBe(true)
      expect(await hf.locks.isAnyLocked()).toBe(false)
    })
  })

  describe('an operator', () => {
    test('takes a lock with a reason, and the holder’s signal fires within a second [L14] [L17]', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada' })
      const operator = await store.open({ agent: 'olga' })
      const { lock, lease } = await take(hf, 'deploy')
      const signal = lease?.signal as AbortSignal

      const released = await operator.locks.forceRelease('deploy', { reason: 'it hangs' })
      await env.advance(1000)

      expect(released).toBe(true)
      expect(signal.aborted).toBe(true)
      expect(signal.reason).toMatchObject({ code: 'LEASE_LOST' })
      expect(await hf.locks.releaseLock('deploy')).toBe(false)
      expect(await operator.locks.forceRelease('deploy', { reason: 'again' })).toBe(false)
      const [forced] = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.forced')
      expect(forced).toMatchObject({
        agent: 'olga',
        detail: { holder: 'ada', token: lock.lease.token, reason: 'it hangs' },
      })
    })

    test('takes only the slot of the given token [L14]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const first = await take(hf, 'gpu', { slots: 2 })
      await take(hf, 'gpu', { slots: 2 })

      await hf.locks.forceRelease('gpu', { reason: 'it hangs', token: first.lock.lease.token })

      expect((await hf.locks.getCurrentLockInfo('gpu')).slots).toMatchObject([{ slot: 1 }])
    })

    test('gives a lock to another agent, whose token is valid from then on [L14] [L17]', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada' })
      const operator = await store.open({ agent: 'olga' })
      const { lock, lease } = await take(hf, 'deploy')

      const given = await operator.locks.transfer('deploy', { to: 'bob', reason: 'night shift' })
      await env.advance(1000)

      expect(given).toMatchObject({ holder: 'bob', lease: { instance: null, leaseMs: hourMs } })
      expect(given.lease.token).toBeGreaterThan(lock.lease.token)
      expect(lease?.isHeld).toBe(false)
      expect(await hf.locks.releaseLock('deploy', { token: lock.lease.token })).toBe(false)
      expect(await operator.locks.releaseLock('deploy', { agent: 'bob', token: given.lease.token })).toBe(
        true,
      )
      const [moved] = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.transferred')
      expect(moved?.detail).toMatchObject({ from: 'ada', to: 'bob', reason: 'night shift' })
    })

    test('learns when there is nothing to transfer, or which slot to name [L14]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await take(hf, 'gpu', { slots: 2 })
      await take(hf, 'gpu', { slots: 2 })

      expect(await refusalCode(() => hf.locks.transfer('free', { to: 'bob', reason: 'x' }))).toBe('NOT_FOUND')
      expect(await refusalCode(() => hf.locks.transfer('gpu', { to: 'bob', reason: 'x' }))).toBe('INVALID')
    })

    test('frees everything an agent holds, and nothing of other agents [L15]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      for (const name of ['a', 'b']) await take(hf, name, { agent: 'bob' })
      await hf.locks.reserve('src/**', { agent: 'bob' })
      await take(hf, 'c')

      const released = await hf.locks.forceReleaseAgent('bob', { reason: 'it left' })

      expect(released).toBe(3)
      expect((await hf.locks.list()).locks.map(({ name }) => name)).toEqual(['c'])
    })

    test('is warned by an event before a manual lock ends, but not if it is renewed [L14]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
      await take(hf, 'manual', { agent: 'person', leaseMs: 60_000 })
      await take(hf, 'bound')

      await env.advance(58_000)

      const warnings = (await readFeed(hf)).filter(({ kind }) => kind === 'lock.expiring')
      expect(warnings.map(({ id, detail }) => [id, detail?.holder])).toEqual([['manual#0', 'person']])
    })
  })

  describe('a lock delay', () => {
    test('keeps everyone out for a time after an abnormal loss, but not after a release', async () => {
      const { hf, env, store } = await engine.open({ background: false, recovery: false })
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101), recovery: false })
      const heir = await store.open({ agent: 'heir', environment: host.process(102) })
      await take(hf, 'calm', { delayMs: 10_000 })
      await hf.locks.releaseLock('calm')
      const { lock } = await take(victim, 'deploy', { delayMs: 10_000 })
      expect(await heir.locks.acquireLock('calm')).toMatchObject({ outcome: 'acquired' })

      host.kill(101)
      await env.advance(1_000)
      const during = await heir.locks.acquireLock('deploy')
      const shown = await heir.locks.getCurrentLockInfo('deploy')
      const late = await victim.locks.releaseLock('deploy', { token: lock.lease.token })
      await env.advance(10_000)

      expect(during).toMatchObject({ outcome: 'held', holder: null })
      expect(shown).toMatchObject({ isLocked: false, slots: [{ delayed: true, holder: null }] })
      expect(late).toBe(false)
      expect(await heir.locks.acquireLock('deploy')).toMatchObject({ outcome: 'acquired' })
    })

    test('also follows a forced release, and its row is gone afterwards', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      await take(hf, 'deploy', { delayMs: 2_000 })

      await hf.locks.forceRelease('deploy', { reason: 'it hangs' })
      const during = await hf.locks.acquireLock('deploy')
      await env.advance(10_000)

      expect(during).toMatchObject({ outcome: 'held', holder: null })
      expect((await hf.locks.list()).locks).toEqual([])
    })
  })

  describe('misuse of locks', () => {
    test.each([
      ['a name of a processing lock', (hf: Holdfast) => hf.locks.acquireLock('queue:main')],
      ['a name of a reservation', (hf: Holdfast) => hf.locks.acquireLock('paths:1')],
      ['an empty name', (hf: Holdfast) => hf.locks.acquireLock('')],
      ['an unknown option', (hf: Holdfast) => hf.locks.acquireLock('a', { leeseMs: 5 } as object)],
      ['a negative lease', (hf: Holdfast) => hf.locks.acquireLock('a', { leaseMs: -1 })],
      ['a lease over a day', (hf: Holdfast) => hf.locks.acquireLock('a', { leaseMs: 86_400_001 })],
      ['no slots', (hf: Holdfast) => hf.locks.acquireLock('a', { slots: 0 })],
      ['half a slot', (hf: Holdfast) => hf.locks.acquireLock('a', { slots: 1.5 })],
      ['a negative delay', (hf: Holdfast) => hf.locks.acquireLock('a', { delayMs: -1 })],
      ['a negative wait', (hf: Holdfast) => hf.locks.acquireLock('a', { waitMs: -1 })],
      ['an endless wait', (hf: Holdfast) => hf.locks.acquireLock('a', { waitMs: Number.POSITIVE_INFINITY })],
      [
        'a wait under an idempotency key',
        (hf: Holdfast) => hf.locks.acquireLock('a', { waitMs: 1, idempotencyKey: 'k' }),
      ],
      ['a hostile user', (hf: Holdfast) => hf.locks.acquireLock('a', { user: '../x' })],
      [
        'a token that is no number',
        (hf: Holdfast) => hf.locks.releaseLock('a', { token: 'x' as unknown as number }),
      ],
      ['releasing a processing lock', (hf: Holdfast) => hf.locks.releaseLock('queue:main', { token: 1 })],
      ['renewing for too long', (hf: Holdfast) => hf.locks.renewLock('a', { token: 1, leaseMs: 1e12 })],
      ['force without a reason', (hf: Holdfast) => hf.locks.forceRelease('a', {} as { reason: string })],
      ['force with an empty reason', (hf: Holdfast) => hf.locks.forceRelease('a', { reason: ' ' })],
      [
        'a transfer without a reason',
        (hf: Holdfast) => hf.locks.transfer('a', { to: 'b' } as { to: string; reason: string }),
      ],
      ['a transfer to nobody', (hf: Holdfast) => hf.locks.transfer('a', { to: '', reason: 'x' })],
      [
        'clearing an agent without a reason',
        (hf: Holdfast) => hf.locks.forceReleaseAgent('a', {} as { reason: string }),
      ],
      ['a page that is none', (hf: Holdfast) => hf.locks.list({ after: 'x' })],
      ['a page too long', (hf: Holdfast) => hf.locks.list({ limit: 1001 })],
      ['information about no name', (hf: Holdfast) => hf.locks.getCurrentLockInfo('a\nb')],
    ])('%s is refused as INVALID and changes nothing', async (_, call) => {
      const { hf, store } = await engine.open()
      const before = await store.readTables()

      expect(await refusalCode(() => call(hf))).toBe('INVALID')
      expect(await store.readTables()).toEqual(before)
    })

    test('a mistyped option is refused with the nearest name', async () => {
      const { hf } = await engine.open()

      expect((await refusal(() => hf.locks.acquireLock('a', { resaon: 'x' } as object))).next).toContain(
        '"reason"',
      )
    })

    test('a store that cannot be written is an error, never reported as held [L2] [P6]', async () => {
      const { hf, store } = await engine.openInRealTime({ busyTimeoutMs: 100 })
      const letGo = await store.damage.holdUpWriters()

      const code = await refusalCode(() => hf.locks.acquireLock('deploy'))
      await letGo()

      expect(code).toBe('BUSY')
      expect(await hf.locks.acquireLock('deploy')).toMatchObject({ outcome: 'acquired' })
    })
  })

  test('an acquire repeated under its idempotency key is one grant, and LEASE_LOST once released', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const first = await take(hf, 'deploy', { idempotencyKey: 'k' })
    const again = await take(hf, 'deploy', { idempotencyKey: 'k' })
    await hf.locks.releaseLock('deploy')

    expect(again.lock.lease.token).toBe(first.lock.lease.token)
    expect(await refusalCode(() => hf.locks.acquireLock('deploy', { idempotencyKey: 'k' }))).toBe(
      'LEASE_LOST',
    )
  })
})

async function kinds(hf: Holdfast): Promise<Event['kind'][]> {
  return (await readFeed(hf)).map(({ kind }) => kind)
}
