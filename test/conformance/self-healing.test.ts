/** Suite B, first half: what heals automatically, when, and what is reported. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { claimed, claimedMany, claimedWithLock } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** So that a test sees what the claim itself heals, and not what a timer healed before it. */
const onClaimOnly = { onOpen: false, everyMs: 0, probeEveryMs: 0 }
const leaseMs = 1_000

forEachEngine((engine) => {
  describe('a claim', () => {
    test('removes an expired lock and has a fresh expiry [HP-001]', async () => {
      const { q, env } = await openQueue(engine)
      await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
      await q.submit('w1', { headSha: 'abcd' })
      await env.advance(leaseMs + 1)

      const { lock } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2', leaseMs: 5_000 }))

      expect(lock).toMatchObject({ holder: 'worker-2', stale: false, lease: { remainingMs: 5_000 } })
    })

    test('finds an item whose holder let its lease lapse [HP-002]', async () => {
      const { q, env } = await openQueue(engine)
      await q.submit('w1', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1', leaseMs })
      await env.advance(leaseMs + 1)

      const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(item).toMatchObject({ key: 'w1', holder: 'worker-2', crashes: 1, attempts: 2 })
    })

    test.each(['next', 'nextWithLock', 'claimMany'] as const)(
      'by %s heals first [HP-007] [Q11]',
      async (way) => {
        const { hf, env } = await engine.open({ recovery: onClaimOnly })
        const q = hf.queue('jobs')
        const { item } = await q.add({ a: 1 })
        await q.next({ agent: 'worker-1', leaseMs })
        await env.advance(leaseMs + 1)

        const found = {
          next: async () => [(await claimed(q.next({ agent: 'worker-2' }))).item],
          nextWithLock: async () => [(await claimed(q.nextWithLock({ agent: 'worker-2' }))).item],
          claimMany: () => claimedMany(q.claimMany(5, { agent: 'worker-2' })),
        }

        expect((await found[way]()).map(({ id }) => id)).toEqual([item.id])
      },
    )

    test('succeeds although healing failed, which is logged [HP-008] [Q11]', async () => {
      const { logger, named } = collectLogs()
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly, logger })
      const q = hf.queue('jobs')
      await q.add({ name: 'lost' })
      await q.next({ agent: 'worker-1', leaseMs })
      const { item } = await q.add({ name: 'waiting' })
      await env.advance(leaseMs + 1)
      const mend = await store.damage.failRecovery()

      const claim = await claimed(q.next({ agent: 'worker-2' }))
      await mend()

      expect(claim.item.id).toBe(item.id)
      expect(named('recovery.failed')).toMatchObject([{ level: 'warn', facts: { trigger: 'claim' } }])
    })

    test('respects the requested lease length [HP-010]', async () => {
      const { q, env } = await openQueue(engine)
      await q.submit('w1', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1', leaseMs: 7_000 })

      await env.advance(7_000)
      const inTime = await q.nextWithLock({ agent: 'worker-2' })
      await env.advance(1)
      const tooLate = await q.nextWithLock({ agent: 'worker-2' })

      expect([inTime.outcome, tooLate.outcome]).toEqual(['held', 'claimed'])
    })

    test('at the same time as others returns different items, each once [HP-012] [Q12]', async () => {
      const { hf, store } = await engine.open()
      const handles = [hf, await store.open(), await store.open()]
      await hf.queue('jobs').addMany(Array.from({ length: 30 }, (_, number) => ({ payload: number })))

      const claims = await Promise.all(
        handles.flatMap((handle, number) =>
          Array.from({ length: 10 }, (_, worker) =>
            claimed(handle.queue('jobs').next({ agent: `worker-${number}-${worker}` })),
          ),
        ),
      )

      expect(new Set(claims.map(({ item }) => item.id)).size).toBe(30)
    })

    test('on an empty queue returns nothing and leaves no lock [HP-014] [D-24]', async () => {
      const { q } = await openQueue(engine)

      const claim = await q.nextWithLock({ agent: 'worker-1' })

      expect(claim.outcome).toBe('empty')
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('that had to wait for other writers heals again before it continues [HP-015] [Q11]', async () => {
      const { hf, env, store } = await engine.open({ background: false })
      const q = hf.queue('jobs')
      const { item } = await q.add({})
      await q.next({ agent: 'worker-1', leaseMs })
      const letGo = await store.damage.holdUpWriters()
      const claiming = q.next({ agent: 'worker-2' })

      await env.advance(leaseMs + 1)
      await letGo()
      await env.advance(2_000)

      expect((await claimed(claiming)).item).toMatchObject({ id: item.id, attempts: 2 })
    })
  })

  describe('recovery', () => {
    test('counts exactly what it reclaimed [HP-003] [Q13]', async () => {
      const { q, env } = await openQueue(engine)
      await claimEach(q, 3)
      await env.advance(leaseMs + 1)

      const report = await q.detectAndRecoverStale()

      expect(report).toMatchObject({
        locksCleaned: 1,
        entriesReclaimed: 3,
        quarantined: 0,
        byState: { claimed: 3 },
        recoveryTimestamp: env.now(),
      })
      expect(new Set(report.ids)).toEqual(new Set((await q.list()).items.map(({ id }) => id)))
    })

    test('lets every item be finished after many crashes, with no manual call [HP-004]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await q.addMany(Array.from({ length: 6 }, (_, number) => ({ payload: number })))
      for (let worker = 1; worker <= 6; worker++) await q.next({ agent: `worker-${worker}`, leaseMs })
      await env.advance(leaseMs + 1)

      for (let done = 0; done < 6; done++) {
        const { item } = await claimed(q.next({ agent: 'survivor' }))
        await q.complete(item.id, { agent: 'survivor' })
      }

      expect(await q.stats()).toMatchObject({ completed: 6, pending: 0, processing: 0 })
    })

    test('reports what it would do without doing it, however often it is asked [HP-005] [Q16]', async () => {
      const { hf, q, env } = await openQueue(engine)
      await claimEach(q, 2)
      await env.advance(leaseMs + 1)
      const before = { list: await q.list(), lock: await q.getProcessingLock() }

      const first = await q.getRecoveryStats()
      const second = await hf.recovery.getRecoveryStats()

      expect(first).toMatchObject({ locksCleaned: 1, entriesReclaimed: 2, recoveryTimestamp: env.now() })
      expect(second).toEqual(first)
      expect({ list: await q.list(), lock: await q.getProcessingLock() }).toEqual(before)
    })

    test('keeps its history separate from what it would do now [Q16] [Z8]', async () => {
      const { q, env } = await openQueue(engine)
      await claimEach(q, 2)
      await env.advance(leaseMs + 1)
      const before = await q.getRecoveryStats()
      await q.detectAndRecoverStale()

      const after = await q.getRecoveryStats()

      expect(before).toMatchObject({ lastRun: null, totals: { locksCleaned: 0, entriesReclaimed: 0 } })
      expect(after).toMatchObject({
        locksCleaned: 0,
        entriesReclaimed: 0,
        lastRun: { at: env.now(), trigger: 'manual', locksCleaned: 1, entriesReclaimed: 2 },
        totals: { locksCleaned: 1, entriesReclaimed: 2 },
      })
    })

    test('that failed is remembered with its error until somebody asks [Q16] [Q11]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await q.add({})
      await q.next({ agent: 'worker-1', leaseMs })
      await env.advance(leaseMs + 1)
      const mend = await store.damage.failRecovery()
      await q.next({ agent: 'worker-2' })
      await mend()

      const stats = await q.getRecoveryStats()

      expect(stats).toHaveProperty('lastError')
      expect((stats as { lastError?: unknown }).lastError).toBeTruthy()
    })

    test('as a dry run reports everything that a real one would do [Q13] [EC-003]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await claimAll(q, 150)
      await env.advance(leaseMs + 1)

      const tried = await q.detectAndRecoverStale({ dryRun: true })
      const done = await q.detectAndRecoverStale()

      expect(done.entriesReclaimed).toBe(150)
      expect(tried.entriesReclaimed).toBe(150)
    })

    test('works beside a manual reclaim [HP-009]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      await q.next({ agent: 'worker-1', leaseMs: 60_000 })
      await q.next({ agent: 'worker-2', leaseMs })
      await env.advance(leaseMs + 1)

      const automatic = (await q.detectAndRecoverStale()).entriesReclaimed
      const manual = await q.reclaimStale({ thresholdMs: 0 })

      expect([automatic, manual]).toEqual([1, 1])
    })

    test('keeps payload, priority, workspace, bead and progress, and clears the holder [HP-011] [Q1]', async () => {
      const { q, env } = await openQueue(engine)
      await q.submit('w1', { headSha: 'abcd', bead: 'bd-1', priority: 1, payload: { files: 3 } })
      await q.nextWithLock({ agent: 'worker-1', leaseMs })
      await q.progress('w1', { done: 2 }, { agent: 'worker-1' })
      await env.advance(leaseMs + 1)

      await q.detectAndRecoverStale()

      expect(await q.get('w1')).toMatchObject({
        state: 'pending',
        priority: 1,
        payload: { files: 3 },
        progress: { done: 2 },
        data: { bead: 'bd-1', headSha: 'abcd' },
        holder: null,
        lease: null,
        startedAt: null,
      })
    })

    test('run twice has the same result as run once [HP-013] [CV-008] [Q13]', async () => {
      const { hf, q, env, store } = await openQueue(engine)
      await claimEach(q, 4)
      await env.advance(leaseMs + 1)
      const other = (await store.open({ recovery: onClaimOnly })).queue('main')

      const reports = await Promise.all([
        q.detectAndRecoverStale(),
        other.detectAndRecoverStale(),
        hf.recovery.detectAndRecoverStale(),
      ])
      const again = await q.detectAndRecoverStale()

      const sum = (field: 'entriesReclaimed' | 'locksCleaned') =>
        reports.reduce((total, report) => total + report[field], 0)
      expect([sum('entriesReclaimed'), sum('locksCleaned')]).toEqual([4, 1])
      expect(again).toMatchObject({ entriesReclaimed: 0, locksCleaned: 0, ids: [] })
    })

    test('in the background and by hand at once takes each item exactly once [EP-003]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await claimAll(q, 20)
      await env.advance(leaseMs + 1)
      const other = (await store.open({ recovery: onClaimOnly })).queue('jobs')

      await Promise.all([
        other.next({ agent: 'worker-1' }),
        q.reclaimStale({ thresholdMs: 0 }),
        other.detectAndRecoverStale(),
        q.reclaimStale({ thresholdMs: 0 }),
      ])

      const { items } = await q.list()
      expect(items.map(({ crashes }) => crashes)).toEqual(items.map(() => 1))
      expect(items).toHaveLength(20)
    })

    test('of one queue leaves the others alone [Q13]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const left = hf.queue('left')
      const right = hf.queue('right')
      await claimAll(left, 2)
      await claimAll(right, 3)
      await env.advance(leaseMs + 1)

      const report = await left.detectAndRecoverStale()

      expect(report.entriesReclaimed).toBe(2)
      expect(await right.getRecoveryStats()).toMatchObject({ entriesReclaimed: 3 })
    })

    test('never touches a live lease [Q13]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      await q.next({ agent: 'worker-1', leaseMs: 10_000 })
      const own = await claimed(q.next())
      await env.advance(10_000)

      const report = await q.detectAndRecoverStale()

      expect(report.entriesReclaimed).toBe(0)
      expect(await q.get(own.item.id)).toMatchObject({ holder: hf.agent })
    })
  })

  describe('the processing lock', () => {
    test('is stale after its last millisecond and not during it [HP-006] [EC-006] [Q10]', async () => {
      const { q, env } = await openQueue(engine)
      const none = await q.isLockStale()
      await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })

      await env.advance(leaseMs)
      const atExpiry = await q.isLockStale()
      const claim = await q.nextWithLock({ agent: 'worker-2' })
      await env.advance(1)
      const after = await q.isLockStale()

      expect([none, atExpiry, after]).toEqual([false, false, true])
      expect(claim).toMatchObject({ outcome: 'held', holder: 'worker-1' })
    })

    test('that lapsed is shown as lapsed before any sweep [Q10] [X3]', async () => {
      const { q, env } = await openQueue(engine)
      await claimEach(q, 1)
      await env.advance(leaseMs + 1)

      const lock = await q.getProcessingLock()

      expect(lock).toMatchObject({
        stale: true,
        holder: null,
        lease: { agent: 'worker-1', status: 'expired' },
      })
      expect(await q.get('w1')).toMatchObject({
        state: 'claimed',
        holder: null,
        lease: { status: 'expired' },
      })
    })
  })
})

async function openQueue(engine: Engine) {
  const opened = await engine.open({ recovery: onClaimOnly })
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

/** As many workers, each with an item; the last one still has the lock. */
async function claimEach(q: Queue, count: number): Promise<void> {
  for (let number = 1; number <= count; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
  for (let number = 1; number <= count; number++) {
    await claimedWithLock(q.nextWithLock({ agent: `worker-${number}`, leaseMs }))
    if (number < count) await q.releaseProcessingLock({ agent: `worker-${number}` })
  }
}

async function claimAll(q: Queue, count: number): Promise<void> {
  await q.addMany(Array.from({ length: count }, (_, number) => ({ payload: number })))
  for (let left = count; left > 0; left -= 100)
    await claimedMany(q.claimMany(Math.min(left, 100), { agent: 'worker-0', leaseMs }))
}
