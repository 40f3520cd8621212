/** Opening a store in which much has lapsed: locks and what the dead held first, items for a moment, the rest beside the work. */
import type { Holdfast, OpenOptions } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { take } from '../support/locks.ts'
import { collectLogs } from '../support/logs.ts'
import { claimedMany } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine, type Opened } from '../support/stores.ts'

const leaseMs = 10_000
/** What a piece of healing takes in these tests: two and a bit fit in the time that opening has for items. */
const pieceMs = 90
const lapsed = 700

forEachEngine((engine) => {
  describe('opening a store with more lapsed items than it has time for', () => {
    test('returns after 200 ms; the caretaker carries on at once, even with the timer off [S5e-11]', async () => {
      const opened = await openWithLapsed(engine)
      const timerOff = { recovery: { everyMs: 0, probeEveryMs: 0 } }

      const hf = await openSlowly(opened, timerOff)
      const left = await held(hf)
      for (let round = 0; round < 10; round++) await opened.env.advance(100)

      expect(left).toBeGreaterThan(0)
      expect(left).toBeLessThan(lapsed)
      expect(await held(hf)).toBe(0)
    })

    test('without a caretaker it leaves the rest to claims [S5e-11]', async () => {
      const opened = await openWithLapsed(engine)

      const hf = await openSlowly(opened, { background: false })
      const left = await held(hf)
      for (let claim = 0; claim < lapsed / 100; claim++) await hf.queue('empty').next({ renew: false })

      expect(left).toBeGreaterThan(0)
      expect(await held(hf)).toBe(0)
    })

    test('recoverLocksOnStartup() and a recovery by request run until nothing is left [S5e-11]', async () => {
      for (const recover of [
        (hf: Holdfast) => hf.locks.recoverLocksOnStartup(),
        (hf: Holdfast) => hf.recovery.detectAndRecoverStale(),
      ]) {
        const opened = await openWithLapsed(engine)
        const hf = await openSlowly(opened, { background: false })

        await recover(hf)

        expect(await held(hf)).toBe(0)
      }
    })

    test('frees every lapsed lock, pauses its run, and reclaims what dead processes held [S5e-11]', async () => {
      const opened = await openWithLapsed(engine)
      const { hf: before, env, store } = opened
      const host = machine(env)
      const victim = await store.open({ agent: 'victim', environment: host.process(101), recovery: false })
      await victim.queue('own').addMany(Array.from({ length: 150 }, () => ({ payload: null })))
      for (const limit of [100, 50]) await claimedMany(victim.queue('own').claimMany(limit))
      for (let number = 0; number < 120; number++)
        await take(before, `lock-${number}`, { agent: 'gone', leaseMs: 1_000 })
      await take(before, 'zoo', { agent: 'gone', run: 'c1', leaseMs: 1_000 })
      await before.runs.start('c1', { lock: 'zoo', total: 5, agent: 'gone' })
      await env.advance(1_001)
      host.kill(101)

      const hf = await openSlowly(opened, { background: false }, host)

      expect((await hf.locks.list()).locks).toEqual([])
      expect(await hf.runs.get('c1')).toMatchObject({ status: 'paused' })
      expect(await hf.queue('own').stats()).toMatchObject({ pending: 150, processing: 0 })
      expect(await held(hf)).toBeGreaterThan(0)
    })
  })

  test('each recovery transaction logs at most ten leases, then a summary; the events have all of them [S5e-11]', async () => {
    const { hf, store } = await openWithLapsed(engine, 100)
    const { logger, named } = collectLogs()

    await store.open({ background: false, logger })

    expect(named('lease.reclaimed')).toHaveLength(10)
    expect(named('recovery.completed')).toMatchObject([{ facts: { trigger: 'open', entriesReclaimed: 100 } }])
    expect((await readFeed(hf)).filter(({ kind }) => kind === 'item.reclaimed')).toHaveLength(100)
  })
})

/** Claimed by hand, so that nobody renews them. */
async function openWithLapsed(engine: Engine, count = lapsed): Promise<Opened> {
  const opened = await engine.open({ background: false, recovery: false })
  const jobs = opened.hf.queue('jobs')
  await jobs.addMany(Array.from({ length: count }, (_, number) => ({ payload: number })))
  for (let taken = 0; taken < count; taken += 100)
    await claimedMany(jobs.claimMany(100, { agent: 'gone', leaseMs }))
  await opened.env.advance(leaseMs + 1)
  return opened
}

/** As a process for which every commit takes long. */
function openSlowly({ env, store }: Opened, options: OpenOptions, host = machine(env)): Promise<Holdfast> {
  let spentMs = 0
  const process = host.process(7)
  return store.open({
    environment: {
      ...process,
      monotonic: () => process.monotonic() + spentMs,
      reached(point) {
        if (point === 'transaction.committed') spentMs += pieceMs
      },
    },
    ...options,
  })
}

async function held(hf: Holdfast): Promise<number> {
  return (await hf.queue('jobs').stats()).processing
}
