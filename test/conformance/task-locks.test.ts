/** Locks of tasks seen from outside: stale, near their end, orphaned, suspect; renewed, cleaned up, warned of. */
import type { LeaseLostError } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { collectLogs } from '../support/logs.ts'
import { present, refusal, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine, rareProbes } from '../support/stores.ts'
import { claimedTask } from '../support/tasks.ts'

const minute = 60_000

forEachEngine((engine) => {
  describe('stale locks', () => {
    test('are separated from near, expired and healthy ones, soonest expiry first, and nothing changes [T10]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      await claim('stale', 5 * minute)
      await env.advance(10 * minute + 1)
      await claim('expired', minute)
      await env.advance(2 * minute)
      await claim('near', 30 * minute)
      await env.advance(25 * minute + 1)
      await claim('expired-too', minute)
      await env.advance(minute + 1)
      await claim('healthy', 30 * minute)
      const events = await readFeed(hf)

      const report = await hf.tasks.detectStaleLocks()

      expect(report).toMatchObject({
        total: 5,
        expiredCount: 3,
        nearExpiryCount: 1,
        staleCount: 2,
        orphanedCount: 0,
        more: false,
      })
      expect(report.locks.map(({ title }) => title)).toEqual([
        'stale',
        'expired',
        'expired-too',
        'near',
        'healthy',
      ])
      expect(report.locks[0]).toMatchObject({
        kind: 'task',
        assignee: 'ada',
        isExpired: true,
        isStale: true,
        remainingMs: 0,
        expiredMs: 33 * minute + 3,
      })
      expect(await readFeed(hf)).toEqual(events)
    })

    test('follow the given thresholds [T10]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      await claim('one', 30 * minute)
      await env.advance(21 * minute)

      const usual = await hf.tasks.detectStaleLocks()
      const wide = await hf.recovery.detectStaleLocks({ nearMs: 9 * minute + 1 })
      const narrow = await hf.recovery.detectStaleLocks({ nearMs: 9 * minute })
      const early = await hf.tasks.detectStaleLocks({ nearMs: 15 * minute })
      await env.advance(10 * minute)
      const strict = await hf.tasks.detectStaleLocks({ staleMs: 30_000 })

      expect([usual.nearExpiryCount, early.nearExpiryCount]).toEqual([0, 1])
      expect([wide.nearExpiryCount, narrow.nearExpiryCount]).toEqual([1, 0])
      expect(strict).toMatchObject({ expiredCount: 1, staleCount: 1 })
    })

    test('are orphaned when their holder is proven dead [T10] [T13]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const off = { recovery: false } as const
      const victim = await store.open({ agent: 'victim', environment: host.process(101), ...off })
      const watcher = await store.open({ agent: 'watcher', environment: host.process(102), ...off })
      await watcher.tasks.addTask('one', { key: 'T-1' })
      await watcher.tasks.addTask('two', { key: 'T-2' })
      await victim.tasks.claimTaskForAgent('T-1', { leaseMs: 500 })
      await watcher.tasks.claimTaskForAgent('T-2', { agent: 'a-person', leaseMs: 0 })
      host.freeze(101)
      await env.advance(501)
      const before = await watcher.tasks.detectStaleLocks()

      host.kill(101)
      const after = await watcher.tasks.detectStaleLocks()

      expect([before.orphanedCount, after.orphanedCount]).toEqual([0, 1])
      expect(after.locks.filter(({ isOrphaned }) => isOrphaned)).toMatchObject([
        { title: 'one', assignee: 'victim' },
      ])
    })

    test('are orphaned before they expire, in the report and one by one [S5-13]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const off = { recovery: false } as const
      const victim = await store.open({ agent: 'victim', environment: host.process(101), ...off })
      const watcher = await store.open({ agent: 'watcher', environment: host.process(102), ...off })
      await watcher.tasks.addTask('one', { key: 'T-1' })
      await victim.tasks.claimTaskForAgent('T-1')
      const before = await watcher.tasks.getLockStatus('T-1')

      host.kill(101)

      expect(before).toMatchObject({ isOrphaned: false })
      expect(await watcher.tasks.getLockStatus('T-1')).toMatchObject({ isOrphaned: true, isExpired: false })
      expect(await watcher.recovery.detectStaleLocks()).toMatchObject({ orphanedCount: 1, expiredCount: 0 })
    })

    test('are suspect after a whole lease of silence; an update counts as a sign of life [T10]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      await claim('silent', 10 * minute)
      await claim('busy', 10 * minute)
      await env.advance(9 * minute)
      await hf.tasks.updateTask('busy', { agent: 'ada', progress: { done: 1 } })
      await env.advance(2 * minute)

      const { locks, suspectCount } = await hf.tasks.detectStaleLocks()

      expect(suspectCount).toBe(1)
      expect(locks.filter(({ isSuspect }) => isSuspect).map(({ title }) => title)).toEqual(['silent'])
      expect(await hf.tasks.getLockStatus('busy')).toMatchObject({ isSuspect: false, isExpired: true })
      expect(await hf.tasks.getLockStatus('silent')).toMatchObject({ isSuspect: true })
    })

    test('of every kind are in the overall report', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })
      await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
      await hf.queue('main').nextWithLock({ agent: 'bob' })

      const { locks } = await hf.recovery.detectStaleLocks()

      expect(locks.map(({ kind, title }) => `${kind} ${title}`).sort()).toEqual([
        'item w1',
        'lock queue:main',
        'task one',
      ])
    })

    test('beyond ten cause a warning in the log, and each check logs a line [T10]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env, claim } = await openUnhealed(engine, { logger })
      for (let number = 0; number < 10; number++) await claim(`task ${number}`, 0)
      await env.advance(5 * minute + 1)
      await hf.tasks.detectStaleLocks()
      const ten = named('locks.many_stale').length
      await claim('one more', 0)
      await env.advance(5 * minute + 1)

      await hf.tasks.detectStaleLocks()

      expect(ten).toBe(0)
      expect(named('locks.many_stale')).toMatchObject([{ level: 'warn', facts: { staleCount: 11 } }])
      expect(named('locks.summary').map(({ level, facts }) => [level, facts.total])).toEqual([
        ['info', 10],
        ['info', 11],
      ])
    })
  })

  describe('the lock of one task', () => {
    test('is null while nobody holds it, and otherwise shown in full [T11]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      await hf.tasks.addTask('free', { key: 'free' })
      const task = await claim('held', 10 * minute)
      await env.advance(minute)

      expect(await hf.tasks.getLockStatus('free')).toBeNull()
      expect(await hf.tasks.getLockStatus('held')).toEqual({
        taskId: task.id,
        assignee: 'ada',
        assignedAt: task.assignedAt,
        lockUntil: task.lockUntil,
        token: task.token,
        isExpired: false,
        isNear: false,
        isStale: false,
        isOrphaned: false,
        isSuspect: false,
        remainingMs: 9 * minute,
        expiredMs: 0,
        elapsedMs: minute,
      })
      await env.advance(20 * minute)
      expect(await hf.tasks.getLockStatus('held')).toMatchObject({
        isExpired: true,
        isStale: true,
        expiredMs: 11 * minute,
      })
      expect(await refusalCode(() => hf.tasks.getLockStatus('missing'))).toBe('NOT_FOUND')
    })
  })

  describe('cleaning up', () => {
    test('puts expired tasks back to Todo, once, with their work kept, and leaves valid ones alone [T8]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env, claim } = await openUnhealed(engine, { logger })
      const before = await claim('expired', minute)
      await hf.tasks.updateTask('expired', { agent: 'ada', note: 'half', progress: { done: 1 } })
      await claim('valid', 10 * minute)
      await env.advance(minute + 1)

      const first = await hf.tasks.cleanupExpiredLocks()
      const second = await hf.tasks.cleanupExpiredLocks()

      expect(first).toMatchObject({ cleaned: 1, taskIds: [before.id] })
      expect(second.cleaned).toBe(0)
      expect(await hf.tasks.getTask('expired')).toMatchObject({
        status: 'Todo',
        assignee: null,
        progress: { done: 1 },
        notes: [{ text: 'half' }],
        version: before.version + 2,
      })
      expect(await hf.tasks.getTask('valid')).toMatchObject({ status: 'In Progress', assignee: 'ada' })
      expect(named('cleanup.done').map(({ facts }) => facts.cleaned)).toEqual([1, 0])
      await claimedTask(hf.tasks.claimTaskForAgent('expired', { agent: 'bob' }))
    })

    test('with a maximum age takes only tasks that expired longer ago, never a valid old one [T9] [E7]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      const old = await claim('expired long ago', minute)
      const valid = await claim('old and valid', 24 * 60 * minute)
      await env.advance(2 * 60 * minute)
      const young = await claim('expired just now', 0)
      await env.advance(1)

      const tried = await hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: 60 * minute, dryRun: true })
      const held = await hf.tasks.detectStaleLocks()
      const report = await hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: 60 * minute })

      expect(tried).toEqual(report)
      expect(held.total).toBe(3)
      expect(report).toMatchObject({
        cleaned: 1,
        taskIds: [old.id],
        locks: [
          {
            taskId: old.id,
            assignee: 'ada',
            lockUntil: old.lockUntil,
            expiredMs: 2 * 60 * minute + 1 - minute,
          },
        ],
      })
      for (const { id } of [valid, young])
        expect(await hf.tasks.getTask(id)).toMatchObject({ status: 'In Progress' })
    })

    test('takes exactly what is older than the age, to the millisecond [T9]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      await claim('one', 0)
      await env.advance(1_000)

      expect((await hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: 1_000 })).cleaned).toBe(0)
      await env.advance(1)
      expect((await hf.tasks.cleanupExpiredLocksWithReport({ maxAgeMs: 1_000 })).cleaned).toBe(1)
    })

    test('more than fits in one transaction takes each once [T8]', async () => {
      const { hf, env } = await openUnhealed(engine)
      await Promise.all(Array.from({ length: 150 }, (_, number) => hf.tasks.addTask(`task ${number}`)))
      await Promise.all(Array.from({ length: 150 }, () => hf.tasks.claimNext({ agent: 'ada', leaseMs: 0 })))
      await env.advance(1)

      const reports = await Promise.all([hf.tasks.cleanupExpiredLocks(), hf.tasks.cleanupExpiredLocks()])

      expect(reports.reduce((sum, { cleaned }) => sum + cleaned, 0)).toBe(150)
      expect(new Set(reports.flatMap(({ taskIds }) => taskIds)).size).toBe(150)
    })

    test('after dead processes frees their bound locks before expiry, and only theirs [T13] [E1] [E2] [E11]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const off = { recovery: false, leaseMs: 30 * minute } as const
      const victim = await store.open({ agent: 'victim', environment: host.process(101), ...off })
      const alive = await store.open({ agent: 'alive', environment: host.process(102), ...off })
      for (const key of ['bound', 'manual', 'alive', 'alive and expired', 'manual and expired'])
        await alive.tasks.addTask(key, { key })
      const bound = await claimedTask(victim.tasks.claimTaskForAgent('bound'))
      // The name says a pid of this host that nobody has; a name proves nothing.
      await victim.tasks.claimTaskForAgent('manual', { agent: 'general-elsewhere-101', leaseMs: 10_000 })
      await alive.tasks.claimTaskForAgent('alive')
      const frozen = await store.open({ agent: 'frozen', environment: host.process(103), ...off })
      await frozen.tasks.claimTaskForAgent('alive and expired', { leaseMs: 500 })
      await alive.tasks.claimTaskForAgent('manual and expired', { agent: 'a-person', leaseMs: 0 })
      host.freeze(103)
      await env.advance(501)

      host.kill(101)
      const report = await alive.tasks.cleanupDeadAgentLocks()

      const statuses = await Promise.all(
        ['bound', 'manual', 'alive', 'alive and expired', 'manual and expired'].map(
          async (key) => (await present(alive.tasks.getTask(key))).status,
        ),
      )
      expect(statuses).toEqual(['Todo', 'In Progress', 'In Progress', 'In Progress', 'Todo'])
      expect(report.locks.find(({ taskId }) => taskId === bound.task.id)).toMatchObject({
        assignee: 'victim',
        evidence: 'process 101 is gone',
        expiredMs: 0,
      })
      expect(report.cleaned).toBe(2)
    })

    test('after dead processes spares what was granted again in the meantime [E1] [T13]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101), recovery: false })
      const heir = await store.open({ agent: 'heir', environment: host.process(102), recovery: false })
      await heir.tasks.addTask('one', { key: 'T-1' })
      await claimedTask(victim.tasks.claimTaskForAgent('T-1'))
      await victim.tasks.releaseTask('T-1')
      const { task: anew } = await claimedTask(heir.tasks.claimTaskForAgent('T-1'))

      host.kill(101)
      const report = await heir.tasks.cleanupDeadAgentLocks()

      expect(report).toMatchObject({ cleaned: 0 })
      expect(await heir.tasks.getTask('T-1')).toEqual(anew)
    })

    test('in the background runs at its own period until it is stopped or the signal fires [T8]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env, claim } = await openUnhealed(engine, { logger })
      const end = new AbortController()
      const cleanup = hf.tasks.startLockCleanupBackground({ everyMs: minute })
      const other = hf.tasks.startLockCleanupBackground({ everyMs: minute, signal: end.signal })
      end.abort()
      await claim('one', 30_000)

      await env.advance(59_000)
      const before = await present(hf.tasks.getTask('one'))
      await env.advance(2_000)
      const after = await present(hf.tasks.getTask('one'))
      cleanup.stop()
      other.stop()
      const rounds = named('locks.summary').length
      await env.advance(5 * minute)

      expect([before.status, after.status]).toEqual(['In Progress', 'Todo'])
      expect(rounds).toBe(1)
      expect(named('locks.summary')).toHaveLength(1)
    })
  })

  test('a background cleanup ends quietly with its store', async () => {
    const { logger, named } = collectLogs()
    const { store, env } = await engine.open(rareProbes)
    const leaving = await store.open({ logger })
    leaving.tasks.startLockCleanupBackground({ everyMs: minute })

    await leaving.close()
    await env.advance(2 * minute)

    expect(named('recovery.failed')).toEqual([])
  })

  describe('renewing', () => {
    test('by hand sets now plus the lease and never shortens [T6]', async () => {
      const { hf, env, claim } = await openUnhealed(engine)
      const task = await claim('one', 10 * minute)
      await env.advance(minute)

      const renewed = await hf.tasks.renewLease('one', { agent: 'ada' })
      const shorter = await hf.tasks.renewLease('one', { agent: 'ada', leaseMs: 1_000 })
      const longer = await hf.tasks.renewLease('one', { agent: 'ada', leaseMs: 60 * minute })

      const until = (task.lockUntil as number) + minute
      expect([renewed, shorter, longer].map(({ lockUntil }) => lockUntil)).toEqual([
        until,
        until,
        until - 10 * minute + 60 * minute,
      ])
      expect(longer.version).toBe(task.version)
    })

    test('in the background keeps the holder and extends the expiry, every third of the lease [T6]', async () => {
      const { hf, env } = await engine.open(rareProbes)
      await hf.tasks.addTask('one', { key: 'T-1' })
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: 3_000 }))

      const renewal = await hf.tasks.runLeaseRenewal('T-1', { agent: 'ada' })
      await env.advance(minute)
      const kept = await present(hf.tasks.getTask('T-1'))
      renewal.stop()
      await env.advance(10_000)

      expect(kept).toMatchObject({ assignee: 'ada', token: task.token })
      expect(kept.lease?.remainingMs).toBeGreaterThanOrEqual(2_000)
      expect(renewal.signal.aborted).toBe(false)
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ status: 'Todo' })
    })

    test('in the background reports a loss by its signal, by the callback and in the log [T6] [E8]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env, claim } = await openUnhealed(engine, { logger })
      await claim('one', 3 * minute)
      const told: LeaseLostError[] = []
      const renewal = await hf.tasks.runLeaseRenewal('one', {
        agent: 'ada',
        onLost: (error) => told.push(error),
      })
      await env.advance(30_000)

      await hf.queue('tasks').reclaimStale({ thresholdMs: 0 })
      await env.advance(minute)

      expect(renewal.signal.aborted).toBe(true)
      expect(renewal.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
      expect(told).toEqual([renewal.signal.reason])
      expect(named('renew.failed')).toHaveLength(1)
    })

    test('in the background gives up before the lease ends if the store is unreachable [T6] [T22]', async () => {
      const { hf, env, store } = await engine.open({ recovery: false, busyTimeoutMs: 100 })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: minute })
      const renewal = await hf.tasks.runLeaseRenewal('T-1', { agent: 'ada' })
      await env.advance(1_000)
      const free = await store.damage.holdUpWriters()

      await env.advance(40_000)
      const inTime = renewal.signal.aborted
      await env.advance(16_000)
      const late = renewal.signal.aborted
      await free()

      expect([inTime, late]).toEqual([false, true])
      expect(renewal.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
      expect((await present(hf.tasks.getLockStatus('T-1'))).isExpired).toBe(false)
    })

    test('in the background that cannot begin counts from what the store had granted [T6] [T22]', async () => {
      const { hf, env, store } = await engine.open({ recovery: false, busyTimeoutMs: 100 })
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: minute })
      await env.advance(40_000)
      const free = await store.damage.holdUpWriters()

      const renewal = await hf.tasks.runLeaseRenewal('T-1', { agent: 'ada' })
      await env.advance(5_000)
      const inTime = renewal.signal.aborted
      await env.advance(15_000)
      const late = renewal.signal.aborted
      await free()

      expect([inTime, late]).toEqual([false, true])
      expect((await present(hf.tasks.getLockStatus('T-1'))).isExpired).toBe(false)
    })

    test('in the background reports a task that nobody holds as lost [T6]', async () => {
      const { hf } = await engine.open()
      await hf.tasks.addTask('one', { key: 'T-1' })

      expect(await refusalCode(() => hf.tasks.runLeaseRenewal('T-1', { agent: 'ada' }))).toBe('LEASE_LOST')
    })

    test('less often than every half lease causes a warning, and less often than the lease is refused [T6]', async () => {
      const { logger, named } = collectLogs()
      const { hf, claim } = await openUnhealed(engine, { logger })
      await claim('one', 30 * minute)
      await claim('two', 30 * minute)

      const half = await hf.tasks.runLeaseRenewal('one', { agent: 'ada', everyMs: 15 * minute })
      const seldom = await hf.tasks.runLeaseRenewal('two', { agent: 'ada', everyMs: 20 * minute })
      const codes = await Promise.all(
        [30 * minute, 0, -1, Number.NaN].map((everyMs) =>
          refusalCode(() => hf.tasks.runLeaseRenewal('one', { agent: 'ada', everyMs })),
        ),
      )

      expect(named('renew.seldom')).toMatchObject([{ facts: { subject: 'task two', everyMs: 20 * minute } }])
      expect(codes).toEqual(['INVALID', 'INVALID', 'INVALID', 'INVALID'])
      half.stop()
      seldom.stop()
    })

    test('in the background reports the loss when its store is closed [T6]', async () => {
      const { store, env } = await engine.open(rareProbes)
      const leaving = await store.open({ agent: 'leaving' })
      await leaving.tasks.addTask('one', { key: 'T-1' })
      await leaving.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: minute })
      const renewal = await leaving.tasks.runLeaseRenewal('T-1', { agent: 'ada' })

      await leaving.close()
      await env.advance(minute)

      expect(renewal.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    })

    test('ends with the given signal [T6]', async () => {
      const { hf, env } = await engine.open(rareProbes)
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: minute })
      const end = new AbortController()
      await hf.tasks.runLeaseRenewal('T-1', { agent: 'ada', signal: end.signal })
      await env.advance(2 * minute)
      const before = await present(hf.tasks.getTask('T-1'))

      end.abort()
      await env.advance(70_000)

      expect(before.status).toBe('In Progress')
      expect(await hf.tasks.getTask('T-1')).toMatchObject({ status: 'Todo' })
    })
  })

  describe('a lease near its end', () => {
    test('is announced to its holder by an event, once per grant [T10]', async () => {
      const { hf, env } = await engine.open(rareProbes)
      await hf.tasks.addTask('one', { key: 'T-1' })
      const leaseMs = minute
      const { task } = await claimedTask(hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs }))
      const warnings = async () => (await readFeed(hf)).filter(({ kind }) => kind === 'item.expiring')

      await env.advance(40_000)
      const early = await warnings()
      await env.advance(15_000)
      const near = await warnings()
      await hf.tasks.renewLease('T-1', { agent: 'ada' })
      await env.advance(55_000)
      const renewed = await warnings()
      await env.advance(20_000)
      await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob', leaseMs })
      await env.advance(50_000)

      expect(early).toEqual([])
      expect(near).toMatchObject([
        {
          id: task.id,
          token: task.token,
          version: null,
          detail: { holder: 'ada', expiresAt: task.lockUntil },
        },
      ])
      expect(renewed).toEqual(near)
      expect((await warnings()).map(({ detail }) => detail?.holder)).toEqual(['ada', 'bob'])
    })

    test('of a bound holder that renews causes no warning; that of a lock or an item does', async () => {
      const { hf, env } = await engine.open(rareProbes)
      await hf.tasks.addTask('one', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1')
      await hf.queue('main', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
      await hf.queue('main').nextWithLock({ agent: 'bob', leaseMs: minute })

      await env.advance(55_000)

      const warned = (await readFeed(hf)).filter(({ kind }) => kind.endsWith('.expiring'))
      expect(warned.map(({ kind, detail }) => `${kind} ${detail?.holder}`).sort()).toEqual([
        'item.expiring bob',
        'lock.expiring bob',
      ])
    })
  })

  test('a caller’s wall clock, an hour off, changes nothing about a lock [T22] [E10]', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    await hf.tasks.addTask('one', { key: 'T-1' })
    await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })

    for (const shift of [-60 * minute, 120 * minute]) {
      env.setWall(env.now() + shift)
      expect(await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })).toMatchObject({ outcome: 'held' })
      expect(await hf.tasks.getLockStatus('T-1')).toMatchObject({
        isExpired: false,
        remainingMs: 30 * minute,
      })
    }
  })

  test('every action on a lock leaves an event [E11] [T5]', async () => {
    const { hf, env } = await engine.open()
    await hf.tasks.addTask('one', { key: 'T-1' })
    await hf.tasks.claimTaskForAgent('T-1', { agent: 'ada', leaseMs: 1_000 })
    await env.advance(10_000)
    await hf.tasks.claimTaskForAgent('T-1', { agent: 'bob' })
    await hf.tasks.releaseTask('T-1', { agent: 'bob' })

    const events = await hf.queue('tasks').events('T-1')

    expect(events.map(({ kind }) => kind)).toEqual([
      'item.created',
      'item.claimed',
      'item.reclaimed',
      'item.claimed',
      'item.released',
    ])
    expect(events.find(({ kind }) => kind === 'item.reclaimed')?.detail).toMatchObject({ holder: 'ada' })
  })

  test('a busy store is an error with its code, and nothing was claimed [T21]', async () => {
    const { hf, store } = await engine.openInRealTime({ background: false, busyTimeoutMs: 100 })
    await hf.tasks.addTask('one', { key: 'T-1' })
    const free = await store.damage.holdUpWriters()

    const error = await refusal(() => hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' }))
    await free()

    expect(error).toMatchObject({ code: 'BUSY', retryable: true })
    expect(await hf.tasks.getTask('T-1')).toMatchObject({ status: 'Todo', version: 1 })
  })

  test('a claim that succeeds after waiting for other writers is a success [T21] [T3] [E3]', async () => {
    const { hf, env, store } = await engine.open({ busyTimeoutMs: 5_000 })
    await hf.tasks.addTask('one', { key: 'T-1' })
    const free = await store.damage.holdUpWriters()

    const claiming = hf.tasks.claimTaskForAgent('T-1', { agent: 'ada' })
    await env.advance(200)
    await free()
    await env.advance(200)

    expect(await claiming).toMatchObject({ outcome: 'claimed', task: { assignee: 'ada' } })
  })
})

/** A store in which only a test heals, with nothing in the background: minutes cost nothing there. */
async function openUnhealed(engine: Engine, options: object = {}) {
  const opened = await engine.open({ recovery: false, background: false, ...options })
  const claim = async (key: string, leaseMs: number) => {
    await opened.hf.tasks.addTask(key, { key })
    const { task } = await claimedTask(opened.hf.tasks.claimTaskForAgent(key, { agent: 'ada', leaseMs }))
    return task
  }
  return { ...opened, claim }
}
