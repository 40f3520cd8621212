/** Suite C: everyday use of a merge queue. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { walkTo } from '../support/merge.ts'
import { claimed, claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a list shows each item with its state, open ones in the order they will be claimed [C-01] [Q6]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 4)
    await q.cancel('w2')
    await q.nextWithLock({ agent: 'worker-1' })

    const { items, next } = await q.list()

    expect(items.map(({ key, state }) => `${key} ${state}`)).toEqual([
      'w1 claimed',
      'w3 pending',
      'w4 pending',
      'w2 cancelled',
    ])
    expect(next).toBeNull()
  })

  test('stats count each item once, and add up [S5-22] [Q6]', async () => {
    const { hf, env } = await engine.open({ agent: 'ada' })
    const q = hf.queue('jobs', { maxCrashes: 1, maxAttempts: 1 })
    const { item: poison } = await q.add('poison')
    await q.next({ agent: 'worker-1', leaseMs: 0 })
    await env.advance(1)
    await q.detectAndRecoverStale()
    await q.add('fails', { key: 'failing' })
    await q.next({ agent: 'worker-1' })
    await q.fail('failing', 'no', { agent: 'worker-1' })
    await q.add('cancelled', { key: 'cancelled' })
    await q.cancel('cancelled')
    const { item: done } = await q.add('done')
    await q.next({ agent: 'worker-1' })
    await q.complete(done.id, { agent: 'worker-1' })
    const { item: held } = await q.add('held')
    await q.next({ agent: 'worker-1' })
    await q.add('ready')
    await q.add('delayed', { runAt: env.now() + 60_000 })
    await q.add('dependent', { blockers: [held.id] })

    const { byState, oldestReadyMs, paused, exists, total, ...counts } = await q.stats()

    expect((await q.get(poison.id))?.quarantine).not.toBeNull()
    expect(counts).toEqual({
      pending: 1,
      blocked: 2,
      quarantined: 1,
      processing: 1,
      completed: 1,
      failed: 1,
      cancelled: 1,
    })
    expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(total)
    expect(exists).toBe(true)
  })

  test('paging through a list returns every item once, open and closed [C-01] [Q6]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 9)
    for (const key of ['w2', 'w5', 'w8']) await q.cancel(key)

    const keys: (string | null)[] = []
    let after: string | undefined
    do {
      const page = await q.list({ limit: 2, ...(after === undefined ? {} : { after }) })
      keys.push(...page.items.map(({ key }) => key))
      after = page.next ?? undefined
    } while (after !== undefined)

    expect(keys.slice(0, 6)).toEqual(['w1', 'w3', 'w4', 'w6', 'w7', 'w9'])
    expect(keys.slice(6).toSorted()).toEqual(['w2', 'w5', 'w8'])
  })

  test('a list can be filtered by state, phase and quarantine [Q6]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 3)
    await q.nextWithLock({ agent: 'worker-1' })
    await q.cancel('w2')
    const keys = async (options: Parameters<Queue['list']>[0]) =>
      (await q.list(options)).items.map(({ key }) => key)

    expect(await keys({ states: ['claimed', 'cancelled'] })).toEqual(['w1', 'w2'])
    expect(await keys({ phase: 'ready' })).toEqual(['w3'])
    expect(await keys({ phase: 'closed' })).toEqual(['w2'])
    expect(await keys({ quarantined: true })).toEqual([])
  })

  test('an item is shown in full, by key and by id [C-02] [Q1]', async () => {
    const { q, env } = await openMerge(engine)
    const { item } = await q.submit('w1', {
      headSha: 'abcd',
      bead: 'bd-1',
      priority: 3,
      payload: { a: 1 },
      agent: 'author',
    })
    await q.nextWithLock({ agent: 'worker-1' })

    const shown = await q.get('w1')

    expect(shown).toEqual(await q.get(item.id))
    expect(shown).toMatchObject({
      id: item.id,
      queue: 'main',
      workflow: 'merge',
      state: 'claimed',
      priority: 3,
      key: 'w1',
      submittedBy: 'author',
      holder: 'worker-1',
      addedAt: env.now(),
      startedAt: env.now(),
      attempts: 1,
      failures: 0,
      crashes: 0,
      version: 2,
      payload: { a: 1 },
      data: { bead: 'bd-1', headSha: 'abcd' },
      lease: { agent: 'worker-1', instance: null, leaseMs: 300_000, remainingMs: 300_000, status: 'live' },
    })
  })

  test('processing the next item takes the lock and releases it [C-03]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)

    await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
    const during = await q.getProcessingLock()
    await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })
    await q.completeMerge('w1', 'beef02', { agent: 'worker-1' })
    const released = await q.releaseProcessingLock({ agent: 'worker-1' })

    expect(during).toMatchObject({ holder: 'worker-1' })
    expect(released).toBe(true)
    expect(await q.get('w1')).toMatchObject({
      state: 'merged',
      outcome: 'succeeded',
      data: { mergedSha: 'beef02' },
    })
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('finishing the item keeps the lock for the next one [C-03] [Q7]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 2)
    const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
    await q.fail('w1', 'no', { agent: 'worker-1' })

    const second = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

    expect(second.item.key).toBe('w2')
    expect(second.lock.lease.token).toBe(first.lock.lease.token)
  })

  test('a failed item is retried and claimed again [C-04] [Q20]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w1', 'flaky', { agent: 'worker-1', retryable: true })

    const retried = await q.retry('w1')
    const { item } = await claimed(q.nextWithLock({ agent: 'worker-1' }))

    expect(retried).toMatchObject({ state: 'pending', error: null, failures: 1 })
    expect(item).toMatchObject({ key: 'w1', attempts: 2 })
  })

  test('a waiting item is cancelled and not served [C-05]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)

    const cancelled = await q.cancel('w1', { reason: 'superseded' })

    expect(cancelled).toMatchObject({ state: 'cancelled', outcome: 'failed', cancelRequestedAt: null })
    expect((await q.nextWithLock({ agent: 'worker-1' })).outcome).toBe('empty')
  })

  test('cancelling a merged item is refused, naming its terminal state [C-06]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1' })
    await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })
    await q.completeMerge('w1', 'beef02', { agent: 'worker-1' })

    const refused = await refusal(() => q.cancel('w1'))

    expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'merged', to: 'cancelled' } })
    expect(refused.message).toContain('terminal state')
  })

  test('retrying an item that failed for good is refused as not retryable [C-07]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w1', 'conflict', { agent: 'worker-1' })

    const refused = await refusal(() => q.retry('w1'))

    expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from: 'failed_terminal', to: 'pending' } })
    expect(refused.message).toContain('not retryable')
  })

  test('a second worker is refused and told who holds the lock and until when [C-08] [Q7]', async () => {
    const { q } = await openMerge(engine)
    await submitMany(q, 2)
    const { lock } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))

    const refused = await q.nextWithLock({ agent: 'worker-2' })

    expect(refused).toEqual({
      outcome: 'held',
      holder: 'worker-1',
      since: lock.acquiredAt,
      expiresAt: lock.lease.expiresAt,
    })
  })

  test('equal priorities are served in order of arrival [C-09] [Q5]', async () => {
    const { q, env } = await openMerge(engine)
    for (const key of ['w3', 'w1', 'w2']) {
      await q.submit(key, { headSha: 'abcd' })
      await env.advance(1)
    }

    expect(await serveAll(q)).toEqual(['w3', 'w1', 'w2'])
  })

  test('priorities 1, 5 and 9 are served in that order [C-10] [Q5]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('nine', { headSha: 'abcd', priority: 9 })
    await q.submit('one', { headSha: 'abcd', priority: 1 })
    await q.submit('default', { headSha: 'abcd' })

    expect(await serveAll(q)).toEqual(['one', 'default', 'nine'])
  })

  test('a lapsed lock lets a new worker in, with a full lease [C-11]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 1)
    await q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 })
    await env.advance(1_001)

    const { lock } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

    expect(lock).toMatchObject({ holder: 'worker-2', lease: { remainingMs: 300_000 } })
  })

  test('a retry beyond the attempts allowed is refused with both numbers [C-12] [Q20]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'abcd', maxAttempts: 2 })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w1', 'flaky', { agent: 'worker-1', retryable: true })
    await q.retry('w1')
    await q.nextWithLock({ agent: 'worker-1' })
    const last = await q.fail('w1', 'flaky', { agent: 'worker-1', retryable: true })

    const refused = await refusal(() => q.retry('w1'))

    expect(last.state).toBe('failed_terminal')
    expect(refused).toMatchObject({
      code: 'ATTEMPTS_EXHAUSTED',
      facts: { failures: 2, maxAttempts: 2 },
    })
  })

  test('rebase data is kept, freshness fails closed, and a stale test result is withdrawn [Q21]', async () => {
    const { q, env } = await openMerge(engine)
    await submitMany(q, 1)
    const holder = { agent: 'worker-1' }
    await q.nextWithLock(holder)
    const untested = await q.isFresh('w1', 'base01')
    await walkTo(q, 'w1', 'ready_to_merge', holder)

    const fresh = [await q.isFresh('w1', 'base01'), await q.isFresh('w1', 'base02')]
    const tooEarly = await refusal(() => q.returnToRebasing('w1', 'base01', holder))
    const returned = await q.returnToRebasing('w1', 'base02', holder)

    expect([untested, ...fresh]).toEqual([false, true, false])
    expect(tooEarly.code).toBe('ILLEGAL_MOVE')
    expect(returned).toMatchObject({
      state: 'rebasing',
      data: { headSha: 'beef01', testedAgainstSha: null, rebaseCount: 1, lastRebaseAt: env.now() },
    })
    expect(await q.isFresh('w1', 'base02')).toBe(false)
  })

  describe('a merge', () => {
    const holder = { agent: 'worker-1' }

    test('begun with the target’s commit succeeds if the change was tested against it [S5c-49]', async () => {
      const { q } = await readyToMerge(engine)

      const begun = await q.beginMerge('w1', { ...holder, mainSha: 'base01' })
      const again = await q.beginMerge('w1', { ...holder, mainSha: 'base01' })

      const moved = (await q.events('w1')).at(-1)
      expect([begun.state, again.version - begun.version]).toEqual(['merging', 0])
      expect(moved?.detail).toEqual({ from: 'ready_to_merge', to: 'merging', mainSha: 'base01' })
    })

    test('is refused if the target has moved on, until the change is tested again [S5c-49]', async () => {
      const { q } = await readyToMerge(engine)

      const refused = await refusal(() => q.beginMerge('w1', { ...holder, mainSha: 'base02' }))
      const { state } = await present(q.get('w1'))
      await q.returnToRebasing('w1', 'base02', holder)
      await q.updateRebaseMetadata('w1', { ...holder, headSha: 'beef02', testedAgainstSha: 'base02' })
      await q.move('w1', 'ready_to_merge', holder)
      const begun = await q.beginMerge('w1', { ...holder, mainSha: 'base02' })

      expect(refused).toMatchObject({
        code: 'ILLEGAL_MOVE',
        facts: { testedAgainstSha: 'base01', mainSha: 'base02' },
      })
      expect([state, begun.state]).toEqual(['ready_to_merge', 'merging'])
    })

    test('is refused for a head that is newer than the test [S5c-49]', async () => {
      const { q } = await readyToMerge(engine)
      await q.submit('w1', { headSha: 'cccc' })

      const refused = await refusal(() => q.beginMerge('w1', { ...holder, mainSha: 'base01' }))

      expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { testedAgainstSha: null } })
    })

    test('in progress does not count as fresh against another commit [S5c-49]', async () => {
      const { q } = await readyToMerge(engine)
      await q.beginMerge('w1', holder)

      const code = await refusalCode(() => q.beginMerge('w1', { ...holder, mainSha: 'base02' }))

      expect(code).toBe('ILLEGAL_MOVE')
    })

    test('begun without that commit succeeds, and its event says that freshness was not checked [S5c-49]', async () => {
      const { q } = await readyToMerge(engine)

      await q.beginMerge('w1', holder)

      const moved = (await q.events('w1')).at(-1)
      expect(moved?.detail).toEqual({ from: 'ready_to_merge', to: 'merging', freshness: 'not checked' })
    })

    async function readyToMerge(on: Engine) {
      const opened = await openMerge(on)
      await submitMany(opened.q, 1)
      await opened.q.nextWithLock(holder)
      await walkTo(opened.q, 'w1', 'ready_to_merge', holder)
      return opened
    }
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function submitMany(q: Queue, count: number): Promise<void> {
  for (let number = 1; number <= count; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
}

/** Keys in the order in which one worker is given them. */
async function serveAll(q: Queue): Promise<(string | null)[]> {
  const served: (string | null)[] = []
  for (let claim = await q.nextWithLock({ agent: 'worker-1' }); claim.outcome === 'claimed'; ) {
    served.push(claim.item.key)
    await q.fail(claim.item.id, 'served', { agent: 'worker-1' })
    claim = await q.nextWithLock({ agent: 'worker-1' })
  }
  return served
}
