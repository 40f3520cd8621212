/** Failures that systems of this kind have had, each turned into a promise. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { heldMergeStates, walkTo } from '../support/merge.ts'
import { claimed, claimedMany, claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const leaseMs = 1_000

forEachEngine((engine) => {
  test('keeping the lock alive keeps its item alive, so nobody else gets it [Z1]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 2)
    await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs }))

    for (let round = 0; round < 5; round++) {
      await env.advance(leaseMs - 1)
      await q.renewLock({ agent: 'worker-1' })
      expect(await q.nextWithLock({ agent: 'worker-2' })).toMatchObject({ outcome: 'held' })
    }
    await q.extendLock({ agent: 'worker-1', extraMs: leaseMs })
    await env.advance(2 * leaseMs)
    await q.releaseProcessingLock({ agent: 'worker-1' })
    const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

    expect(item.key).toBe('w2')
    expect(await q.get('w1')).toMatchObject({ holder: 'worker-1', attempts: 1, crashes: 0 })
  })

  test.each(heldMergeStates)(
    'a crash while %s heals automatically and the workspace can be submitted again [Z2]',
    async (state) => {
      const { q, env } = await openMerge(engine)
      await submitMany(q, 1)
      await q.nextWithLock({ agent: 'worker-1', leaseMs })
      await walkTo(q, 'w1', state, { agent: 'worker-1' })

      await env.advance(leaseMs + 6_000)
      const again = await q.submit('w1', { headSha: 'beef02' })

      expect(again).toMatchObject({
        outcome: 'updated',
        item: { state: 'pending', data: { headSha: 'beef02' } },
      })
      expect((await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))).item.key).toBe('w1')
    },
  )

  describe('a worker on a merge queue', () => {
    test('completes the whole workflow in legal moves, each item once, and releases the lock [Z3]', async () => {
      const { hf, q, env } = await openMerge(engine)
      await submitMany(q, 3)
      const seen: (string | null)[] = []

      const worker = hf.work(q, async (item) => {
        seen.push(item.key)
        await walkTo(q, item.id, 'merging', {})
        await q.completeMerge(item.id, 'beef02')
      })
      await env.advance(5_000)
      const lock = await q.getProcessingLock()
      await worker.stop()

      expect(seen).toEqual(['w1', 'w2', 'w3'])
      expect(await q.stats()).toMatchObject({ completed: 3, processing: 0, byState: { merged: 3 } })
      expect(lock).toBeNull()
    })

    test('finishes what its handler left merging [Z3]', async () => {
      const { hf, q, env } = await openMerge(engine)
      await submitMany(q, 2)
      const seen: (string | null)[] = []

      const worker = hf.work(q, async (item) => {
        seen.push(item.key)
        await walkTo(q, item.id, 'merging', {})
      })
      await env.advance(5_000)
      await worker.stop()

      expect(seen).toEqual(['w1', 'w2'])
      expect(await q.stats()).toMatchObject({ completed: 2, processing: 0 })
    })

    test.each(heldMergeStates)(
      'whose handler throws while %s fails the item and frees the lock [Z3]',
      async (state) => {
        const { hf, q, env } = await openMerge(engine)
        await submitMany(q, 1)
        let runs = 0

        const worker = hf.work(q, async (item) => {
          runs++
          await walkTo(q, item.id, state, {})
          throw new Error('gate failed')
        })
        await env.advance(5_000)
        await worker.stop()

        expect(runs).toBe(1)
        expect(await q.get('w1')).toMatchObject({
          state: 'failed_terminal',
          error: { message: 'gate failed' },
        })
        expect(await q.getProcessingLock()).toBeNull()
      },
    )

    test('whose handler returns before the merge neither repeats it forever nor keeps item or lock [Z3]', async () => {
      const { hf, q, env } = await openMerge(engine)
      await submitMany(q, 1)
      let runs = 0

      const worker = hf.work(q, () => {
        runs++
      })
      await env.advance(3_000)
      await worker.stop()

      expect(runs).toBe(1)
      expect((await present(q.get('w1'))).phase).not.toBe('held')
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('that is told to stop leaves neither item nor lock behind [Z3] [Q24]', async () => {
      const { hf, q, env } = await openMerge(engine)
      await submitMany(q, 1)

      const worker = hf.work(q, async (item, { signal }) => {
        await walkTo(q, item.id, 'testing', {})
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      })
      await env.advance(1_000)
      const stopping = worker.stop({ drainMs: 1_000 })
      await env.advance(2_000)
      await stopping

      expect(await q.get('w1')).toMatchObject({ state: 'pending', crashes: 0, failures: 0, startedAt: null })
      expect(await q.getProcessingLock()).toBeNull()
    })
  })

  test('no kind of claim returns an item blocked by its parent [Z4] [Q12] [Q22]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.add({}, { key: 'parent', priority: 9 })
    await q.add({}, { key: 'child', priority: 1, parent: 'parent' })

    expect(await q.peek()).toMatchObject({ key: 'parent' })
    const ways = [
      async () => [(await claimed(q.next({ agent: 'worker-1' }))).item],
      async () => [(await claimed(q.nextWithLock({ agent: 'worker-1' }))).item],
      () => claimedMany(q.claimMany(10, { agent: 'worker-1' })),
    ]
    for (const claim of ways) {
      expect((await claim()).map(({ key }) => key)).toEqual(['parent'])
      await q.release('parent', { agent: 'worker-1' })
      await q.releaseProcessingLock({ agent: 'worker-1' })
    }
  })

  test('a holder that asks again gets its unfinished item and a longer lease, under the same tokens [Z5] [Q7]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 2)
    const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs }))
    await env.advance(leaseMs / 2)

    const again = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs }))

    expect(again.item).toMatchObject({ key: 'w1', token: first.item.token, attempts: 1 })
    expect(again.lock.lease).toMatchObject({ token: first.lock.lease.token, remainingMs: leaseMs })
  })

  test('a holder that asks again gets its unfinished item even if it holds a hundred others [Z5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany(Array.from({ length: 102 }, (_, number) => ({ payload: number })))
    await claimedMany(q.claimMany(100, { agent: 'worker-1' }))
    const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

    const again = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

    expect(again.item.id).toBe(first.item.id)
  })

  test('another process with the same name does not hold the lock [Z5] [Q7]', async () => {
    const { q, store } = await openMerge(engine)
    await submitMany(q, 2)
    await q.nextWithLock({ agent: 'worker-1' })
    const namesake = (await store.open({ agent: 'worker-1' })).queue('main')

    expect(await namesake.nextWithLock()).toMatchObject({ outcome: 'held', holder: 'worker-1' })
    expect(await namesake.releaseProcessingLock()).toBe(false)
  })

  test('extending answers with the lock as it is from then on, version included [Q9]', async () => {
    const { q } = await openMerge(engine)
    await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })

    const { capped: _, ...extended } = await q.extendLock({ agent: 'worker-1', extraMs: 1 })

    expect(extended).toEqual(await q.getProcessingLock())
  })

  test('extending always lengthens, is capped and says so, and is refused on an expired lock [Z6] [Q9]', async () => {
    const { q, env } = await openMerge(engine)
    const acquired = await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
    if (acquired.outcome !== 'acquired') expect.fail('the lock was free')
    const expiries = [acquired.lock.lease.expiresAt ?? 0]

    for (let round = 0; round < 3; round++) {
      const { lease, capped } = await q.extendLock({ agent: 'worker-1', extraMs: 1 })
      expect(capped).toBe(false)
      expiries.push(lease.expiresAt ?? 0)
    }
    const capped = await q.extendLock({ agent: 'worker-1', extraMs: 3_600_000 })
    await env.advance(10)
    const nothing = await refusalCode(() => q.extendLock({ agent: 'worker-1', extraMs: 0 }))

    const [start = 0] = expiries
    expect(expiries).toEqual([start, start + 1, start + 2, start + 3])
    expect(capped).toMatchObject({ capped: true, lease: { remainingMs: 3_600_000 } })
    expect(nothing).toBe('INVALID')
  })

  test('extending a live lock revives its item that has lapsed and that nobody has taken [Z6]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1', leaseMs })
    await env.advance(leaseMs - 1)
    // Only the lock: its item keeps its end.
    await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
    await env.advance(leaseMs - 1)
    expect(await q.get('w1')).toMatchObject({ phase: 'held', lease: { remainingMs: 2 - leaseMs } })

    await q.extendLock({ agent: 'worker-1', extraMs: 500 })

    expect(await q.getProcessingLock()).toMatchObject({ lease: { remainingMs: 501 } })
    expect(await q.get('w1')).toMatchObject({ holder: 'worker-1', lease: { remainingMs: 500 } })
  })

  test('concurrent extensions all count [Z6]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1', leaseMs })

    await Promise.all(Array.from({ length: 10 }, () => q.extendLock({ agent: 'worker-1', extraMs: 100 })))

    expect(await q.getProcessingLock()).toMatchObject({ lease: { remainingMs: 2 * leaseMs } })
    expect(await q.get('w1')).toMatchObject({ lease: { remainingMs: 2 * leaseMs } })
  })

  test('a former holder can neither finish, fail nor move what its successor has [Z7]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 1)
    const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1', leaseMs }))
    await env.advance(leaseMs + 1)
    await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))
    const late = { agent: 'worker-1', token: item.token }

    const codes = await Promise.all([
      refusalCode(() => q.completeMerge('w1', 'dead01', late)),
      refusalCode(() => q.fail('w1', 'no', late)),
      refusalCode(() => q.move('w1', 'claimed', late)),
      refusalCode(() => q.move('w1', 'rebasing', late)),
    ])

    expect(codes).toEqual(['LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST'])
    expect(await q.get('w1')).toMatchObject({ state: 'claimed', holder: 'worker-2' })
  })

  test('of two moves from the same version, one wins and the other is refused [Z7] [Q18] [D-12]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
    const options = { agent: 'worker-1', expectedVersion: item.version }

    const [first, second] = await Promise.allSettled([
      q.move('w1', 'rebasing', options),
      q.move('w1', 'failed_terminal', options),
    ])

    expect(first.status).toBe('fulfilled')
    expect(second).toMatchObject({ status: 'rejected', reason: { code: 'VERSION_MISMATCH' } })
  })

  test('a reclaim commits a valid event that outlives the item, and its time is recorded [Z8] [Q25]', async () => {
    const { q, env } = await openMerge(engine)
    const payload = { text: 'a "quoted" \\ back\nslash \u0000 é' }
    const { item } = await q.submit('w1', { headSha: 'abcd', payload })
    await q.nextWithLock({ agent: 'wörker 1', leaseMs })
    await env.advance(leaseMs + 1)
    await q.detectAndRecoverStale()
    const { at } = (await q.getRecoveryStats()).lastRun ?? { at: null }
    await q.remove('w1')

    const events = await q.events(item.id)

    const reclaim = events.find(({ kind }) => kind === 'item.reclaimed')
    expect(reclaim).toMatchObject({
      version: 3,
      change: { state: 'pending', agent: null },
      detail: { from: 'claimed', holder: 'wörker 1', expiredForMs: 1, trigger: 'manual' },
    })
    expect(events.map(({ kind }) => kind)).toEqual([
      'item.created',
      'item.claimed',
      'item.reclaimed',
      'item.removed',
    ])
    expect(JSON.parse(String(events[0]?.change?.payload))).toEqual(payload)
    expect(at).toBe(reclaim?.at)
  })

  test('an item that kills its workers is quarantined and not served again [Z9] [Q17]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 1)
    for (let crash = 1; crash <= 3; crash++) {
      await claimedWithLock(q.nextWithLock({ agent: `worker-${crash}`, leaseMs }))
      await env.advance(leaseMs + 30_000)
    }

    const claim = await q.nextWithLock({ agent: 'worker-4' })

    expect(claim.outcome).toBe('empty')
    expect(await q.get('w1')).toMatchObject({ state: 'pending', crashes: 3, phase: 'waiting' })
  })

  test.each(['retry', 'submit', 'release'] as const)(
    '%s clears holder, times and error of the previous attempt [Z9] [Q20]',
    async (way) => {
      const { q } = await openMerge(engine)
      await submitMany(q, 1)
      await q.nextWithLock({ agent: 'worker-1' })
      if (way === 'retry') await q.fail('w1', 'again', { agent: 'worker-1', retryable: true })
      if (way === 'submit') await q.fail('w1', 'no', { agent: 'worker-1' })

      if (way === 'retry') await q.retry('w1')
      else if (way === 'submit') await q.submit('w1', { headSha: 'abcd' })
      else await q.release('w1', { agent: 'worker-1' })

      expect(await q.get('w1')).toMatchObject({
        state: 'pending',
        holder: null,
        lease: null,
        startedAt: null,
        closedAt: null,
        error: null,
      })
    },
  )

  test('a resubmitted item gets its attempts back [Z9] [Q4]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    for (let attempt = 1; attempt <= 3; attempt++) {
      await q.nextWithLock({ agent: 'worker-1' })
      await q.fail('w1', 'flaky', { agent: 'worker-1', retryable: true })
      if (attempt < 3) await q.retry('w1')
    }
    expect(await q.get('w1')).toMatchObject({ state: 'failed_terminal', failures: 3 })

    const { outcome, item } = await q.submit('w1', { headSha: 'abcd' })

    expect(outcome).toBe('resubmitted')
    expect(item).toMatchObject({ state: 'pending', attempts: 0, failures: 0, crashes: 0 })
  })

  test('a retryable failure has no completion time, and a final one has [Z10] [Q19]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 2)
    await q.nextWithLock({ agent: 'worker-1' })
    const retryable = await q.fail('w1', 'again', { agent: 'worker-1', retryable: true })
    await q.nextWithLock({ agent: 'worker-1' })
    const final = await q.fail('w2', 'no', { agent: 'worker-1' })

    expect(retryable).toMatchObject({ state: 'failed_retryable', closedAt: null })
    expect(final).toMatchObject({ state: 'failed_terminal', closedAt: expect.any(Number) })
  })

  test('failed, cancelled and completed items are counted separately [Z10] [Q6]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 5)
    await q.nextWithLock({ agent: 'worker-1' })
    await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })
    await q.completeMerge('w1', 'beef02', { agent: 'worker-1' })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w2', 'no', { agent: 'worker-1' })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w3', 'again', { agent: 'worker-1', retryable: true })
    await q.cancel('w4')

    expect(await q.stats()).toMatchObject({
      total: 5,
      pending: 1,
      processing: 0,
      completed: 1,
      failed: 2,
      cancelled: 1,
      byState: { merged: 1, failed_terminal: 1, failed_retryable: 1, cancelled: 1, pending: 1 },
    })
  })

  test('a state the workflow does not have is never written [Z10] [E-18]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1' })

    for (const legacy of ['processing', 'completed', 'failed'])
      expect(await refusalCode(() => q.move('w1', legacy, { agent: 'worker-1' }))).toBe('INVALID')
    expect(await q.get('w1')).toMatchObject({ state: 'claimed' })
  })

  test('a threshold of 0 means now, and ties of age break by id [Z11] [Q15] [Q5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { ids } = await q.addMany(Array.from({ length: 20 }, (_, number) => ({ payload: number })))

    const order = (await claimedMany(q.claimMany(20, { agent: 'worker-1' }))).map(({ id }) => id)
    const reclaimed = await q.reclaimStale({ thresholdMs: 0 })

    expect(order).toEqual(ids.toSorted())
    expect(reclaimed).toBe(20)
  })

  test('a store reports its durability at open, and keeps what it acknowledged by default [Z11]', async () => {
    const { hf } = await engine.open()

    expect(hf.status.durability).toBe('full')
  })

  test('queues do not wait for each other, and a queue without slots needs no lock [Z12]', async () => {
    const { hf } = await engine.open()
    const [main, release] = ['main', 'release'].map((name) => hf.queue(name, { workflow: 'merge' }))
    await main?.submit('w1', { headSha: 'abcd' })
    await release?.submit('w1', { headSha: 'abcd' })
    const jobs = hf.queue('jobs')
    await jobs.addMany(Array.from({ length: 5 }, () => ({ payload: null })))

    const outcomes = await Promise.all([
      main?.nextWithLock({ agent: 'worker-1' }),
      release?.nextWithLock({ agent: 'worker-2' }),
      ...Array.from({ length: 5 }, (_, worker) => jobs.next({ agent: `worker-${worker}` })),
    ])

    expect(outcomes.map((each) => each?.outcome)).toEqual(Array.from({ length: 7 }, () => 'claimed'))
    expect(await jobs.getProcessingLock()).toBeNull()
  })

  test('a queue with three slots serves three workers at once and refuses a fourth [Z12]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge', slots: 3 })
    await submitMany(q, 4)

    const outcomes: string[] = []
    for (let worker = 1; worker <= 4; worker++)
      outcomes.push((await q.nextWithLock({ agent: `worker-${worker}` })).outcome)

    expect(outcomes).toEqual(['claimed', 'claimed', 'claimed', 'held'])
  })

  test('the holder of any slot can ask again, renew, extend and release like that of the first [Z12] [Z5] [Q7]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge', slots: 3 })
    await submitMany(q, 4)

    for (const [agent, key] of Object.entries({ 'worker-1': 'w1', 'worker-2': 'w2', 'worker-3': 'w3' })) {
      await claimedWithLock(q.nextWithLock({ agent }))
      expect((await claimedWithLock(q.nextWithLock({ agent }))).item.key).toBe(key)
      expect((await q.renewLock({ agent })).lease.agent).toBe(agent)
      expect((await q.extendLock({ agent, extraMs: 1_000 })).lease.agent).toBe(agent)
    }
    const released: boolean[] = []
    for (const agent of ['worker-1', 'worker-2', 'worker-3'])
      released.push(await q.releaseProcessingLock({ agent }))

    expect(released).toEqual([true, true, true])
  })

  test.each(['connection timeout', 'constraint violated', 'merge conflict', 'validation failed', 'deadline'])(
    'whether "%s" is retried does not depend on its text [Z13] [Q19]',
    async (message) => {
      const { hf } = await engine.open()
      const jobs = hf.queue('jobs')
      const { item } = await jobs.add({})
      await jobs.next({ agent: 'worker-1' })
      const merges = hf.queue('main', { workflow: 'merge' })
      await submitMany(merges, 1)
      await merges.nextWithLock({ agent: 'worker-1' })

      const job = await jobs.fail(item.id, message, { agent: 'worker-1' })
      const merge = await merges.fail('w1', new Error(message), { agent: 'worker-1' })

      expect([job.state, merge.state]).toEqual(['pending', 'failed_terminal'])
    },
  )

  test('misuse is refused at once and not retried [Z13]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)

    const refused = await refusal(() => q.add(null, { key: 'w1' }))

    expect(refused).toMatchObject({ code: 'DUPLICATE', retryable: false })
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function submitMany(q: Queue, count: number): Promise<void> {
  for (let number = 1; number <= count; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
}
