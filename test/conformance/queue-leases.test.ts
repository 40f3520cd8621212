/** Default lease lengths, per queue and per process, and the store's grace period for lapsed ones. */
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, claimedWithLock, present, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

forEachEngine((engine) => {
  describe('the leases of a queue', () => {
    test('have the lengths the queue was defined with [S5-16]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const q = hf.queue('jobs', { leaseMs: 45_000, manualLeaseMs: 10 * minuteMs })
      await q.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }, { payload: 4 }])

      const lengths = [
        (await claimed(q.next())).item.lease?.leaseMs,
        (await claimed(q.next({ agent: 'bob' }))).item.lease?.leaseMs,
        (await claimed(q.next({ renew: false }))).item.lease?.leaseMs,
        (await claimed(q.next({ leaseMs: 5_000 }))).item.lease?.leaseMs,
      ]

      expect(lengths).toEqual([45_000, 10 * minuteMs, 10 * minuteMs, 5_000])
      expect(await hf.execute('queue.describe', { queue: 'jobs' })).toMatchObject({
        leaseMs: 45_000,
        manualLeaseMs: 10 * minuteMs,
      })
    })

    test('apply to its processing lock and to bulk claims too [S5-16]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const merges = hf.queue('main', { workflow: 'merge', leaseMs: 50_000 })
      await merges.submit('w1', { headSha: 'abcd' })
      const jobs = hf.queue('jobs', { leaseMs: 50_000 })
      await jobs.addMany([{ payload: 1 }])

      const { lock, item } = await claimedWithLock(merges.nextWithLock())
      const many = await jobs.claimMany(5)

      expect([lock.lease.leaseMs, item.lease?.leaseMs]).toEqual([50_000, 50_000])
      expect(many).toMatchObject({ outcome: 'claimed', items: [{ item: { lease: { leaseMs: 50_000 } } }] })
    })

    test('on tasks are those of the task queue [S5-16]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.addTask('two', { key: 'T-2' })
      await hf.queue('tasks', { leaseMs: 40_000, manualLeaseMs: 5 * minuteMs }).define()

      const own = await claimedTask(hf.tasks.claimTaskForAgent('T-1'))
      const others = await claimedTask(hf.tasks.claimTaskForAgent('T-2', { agent: 'bob' }))

      expect([own.task.lease?.leaseMs, others.task.lease?.leaseMs]).toEqual([40_000, 5 * minuteMs])
    })

    test('otherwise have the process’s length, or 300 s if nobody renews [S5-16]', async () => {
      const { hf } = await engine.open({ agent: 'ada', leaseMs: 20_000 })
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])

      const own = await claimed(q.next())
      const others = await claimed(q.next({ agent: 'bob' }))
      const { lock } = await take(hf, 'press')

      expect([own.item.lease?.leaseMs, others.item.lease?.leaseMs]).toEqual([20_000, 300_000])
      expect(lock.lease.leaseMs).toBe(20_000)
    })

    test('are renewed for the length the queue sets [S5-16]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', ...rareProbes })
      const q = hf.queue('jobs', { leaseMs: 6_000 })
      await q.add('p')
      const { item, lease } = await claimed(q.next())

      await env.advance(60_000)

      expect(lease?.isHeld).toBe(true)
      expect(await present(q.get(item.id))).toMatchObject({ holder: 'ada', lease: { leaseMs: 6_000 } })
    })

    test.each([{ leaseMs: -1 }, { manualLeaseMs: 86_400_001 }, { leaseMs: 0.5 }])(
      'cannot be %o [S5-16]',
      async (settings) => {
        const { hf } = await engine.open()

        expect(await refusalCode(() => hf.queue('jobs', settings).define())).toBe('INVALID')
      },
    )
  })

  describe('a store with a grace period for manual leases', () => {
    const off = { background: false, recovery: false } as const

    test('reclaims them only after the grace period, however it was opened [S5-16]', async () => {
      const { hf, env, store } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      const other = await store.open({ ...off, agent: 'bob' })
      await hf.queue('jobs').add('p')
      const { item } = await claimed(hf.queue('jobs').next({ leaseMs: 1_000 }))
      await take(hf, 'press', { leaseMs: 1_000 })
      await env.advance(minuteMs + 1_000)

      const stats = await other.recovery.getRecoveryStats()
      const within = await other.recovery.detectAndRecoverStale()
      const held = await other.locks.acquireLock('press')
      const empty = await other.queue('jobs').next()
      await env.advance(1)
      const after = await other.recovery.getRecoveryStats()
      const taken = await take(other, 'press')
      const over = await other.recovery.detectAndRecoverStale()

      expect([stats.entriesReclaimed, stats.locksCleaned]).toEqual([0, 0])
      expect([within.entriesReclaimed, within.locksCleaned]).toEqual([0, 0])
      expect([held.outcome, empty.outcome]).toEqual(['held', 'empty'])
      expect([after.entriesReclaimed, after.locksCleaned]).toEqual([1, 1])
      expect(taken.recoveredFrom).toMatchObject({ holder: 'ada' })
      expect(over.ids).toEqual([item.id])
    })

    test('lets their holder still finish late [S5-16]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', manualGraceMs: minuteMs })
      await hf.queue('jobs').add('p')
      const { item } = await claimed(hf.queue('jobs').next({ agent: 'bob', leaseMs: 1_000 }))
      await env.advance(30_000)

      const done = await hf.queue('jobs').complete(item.id, { agent: 'bob' })

      expect(done.state).toBe('done')
    })

    test('does not delay leases that a process renews, nor the end of a delay [S5-16]', async () => {
      const { hf, env, store } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      await hf.queue('jobs').add('p')
      const { id } = (await hf.execute('instance.join', { ...env.host.identity })) as { id: string }
      await hf.queue('jobs').next({ instance: id, leaseMs: 1_000 })
      await take(hf, 'press', { leaseMs: 1_000, delayMs: 5_000 })
      await env.advance(1_001)
      const bound = await hf.recovery.detectAndRecoverStale()
      await env.advance(minuteMs)
      await hf.recovery.detectAndRecoverStale()
      await env.advance(5_001)

      const other = await store.open({ ...off, agent: 'bob' })

      expect([bound.entriesReclaimed, bound.locksCleaned]).toEqual([1, 0])
      expect(await other.locks.acquireLock('press')).toMatchObject({ outcome: 'acquired' })
    })

    test('covers path reservations too [S5-16]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      await hf.locks.reserve('src/**', { agent: 'bob', leaseMs: 1_000 })
      await env.advance(30_000)
      const within = await hf.locks.reserve('src/a.ts', { agent: 'eve' })
      await env.advance(31_001)
      const after = await hf.locks.reserve('src/a.ts', { agent: 'eve' })

      expect([within.outcome, after.outcome]).toEqual(['held', 'acquired'])
    })

    test('keeps others from changing a task, or taking over a run, that its holder can still finish [S5-16]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      const [bob, eve] = [{ agent: 'bob' }, { agent: 'eve' }]
      const { id } = await hf.tasks.addTask('t')
      await claimedTask(hf.tasks.claimTaskForAgent(id, { ...bob, leaseMs: 1_000 }))
      await take(hf, 'press', { ...bob, leaseMs: 1_000, run: 'spring' })
      await hf.runs.start('spring', { ...bob, lock: 'press' })
      await take(hf, 'other', { ...eve, run: 'spring' })
      await env.advance(30_000)

      const moved = await refusalCode(() => hf.tasks.updateTask(id, { ...eve, status: 'Review' }))
      const resumed = await refusalCode(() => hf.runs.resume('spring', { ...eve, lock: 'other' }))
      const done = await hf.tasks.completeTask(id, bob)
      const { progress } = await hf.runs.record('spring', { ...bob, done: 1 })

      expect([moved, resumed]).toEqual(['HELD', 'HELD'])
      expect(done.status).toBe('Done')
      expect(progress).toMatchObject({ status: 'running', done: 1 })
    })

    test('says until when a lapsed lease is spared, not that it is free [S5-16]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      const { item } = await hf.queue('jobs').add('p')
      await claimed(hf.queue('jobs').next({ leaseMs: 1_000 }))
      await take(hf, 'press', { leaseMs: 1_000 })
      await env.advance(31_000)

      const spared = { verdict: 'stuck', next: [{ inMs: 30_000 }], can: [] }
      expect(await hf.fleet.explain(item.id)).toMatchObject(spared)
      expect(await hf.fleet.explain('press')).toMatchObject(spared)
    })

    test('keeps no waiting claim from what a process lets lapse while it spares an older lease [S5-16]', async () => {
      const { hf, env } = await engine.open({ agent: 'ada', manualGraceMs: hourMs, ...rareProbes })
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      await claimed(q.next({ agent: 'bob', leaseMs: 1_000 }))
      const elsewhere = { ...env.host.identity, hostName: 'elsewhere' }
      const { id: instance } = await hf.execute('instance.join', elsewhere)
      await hf.execute('queue.next', { queue: 'jobs', leaseMs: 12_500 }, { instance })
      const joinedAt = env.now()
      let wonAt: number | null = null
      const waiting = q.next({ waitMs: minuteMs }).then(() => {
        wonAt = env.now()
      })

      await env.advance(minuteMs)
      await waiting

      expect(wonAt).toBe(joinedAt + 12_501)
    })

    test('raises no alarm about leases that it spares [S5-16]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada', manualGraceMs: 10 * minuteMs })
      const q = hf.queue('jobs')
      await q.addMany(Array.from({ length: 11 }, (_, index) => ({ payload: index })))
      await q.claimMany(11, { leaseMs: 1_000 })
      await take(hf, 'press', { leaseMs: 1_000 })
      await env.advance(9 * minuteMs)
      const within = await hf.fleet.status()
      await env.advance(2 * minuteMs)
      const after = await hf.fleet.status()

      expect(within).toMatchObject({ alerts: [], recovery: { due: 0 } })
      expect(after).toMatchObject({
        alerts: [{ code: 'stale_leases' }, { code: 'recovery_late' }],
        recovery: { due: 12 },
      })
    })

    test('says until when a lapsed processing lock that is spared keeps others out [S5-16]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('first', { headSha: 'abcd' })
      await q.submit('second', { headSha: 'abcd' })
      await claimedWithLock(q.nextWithLock({ leaseMs: 1_000 }))
      await env.advance(31_000)

      const locked = { verdict: 'waiting', holder: { agent: 'ada' }, next: [{ inMs: 30_000 }] }
      expect(await hf.fleet.explain('main')).toMatchObject(locked)
      expect(await hf.fleet.explain('second')).toMatchObject(locked)
    })

    test('takes a new grace period from whoever opens it with one [S5-16]', async () => {
      const { hf, env, store } = await engine.open({ ...off, agent: 'ada', manualGraceMs: minuteMs })
      await hf.queue('jobs').add('p')
      await claimed(hf.queue('jobs').next({ leaseMs: 1_000 }))
      await env.advance(1_001)
      const none = await store.open({ ...off, agent: 'bob', manualGraceMs: 0 })
      const later = await store.open({ ...off, agent: 'cy' })

      expect((await later.recovery.getRecoveryStats()).entriesReclaimed).toBe(1)
      expect((await none.recovery.detectAndRecoverStale()).entriesReclaimed).toBe(1)
    })

    test('heals before a claim once the grace period is over [S5-16]', async () => {
      const recovery = { onOpen: false, onClaim: true, everyMs: 0, probeEveryMs: 0 }
      const { hf, env } = await engine.open({ recovery, agent: 'ada', manualGraceMs: minuteMs })
      const q = hf.queue('jobs')
      await q.add('p')
      const { item } = await claimed(q.next({ agent: 'bob', leaseMs: 1_000 }))
      await env.advance(30_000)
      const before = await q.next()
      await env.advance(31_001)

      const { item: again } = await claimed(q.next())

      expect(before.outcome).toBe('empty')
      expect(again.id).toBe(item.id)
    })
  })
})
