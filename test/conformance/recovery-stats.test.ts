/** What a recovery would do, what past ones did, and how often one failed. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, claimedWithLock } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

const off = { recovery: false } as const

/** The counts that both the stats and a recovery tell. */
const counts = ({
  locksCleaned,
  entriesReclaimed,
  messagesReclaimed,
}: {
  locksCleaned: number
  entriesReclaimed: number
  messagesReclaimed: number
}) => ({ locksCleaned, entriesReclaimed, messagesReclaimed })

async function addTo(hf: Holdfast, queue: string, count: number): Promise<void> {
  await hf.queue(queue).addMany(Array.from({ length: count }, (_, number) => ({ payload: number })))
}

forEachEngine((engine) => {
  describe('the stats equal what a recovery does', () => {
    test('for a holder that was killed, before its lease lapses [S5-11]', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const victim = await store.open({ ...off, agent: 'victim', environment: host.process(101) })
      const hf = await store.open({ ...off, agent: 'survivor', environment: host.process(102) })
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await claimedWithLock(victim.queue('main').nextWithLock())
      await take(victim, 'press')
      await addTo(hf, 'jobs', 3)
      await victim.queue('jobs').claimMany(2)
      host.kill(101)

      const stats = await hf.recovery.getRecoveryStats()
      const ofQueue = await q.getRecoveryStats()
      const tried = await hf.recovery.detectAndRecoverStale({ dryRun: true })
      const done = await hf.recovery.detectAndRecoverStale()

      expect(counts(stats)).toEqual({ locksCleaned: 2, entriesReclaimed: 3, messagesReclaimed: 0 })
      expect(counts(ofQueue)).toEqual({ locksCleaned: 1, entriesReclaimed: 1, messagesReclaimed: 0 })
      expect(counts(tried)).toEqual(counts(stats))
      expect(counts(done)).toEqual(counts(stats))
      expect(counts(await hf.recovery.getRecoveryStats())).toEqual({
        locksCleaned: 0,
        entriesReclaimed: 0,
        messagesReclaimed: 0,
      })
    })

    test('for a lock whose delay ends, which takes nothing from any holder [S5-11]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada' })
      await take(hf, 'press', { agent: 'bob', leaseMs: 1_000, delayMs: 5_000 })
      await env.advance(1_001)
      await hf.recovery.detectAndRecoverStale()
      await env.advance(5_001)

      const stats = await hf.recovery.getRecoveryStats()
      const done = await hf.recovery.detectAndRecoverStale()

      expect(counts(stats)).toEqual(counts(done))
      expect(stats.locksCleaned).toBe(0)
    })

    test('for an item that cannot be read [S5-11]', async () => {
      const { hf, env, store } = await engine.open({ ...off, agent: 'ada' })
      await addTo(hf, 'jobs', 2)
      const q = hf.queue('jobs')
      const { item } = await claimed(q.next({ agent: 'bob', leaseMs: 1_000 }))
      await claimed(q.next({ agent: 'bob', leaseMs: 1_000 }))
      await store.damage.garble(item.id)
      await env.advance(1_001)

      const stats = await hf.recovery.getRecoveryStats()
      const done = await hf.recovery.detectAndRecoverStale()

      expect(counts(stats)).toEqual(counts(done))
      expect(stats.entriesReclaimed).toBe(1)
    })
  })

  describe('the history of recoveries', () => {
    test('has the actions per queue, and in total [S5-11]', async () => {
      const { hf, env } = await engine.open({ ...off, agent: 'ada' })
      await addTo(hf, 'one', 2)
      await addTo(hf, 'two', 3)
      await hf.queue('one').claimMany(2, { agent: 'bob', leaseMs: 1_000 })
      await env.advance(1_001)
      await hf.queue('one').detectAndRecoverStale()
      const firstAt = env.now()
      await hf.queue('two').claimMany(3, { agent: 'bob', leaseMs: 1_000 })
      await take(hf, 'press', { agent: 'bob', leaseMs: 1_000 })
      await env.advance(1_001)
      await hf.recovery.detectAndRecoverStale()

      const [one, two, all] = [
        await hf.queue('one').getRecoveryStats(),
        await hf.queue('two').getRecoveryStats(),
        await hf.recovery.getRecoveryStats(),
      ]

      expect(one).toMatchObject({
        lastRun: { at: firstAt, entriesReclaimed: 2, locksCleaned: 0 },
        totals: { entriesReclaimed: 2, locksCleaned: 0 },
      })
      expect(two).toMatchObject({
        lastRun: { at: env.now(), entriesReclaimed: 3, locksCleaned: 0 },
        totals: { entriesReclaimed: 3, locksCleaned: 0 },
      })
      expect(all).toMatchObject({
        lastRun: { at: env.now(), trigger: 'manual', by: 'ada', entriesReclaimed: 3, locksCleaned: 1 },
        totals: { entriesReclaimed: 5, locksCleaned: 1 },
      })
      expect(await hf.queue('none').getRecoveryStats()).toMatchObject({ lastRun: null })
    })
  })

  describe('a recovery that failed', () => {
    test('is counted for its queue, and still known after a restart [S5-11]', async () => {
      const recovery = { onOpen: false, onClaim: true, everyMs: 0, probeEveryMs: 0 }
      const { hf, env, store } = await engine.open({ recovery, agent: 'ada' })
      await addTo(hf, 'jobs', 2)
      await claimed(hf.queue('jobs').next({ agent: 'bob', leaseMs: 1_000 }))
      await env.advance(1_001)
      const mend = await store.damage.failRecovery()
      await hf.queue('jobs').next({ agent: 'cy' })
      await mend()
      const failedAt = env.now()
      await hf.close()

      const later = await store.open({ recovery, agent: 'zoe' })
      const all = await later.recovery.getRecoveryStats()
      const own = await later.queue('jobs').getRecoveryStats()
      const other = await later.queue('other').getRecoveryStats()

      expect(all).toMatchObject({
        totals: { failures: 1 },
        lastError: { at: failedAt, trigger: 'claim', by: 'ada' },
      })
      expect(own.totals.failures).toBe(1)
      expect(other).toMatchObject({ totals: { failures: 0 }, lastError: null })
    })

    test('while another failure is being written is counted for others too [S5-11]', async () => {
      const recovery = { onOpen: false, onClaim: true, everyMs: 0, probeEveryMs: 0 }
      const { hf, env, store } = await engine.open({ recovery, agent: 'ada' })
      const other = await store.open({ ...off, agent: 'zoe' })
      for (const queue of ['jobs', 'letters']) await addTo(hf, queue, 2)
      await claimed(hf.queue('jobs').next({ agent: 'bob', leaseMs: 1_000 }))
      await env.advance(1_001)
      const mend = await store.damage.failRecovery()

      // The second claim runs together with the record of the first failure.
      for (const queue of ['jobs', 'letters']) await hf.queue(queue).next({ agent: 'cy' })
      await mend()
      for (let writes = 0; writes < 3; writes++) await hf.queue('others').add(writes)

      expect(await other.recovery.getRecoveryStats()).toMatchObject({ totals: { failures: 2 } })
      expect(await other.queue('letters').getRecoveryStats()).toMatchObject({ totals: { failures: 1 } })
    })

    test('on request says so, with what to do, and is counted [S5-11] [S5-18]', async () => {
      const { hf, env, store } = await engine.open({ ...off, agent: 'ada' })
      await addTo(hf, 'jobs', 1)
      await claimed(hf.queue('jobs').next({ agent: 'bob', leaseMs: 1_000 }))
      await env.advance(1_001)
      const mend = await store.damage.failRecovery()

      const failure = await hf
        .queue('jobs')
        .detectAndRecoverStale()
        .catch((error: Error) => error)
      await mend()

      expect(String(failure)).toMatch(/recovery failed: .*; .*retrying is safe/)
      expect(await hf.queue('jobs').getRecoveryStats()).toMatchObject({
        totals: { failures: 1 },
        lastError: { trigger: 'manual' },
      })
      expect((await hf.queue('jobs').detectAndRecoverStale()).entriesReclaimed).toBe(1)
    })
  })

  describe('healing before a claim', () => {
    const onClaim = { onOpen: false, onClaim: true, everyMs: 0, probeEveryMs: 0 }

    test('begins with the claimed queue [S5-12]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaim, agent: 'ada' })
      await addTo(hf, 'elsewhere', 150)
      for (const limit of [100, 50])
        await hf.queue('elsewhere').claimMany(limit, { agent: 'bob', leaseMs: 1_000 })
      await env.advance(10)
      await hf.queue('jobs').add('lost', { priority: 0 })
      await claimed(hf.queue('jobs').next({ agent: 'bob', leaseMs: 1_000 }))
      await hf.queue('jobs').add('later', { priority: 9 })
      await env.advance(1_001)

      const { item } = await claimed(hf.queue<string>('jobs').next())

      expect(item.payload).toBe('lost')
    })

    test('begins with tasks if a task is claimed [S5-12]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaim, agent: 'ada' })
      await addTo(hf, 'elsewhere', 150)
      for (const limit of [100, 50])
        await hf.queue('elsewhere').claimMany(limit, { agent: 'bob', leaseMs: 1_000 })
      await env.advance(10)
      const task = await hf.tasks.addTask('one')
      await hf.tasks.claimTaskForAgent(task.id, { agent: 'bob', leaseMs: 1_000 })
      await env.advance(1_001)

      expect(await hf.tasks.claimNext()).toMatchObject({ outcome: 'claimed', task: { id: task.id } })
    })

    test('puts due items of that queue in line first [S5-12]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaim, agent: 'ada' })
      const runAt = env.now() + 1_000
      await hf
        .queue('elsewhere')
        .addMany(Array.from({ length: 150 }, (_, number) => ({ payload: number, runAt })))
      await hf.queue('jobs').add('due', { runAt: runAt + 5 })
      await env.advance(2_000)

      const { item } = await claimed(hf.queue<string>('jobs').next())

      expect(item.payload).toBe('due')
    })
  })
})
