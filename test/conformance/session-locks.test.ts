/** Locks on single things: one holder, named to everyone else, freed by release or lapse. */
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const name = 'session:one'
const [ada, bob] = [{ agent: 'ada' }, { agent: 'bob' }]

forEachEngine((engine) => {
  describe('the lock of a session', () => {
    test('that is free is granted in one transaction, with its end [H-01]', async () => {
      const { hf, env } = await engine.open()

      const { lock } = await take(hf, name, ada)

      expect(lock).toMatchObject({ name, holder: 'ada', lease: { leaseMs: 60_000 } })
      expect(lock.lease.expiresAt).toBe(lock.lease.grantedAt === null ? null : lock.lease.grantedAt + 60_000)
      expect(lock.acquiredAt).toBe(env.now())
      expect((await readFeed(hf)).filter(({ subject }) => subject === 'lock')).toHaveLength(1)
    })

    test('that another agent holds is reported as held, with its holder, and not as an error [H-02]', async () => {
      const { hf } = await engine.open()
      const { lock } = await take(hf, name, ada)

      expect(await hf.locks.acquireLock(name, bob)).toEqual({
        outcome: 'held',
        holder: 'ada',
        since: lock.acquiredAt,
        expiresAt: lock.lease.expiresAt,
      })
    })

    test('released by its holder can be taken by another at once [H-03]', async () => {
      const { hf } = await engine.open()
      await take(hf, name, ada)

      expect(await hf.locks.releaseLock(name, ada)).toBe(true)
      expect((await take(hf, name, bob)).recoveredFrom).toBeNull()
    })

    test('cannot be released by another agent, which is refused and named in the audit [H-04]', async () => {
      const { hf } = await engine.open()
      const { lock } = await take(hf, name, ada)

      const released = await hf.locks.releaseLock(name, { ...bob, token: lock.lease.token - 1 })

      expect(released).toBe(false)
      expect(await hf.locks.isLockedBy(name, ada)).toBe(true)
      expect((await readFeed(hf)).at(-1)).toMatchObject({
        kind: 'lock.refused',
        agent: 'bob',
        detail: { holder: 'ada', doubleUnlock: false },
      })
    })

    test('that lapsed goes to whoever asks next [H-05]', async () => {
      const { hf, env } = await engine.open({ recovery: false, background: false })
      const { lock } = await take(hf, name, { ...ada, leaseMs: 0 })
      await env.advance(1)

      const next = await take(hf, name, bob)

      expect(next.recoveredFrom).toEqual({ holder: 'ada', token: lock.lease.token })
      expect(next.lock.lease.token).toBeGreaterThan(lock.lease.token)
    })

    test('is listed with its holder and end, along with the others [H-06]', async () => {
      const { hf } = await engine.open()
      const one = await take(hf, name, ada)
      const two = await take(hf, 'session:two', bob)

      const { locks } = await hf.locks.list({ prefix: 'session:' })

      expect(locks.map((lock) => [lock.name, lock.holder, lock.lease.expiresAt])).toEqual([
        [name, 'ada', one.lock.lease.expiresAt],
        ['session:two', 'bob', two.lock.lease.expiresAt],
      ])
    })

    test('that lapsed is listed without a holder, before any sweep and after [H-07]', async () => {
      const { hf, env } = await engine.open({ recovery: false, background: false })
      await take(hf, name, { ...ada, leaseMs: 0 })
      await env.advance(1)

      const before = await hf.locks.list()
      await hf.recovery.detectAndRecoverStale()

      expect(before.locks).toMatchObject([{ name, holder: null, stale: true }])
      expect((await hf.locks.list()).locks).toEqual([])
    })

    test('renewed by its holder ends later [H-08]', async () => {
      const { hf, env } = await engine.open()
      const { lock } = await take(hf, name, ada)
      await env.advance(50)

      const renewed = await hf.locks.renewLock(name, ada)

      expect(renewed.lease.expiresAt).toBe((lock.lease.expiresAt as number) + 50)
    })

    test('cannot be renewed by another agent: LEASE_LOST names the holder, and its end stays [H-09]', async () => {
      const { hf, env } = await engine.open()
      const { lock } = await take(hf, name, ada)
      await env.advance(50)

      const refused = await refusal(() => hf.locks.renewLock(name, bob))

      expect(refused).toMatchObject({ code: 'LEASE_LOST', facts: { holder: 'ada' } })
      expect((await hf.locks.getCurrentLockInfo(name)).expiresAt).toBe(lock.lease.expiresAt)
    })

    test('that nobody holds cannot be renewed, and renewing creates none [H-10]', async () => {
      const { hf } = await engine.open()

      expect(await refusalCode(() => hf.locks.renewLock(name, ada))).toBe('LEASE_LOST')
      expect((await hf.locks.list()).locks).toEqual([])
    })

    test('re-entered by its holder, on request, is one lock under one token [H-11]', async () => {
      const { hf } = await engine.open()
      const first = await take(hf, name, { ...ada, reentrant: true })

      const again = await take(hf, name, { ...ada, reentrant: true })

      expect(again.lock.lease.token).toBe(first.lock.lease.token)
      expect((await hf.locks.list()).locks).toHaveLength(1)
    })

    test('released twice leaves a warning in the audit, in order, and does no harm [H-12]', async () => {
      const { hf } = await engine.open()
      const { lock } = await take(hf, name, ada)
      const mine = { ...ada, token: lock.lease.token }

      const answers = [await hf.locks.releaseLock(name, mine), await hf.locks.releaseLock(name, mine)]

      const audit = (await readFeed(hf)).filter(({ subject }) => subject === 'lock')
      expect(answers).toEqual([true, false])
      expect(audit.map(({ kind, agent, detail }) => [kind, agent, detail?.doubleUnlock])).toEqual([
        ['lock.acquired', 'ada', undefined],
        ['lock.released', 'ada', undefined],
        ['lock.refused', 'ada', true],
      ])
    })

    test('names its holder while it is held, and none before and after [H-13]', async () => {
      const { hf } = await engine.open()
      const holder = async () => (await hf.locks.getCurrentLockInfo(name)).holder

      const before = await holder()
      await take(hf, name, ada)
      const during = await holder()
      await hf.locks.releaseLock(name, ada)

      expect([before, during, await holder()]).toEqual([null, 'ada', null])
    })

    test('is reported as held even if the thing itself was removed [H-21]', async () => {
      const { hf } = await engine.open()
      await hf.queue('jobs').add(null, { key: 'one' })
      await take(hf, 'bead:one', ada)
      await hf.queue('jobs').remove('one')

      expect(await hf.locks.acquireLock('bead:one', bob)).toMatchObject({ outcome: 'held', holder: 'ada' })
    })
  })

  describe('a thing that the store knows', () => {
    test('cannot be locked if it is missing: NOT_FOUND, naming it [H-14]', async () => {
      const { hf } = await engine.open()

      const refused = await refusal(() => hf.tasks.claimTaskForAgent('ghost', ada))

      expect(refused).toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('ghost') })
    })

    test('can be locked if it exists [H-15]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('real', { key: 'T-1' })

      expect(await hf.tasks.claimTaskForAgent('T-1', ada)).toMatchObject({
        outcome: 'claimed',
        task: { key: 'T-1', assignee: 'ada' },
      })
    })

    test('can no longer be locked once it was removed [H-16]', async () => {
      const { hf } = await engine.open()
      const { item } = await hf.queue('jobs').add(null)
      await hf.queue('jobs').remove(item.id)

      expect(await refusalCode(() => hf.queue('jobs').renew(item.id, { ...ada, token: 1 }))).toBe(
        'LEASE_LOST',
      )
      expect(await hf.queue('jobs').nextWithLock(ada)).toMatchObject({ outcome: 'empty' })
    })

    test('leaves no lock behind when it is missing, whoever tried to take it [H-17]', async () => {
      const { hf } = await engine.open()
      const { item } = await hf.queue('jobs').add(null)
      await hf.queue('jobs').remove(item.id)

      await refusalCode(() => hf.tasks.claimTaskForAgent('ghost', ada))
      await hf.tasks.batchClaim(['ghost'], ada)
      await hf.queue('ghosts').next(ada)
      await hf.queue('ghosts').nextWithLock(ada)
      await hf.queue('jobs').nextWithLock(ada)
      await refusalCode(() => hf.queue('ghosts').complete('ghost', { ...ada, token: 1 }))
      await refusalCode(() => hf.locks.transfer('session:ghost', { to: 'bob', reason: 'he goes on' }))
      await refusalCode(() => hf.runs.start('ghost', { ...ada, token: 1 }))

      expect((await hf.locks.list()).locks).toEqual([])
      expect((await hf.recovery.detectStaleLocks()).total).toBe(0)
      expect(await hf.runs.list()).toMatchObject({ runs: [] })
    })
  })

  describe('of many agents at once', () => {
    test('ten that want one session: one gets it, nine are told who, and there is one lock [H-18]', async () => {
      const { hf } = await engine.open()

      const answers = await Promise.all(agents(10).map((agent) => hf.locks.acquireLock(name, { agent })))

      const winner = agents(10)[answers.findIndex(({ outcome }) => outcome === 'acquired')]
      const holders = answers.flatMap((answer) => (answer.outcome === 'held' ? [answer.holder] : []))
      expect(holders).toEqual(Array.from({ length: 9 }, () => winner))
      expect((await hf.locks.list()).locks).toMatchObject([{ name, holder: winner }])
    })

    test('a hundred that want ten sessions: each has one holder [H-19]', async () => {
      const { hf } = await engine.open()

      const answers = await Promise.all(
        agents(100).map((agent, number) => hf.locks.acquireLock(`session:${number % 10}`, { agent })),
      )

      expect(answers.filter(({ outcome }) => outcome === 'acquired')).toHaveLength(10)
      expect((await hf.locks.list()).locks).toHaveLength(10)
    })

    test('ten through their own handles: contention is a normal answer, never an error [H-20]', async () => {
      const { store } = await engine.openInRealTime()
      const handles = await Promise.all(
        agents(10).map((agent) => store.open({ agent, background: false, durability: 'normal' })),
      )

      const answers = await Promise.allSettled(
        handles.map((handle) => handle.locks.acquireLock(name, { leaseMs: 60_000 })),
      )

      const outcomes = answers.map((answer) =>
        answer.status === 'fulfilled' ? answer.value.outcome : 'error',
      )
      expect(outcomes.toSorted()).toEqual(['acquired', ...Array.from({ length: 9 }, () => 'held')])
    })
  })
})

function agents(count: number): string[] {
  return Array.from({ length: count }, (_, number) => `agent-${number}`)
}
