/** Time: one lease clock that nobody can set, and the wall clock for people. */
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { claimed, claimedWithLock, present } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const yearMs = 365 * 86_400_000

forEachEngine((engine) => {
  describe.each([
    { jump: 'set forward by a year', by: yearMs },
    { jump: 'set back by a year', by: -yearMs },
  ])('a date $jump', ({ by }) => {
    test('takes no lease from any holder, bound or manual', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      await q.addMany([{ payload: 1 }, { payload: 2 }])
      const bound = await claimed(q.next())
      const manual = await claimed(q.next({ agent: 'worker-1', leaseMs: 10_000 }))

      env.setWall(env.now() + by)
      await env.advance(9_000)
      const claim = await q.next({ agent: 'rival' })

      expect(claim.outcome).toBe('empty')
      expect(bound.lease?.signal.aborted).toBe(false)
      expect(await q.get(bound.item.id)).toMatchObject({ holder: hf.agent })
      expect(await q.get(manual.item.id)).toMatchObject({ holder: 'worker-1', lease: { remainingMs: 1_000 } })
    })

    test('makes no lease last longer', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      const { item } = await q.add(null)
      await q.next({ agent: 'worker-1', leaseMs: 10_000 })

      env.setWall(env.now() + by)
      await env.advance(10_001)

      expect((await claimed(q.next({ agent: 'rival' }))).item.id).toBe(item.id)
    })

    test('is doubted in the log, and the holder carries on', async () => {
      const { logger, named } = collectLogs()
      const { hf, env } = await engine.open({ logger })
      await hf.queue('jobs').add(null)
      const { lease } = await claimed(hf.queue('jobs').next())

      env.setWall(env.now() + by)
      await env.advance(1_000)

      expect(named('clock.jumped')).toMatchObject([{ level: 'warn', facts: { sleptMs: 0, wallJumpMs: by } }])
      expect(lease?.isHeld).toBe(true)
    })

    test('leaves the times of an item in order [Q1]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      const { item } = await q.add(null)
      env.setWall(env.now() + by)
      await q.next({ agent: 'worker-1' })
      env.setWall(env.now() + by)

      await q.complete(item.id, { agent: 'worker-1' })

      const done = await present(q.get(item.id))
      expect(done.startedAt).not.toBeNull()
      expect(done.startedAt ?? 0).toBeLessThanOrEqual(done.stateChangedAt)
      expect(done.closedAt).toBe(done.stateChangedAt)
    })
  })

  describe('a host that sleeps', () => {
    test('finds everything that came due in the meantime due when it wakes', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs')
      await q.add('alarm', { runAt: env.now() + 3_600_000 })

      env.suspend(2 * 3_600_000)

      expect((await claimed(q.next())).item.payload).toBe('alarm')
    })

    test('renews at once when it wakes, and says that it slept', async () => {
      const { logger, named } = collectLogs()
      const { hf, env } = await engine.open({ logger })
      const q = hf.queue('jobs')
      const { item } = await q.add(null)
      await q.next()
      await env.advance(5_000)

      env.suspend(3_600_000)
      await env.advance(200)

      expect(named('clock.jumped')).toMatchObject([{ facts: { sleptMs: 3_600_000 } }])
      expect((await present(q.get(item.id))).lease?.remainingMs).toBeGreaterThan(29_000)
    })
  })

  test('a lease holds at its last millisecond and not after it, in every read [X1] [X3]', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })
    await q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 })
    const look = async () => ({
      holder: (await q.get('w1'))?.holder,
      lockHolder: (await q.getProcessingLock())?.holder,
      stale: await q.isLockStale(),
      due: (await q.getRecoveryStats()).entriesReclaimed,
      tried: (await q.detectAndRecoverStale({ dryRun: true })).entriesReclaimed,
    })

    await env.advance(1_000)
    const atExpiry = await look()
    await env.advance(1)
    const after = await look()

    expect(atExpiry).toEqual({ holder: 'worker-1', lockHolder: 'worker-1', stale: false, due: 0, tried: 0 })
    expect(after).toEqual({ holder: null, lockHolder: null, stale: true, due: 1, tried: 1 })
  })

  test('a lease is live, then near its end, then expired, then stale', async () => {
    const { hf, env } = await engine.open({ background: false, recovery: false })
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    await q.next({ agent: 'worker-1', leaseMs: 30_000 })
    const seen: (string | undefined)[] = []

    for (const ms of [20_000, 1, 9_999, 1, 300_000]) {
      await env.advance(ms)
      seen.push((await q.get(item.id))?.lease?.status)
    }

    expect(seen).toEqual(['live', 'near', 'near', 'expired', 'stale'])
  })

  test('a holder that cannot renew gives up before the store would reclaim', async () => {
    const { hf, env, store } = await engine.open({ leaseMs: 3_000, busyTimeoutMs: 200 })
    const q = hf.queue('jobs')
    await q.add(null)
    const { item, lease } = await claimed(q.next())
    const letGo = await store.damage.holdUpWriters()

    await env.advance(2_900)
    const told = {
      aborted: lease?.signal.aborted,
      held: lease?.isHeld,
      store: (await q.get(item.id))?.holder,
    }
    await letGo()

    expect(told).toEqual({ aborted: true, held: false, store: hf.agent })
    expect(() => lease?.assertHeld()).toThrow(expect.objectContaining({ code: 'LEASE_LOST' }))
  })

  test('a renewal sets now plus the lease, and never shortens it [Q9]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'abcd' })
    await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs: 60_000 }))
    await env.advance(1_000)

    const shorter = await q.renewLock({ agent: 'worker-1', leaseMs: 10_000 })
    const longer = await q.renewLock({ agent: 'worker-1', leaseMs: 90_000 })

    expect([shorter.lease.remainingMs, longer.lease.remainingMs]).toEqual([59_000, 90_000])
    expect((await present(q.get('w1'))).lease?.remainingMs).toBe(90_000)
  })
})

test('the movable environment counts whole milliseconds, like every host', async () => {
  const env = new MovableEnvironment()
  const seen: number[] = []
  env.timer(0.25, () => seen.push(env.now()))

  await env.advance(1)

  expect(seen.map((now) => Number.isInteger(now))).toEqual([true])
})
