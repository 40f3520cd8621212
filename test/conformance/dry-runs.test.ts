/** What an operator may try out first: the same decision, not applied; and what is freed, one by one. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  describe('a dry run changes nothing and says what would happen', () => {
    test('when cleaning up finished items', async () => {
      const { hf } = await engine.open()
      await finished(hf, 3)

      const tried = await hf.execute('queue.cleanup', { queue: 'q', maxAgeMs: 0, dryRun: true })
      const done = await hf.execute('queue.cleanup', { queue: 'q', maxAgeMs: 0 })

      expect(tried).toEqual({ removed: 3, more: false })
      expect(done).toEqual(tried)
    })

    test('when cancelling pending messages', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      await hf.messages.register('bob')
      await hf.messages.sendWithAck('bob', { content: 1 })

      const tried = await hf.execute('messages.clearPendingAcks', { dryRun: true })
      const others = await hf.execute('messages.clearPendingAcks', { dryRun: true, sender: 'carol' })

      expect([tried, others]).toEqual([
        { cancelled: 1, more: false },
        { cancelled: 0, more: false },
      ])
      expect(await hf.messages.getPendingCount()).toBe(1)
    })

    test('when taking an agent’s locks', async () => {
      const { hf } = await engine.open()
      await hf.locks.acquireLock('deploy', { agent: 'bob' })
      const input = { agent: 'bob', reason: 'it left' }

      const tried = await hf.execute('locks.forceReleaseAgent', { ...input, dryRun: true })
      const held = await hf.locks.isLockedBy('deploy', { agent: 'bob' })
      const done = await hf.execute('locks.forceReleaseAgent', input)

      expect([tried, held]).toEqual([{ released: 1, more: false }, true])
      expect(done).toEqual(tried)
    })

    test('when reclaiming silent leases', async () => {
      const { hf, env } = await engine.open({ agent: 'ada' })
      const { item } = await hf.queue('q').add(1, { key: 'k' })
      await hf.queue('q').next({ renew: false })
      await env.advance(1_000)

      const tried = await hf.execute('queue.reclaimStale', { queue: 'q', thresholdMs: 500, dryRun: true })
      const count = await hf.queue('q').reclaimStale({ thresholdMs: 500 })

      expect(tried).toMatchObject({
        entriesReclaimed: 1,
        locksCleaned: 0,
        reclaimed: [
          { kind: 'item', id: item.id, holder: 'ada', evidence: expect.stringContaining('1000 ms') },
        ],
      })
      expect(count).toBe(1)
    })
  })

  describe('recovery by age', () => {
    test('takes only leases that lapsed longer ago, of every kind', async () => {
      const { hf, env } = await engine.open({ recovery: false })
      await lapse(hf, 'old')
      await env.advance(60_000)
      await lapse(hf, 'young')
      await env.advance(1_000)

      const aged = await hf.recovery.detectAndRecoverStale({ maxAgeMs: 30_000 })
      const rest = await hf.recovery.detectAndRecoverStale()

      expect(aged).toMatchObject({ entriesReclaimed: 1, locksCleaned: 1, more: false })
      expect(rest).toMatchObject({ entriesReclaimed: 1, locksCleaned: 1 })
    })

    test('does not wait for what dead processes held', async () => {
      const { env, store } = await engine.open({ background: false })
      const host = machine(env)
      const hf = await store.open({ environment: host.process(100), recovery: false })
      const worker = await store.open({ agent: 'worker', environment: host.process(101), recovery: false })
      await worker.queue('q').add(1)
      await worker.queue('q').next()

      host.kill(101)
      const report = await hf.recovery.detectAndRecoverStale({ maxAgeMs: 3_600_000 })

      expect(report).toMatchObject({ entriesReclaimed: 1 })
    })
  })

  test('queues are listed by name, with their limits', async () => {
    const { hf } = await engine.open()
    await hf.queue('zeta', { workflow: 'merge' }).define()
    await hf.queue('alpha').add(1)

    expect(await hf.execute('queue.listQueues', {})).toMatchObject({
      queues: [
        { name: 'alpha', workflow: 'job', slots: null },
        { name: 'zeta', workflow: 'merge', slots: 1 },
      ],
    })
  })

  test('a process named by claims is recorded once per agent, and its leases are as long as manual ones', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    await hf.queue('q').add(1)
    const identity = { ...env.host.identity, pid: 4711, startTime: 'then' }

    const first = (await hf.execute('instance.join', identity)) as { id: string }
    const again = (await hf.execute('instance.join', identity)) as { id: string }
    const other = (await hf.execute('instance.join', identity, { agent: 'bob' })) as { id: string }
    const claim = await hf.execute('queue.next', { queue: 'q' }, { instance: first.id })
    const lock = await hf.execute('locks.acquireLock', { name: 'deploy' }, { instance: first.id })

    expect(again.id).toBe(first.id)
    expect(other.id).not.toBe(first.id)
    expect(claim).toMatchObject({ item: { lease: { instance: first.id, leaseMs: 300_000 } } })
    expect(lock).toMatchObject({ lock: { lease: { instance: first.id, leaseMs: 3_600_000 } } })
  })
})

async function finished(hf: Holdfast, count: number): Promise<void> {
  const queue = hf.queue('q')
  const { ids } = await queue.addMany(Array.from({ length: count }, (_, payload) => ({ payload })))
  for (const id of ids) await queue.cancel(id)
}

/** An item and a lock that lapse at the next millisecond. */
async function lapse(hf: Holdfast, name: string): Promise<void> {
  await hf.queue(name).add(1)
  await hf.queue(name).next({ leaseMs: 0, renew: false })
  await hf.locks.acquireLock(name, { leaseMs: 0, renew: false })
}
