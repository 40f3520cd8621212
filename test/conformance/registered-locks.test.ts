/** Locks of an agent whose process was registered: bound to that process, through whatever helper they were taken. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimedWithLock, refusalCode } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const coder = { agent: 'coder' }

/** Ways to take a lock for the agent, and the name it gets. */
const takings: Record<string, { leaseMs: number; take: (hf: Holdfast) => Promise<string> }> = {
  'a named lock': {
    leaseMs: 3_600_000,
    take: async (hf) => (await take(hf, 'deploy', coder)).lock.name,
  },
  'a resource': {
    leaseMs: 60_000,
    take: async (hf) => (await take(hf, 'session:1', coder)).lock.name,
  },
  'one of several slots': {
    leaseMs: 3_600_000,
    take: async (hf) => (await take(hf, 'pool', { ...coder, slots: 2 })).lock.name,
  },
  'a reservation': {
    leaseMs: 300_000,
    take: async (hf) => claimedName(await hf.locks.reserve('src/**', coder)),
  },
  'a processing lock': {
    leaseMs: 300_000,
    take: async (hf) => claimedName(await hf.queue('main').acquireProcessingLock(coder)),
  },
  'a processing lock with its item': {
    leaseMs: 300_000,
    async take(hf) {
      await hf.queue('jobs').add(null, { key: 'w1' })
      return (await claimedWithLock(hf.queue('jobs').nextWithLock(coder))).lock.name
    },
  },
  'the next item of a queue with slots': {
    leaseMs: 300_000,
    async take(hf) {
      await hf.queue('merges', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
      return (await claimedWithLock(hf.queue('merges').next(coder))).lock.name
    },
  },
}

forEachEngine((engine) => {
  describe('is freed at once when the process is proven dead, never because a helper exited', () => {
    test.each(Object.entries(takings))('%s [L4] [L9] [Q7]', async (_what, { leaseMs, take: takeBy }) => {
      const { env, host, helper, watcher } = await openFleet(engine)
      await helper.agents.register({ ...coder, pid: 101 })
      const name = await takeBy(helper)
      await helper.close()
      host.kill(201)
      await env.advance(2_000)
      const kept = (await watcher.locks.list()).locks

      host.kill(101)
      await env.advance(1_000)

      expect(kept).toMatchObject([
        { name, holder: 'coder', lease: { leaseMs, instance: expect.any(String) } },
      ])
      expect((await watcher.locks.list()).locks).toEqual([])
      expect((await watcher.recovery.detectStaleLocks()).total).toBe(0)
    })
  })

  test('is not renewed: it lapses when it says, even while its process lives [L4]', async () => {
    const { env, helper, watcher } = await openFleet(engine)
    await helper.agents.register({ ...coder, pid: 101 })
    const { lock, lease } = await take(watcher, 'deploy', { ...coder, leaseMs: 10_000 })

    await env.advance(9_000)
    const { renewedAt } = await watcher.locks.getCurrentLockInfo('deploy')
    await env.advance(10_000)

    expect(lease).toBeNull()
    expect(renewedAt).toBe(lock.lease.grantedAt)
    expect((await watcher.locks.list()).locks).toEqual([])
  })

  test('its run is paused when its process dies [L9] [P4]', async () => {
    const { env, host, helper, watcher } = await openFleet(engine)
    await helper.agents.register({ ...coder, pid: 101 })
    const { lock } = await take(helper, 'global', { ...coder, run: 'r' })
    await helper.runs.start('r', { ...coder, token: lock.lease.token, total: 3 })

    host.kill(101)
    await env.advance(1_000)

    expect(await watcher.runs.get('r')).toMatchObject({ status: 'paused' })
  })

  test('helpers of one process are one holder: for re-entry, unfinished items and the paths they name [L2] [L15]', async () => {
    const { store, helper, watcher } = await openFleet(engine)
    const other = await store.open({ agent: 'other', background: false })
    await helper.agents.register({ ...coder, pid: 101 })
    await helper.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
    const first = await claimedWithLock(helper.queue('jobs').nextWithLock(coder))
    await take(helper, 'deploy', { ...coder, reentrant: true })
    const outer = await helper.locks.reserve('src/**', coder)
    if (outer.outcome !== 'acquired') throw new Error('its paths were not reserved')

    const again = await claimedWithLock(other.queue('jobs').nextWithLock(coder))
    const entered = await take(other, 'deploy', { ...coder, reentrant: true })
    const holding = [{ name: outer.lock.name, token: outer.lock.lease.token }]
    const inside = await other.locks.reserve('src/a.ts', { ...coder, holding })
    const stranger = await watcher.locks.reserve('src/b.ts')

    expect([again.item.id, again.item.token]).toEqual([first.item.id, first.item.token])
    expect(entered.lock.depth).toBe(2)
    expect([inside.outcome, stranger.outcome]).toEqual(['acquired', 'held'])
  })

  test('a lock taken by hand before the process was registered stays with its holder, by its token [L2]', async () => {
    const { helper } = await openFleet(engine)
    await take(helper, 'deploy', { ...coder, reentrant: true })
    await helper.agents.register({ ...coder, pid: 101 })

    const again = await take(helper, 'deploy', { ...coder, reentrant: true })

    expect(again.lock).toMatchObject({ depth: 2, lease: { instance: null } })
  })

  test('a process that has ended binds no lease: the lock is manual again [L4]', async () => {
    const { env, host, helper, watcher } = await openFleet(engine)
    await helper.agents.register({ ...coder, pid: 101 })
    host.kill(101)
    await env.advance(1_000)

    await take(helper, 'deploy', coder)
    await env.advance(1_000)

    expect((await watcher.locks.list()).locks).toMatchObject([{ lease: { instance: null } }])
  })

  test('can be released with its token, from any process [L3]', async () => {
    const { helper, watcher } = await openFleet(engine)
    await helper.agents.register({ ...coder, pid: 101 })
    const { lock } = await take(helper, 'deploy', coder)
    const acquired = await helper.queue('main').acquireProcessingLock(coder)
    const token = acquired.outcome === 'acquired' ? acquired.lock.lease.token : 0

    expect(await watcher.locks.releaseLock('deploy', { ...coder, token: lock.lease.token + 1 })).toBe(false)
    expect(await watcher.locks.releaseLock('deploy', { ...coder, token: lock.lease.token })).toBe(true)
    expect(await refusalCode(() => watcher.queue('main').renewLock(coder))).toBe('LEASE_LOST')
    expect(await watcher.queue('main').releaseProcessingLock({ ...coder, token })).toBe(true)
  })
})

/** A helper that takes locks for others, and a process that looks after everybody's. */
async function openFleet(engine: Engine) {
  const { env, store } = await engine.open({ background: false })
  const host = machine(env)
  const helper = await store.open({ agent: 'helper', environment: host.process(201), background: false })
  const watcher = await store.open({ agent: 'watcher', environment: host.process(202) })
  return { env, store, host, helper, watcher }
}

function claimedName(answer: { outcome: string; lock?: { name: string } }): string {
  expect(answer).toMatchObject({ outcome: 'acquired' })
  return answer.lock?.name ?? ''
}
