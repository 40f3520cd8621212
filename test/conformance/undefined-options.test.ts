/** What compiles runs: an option that is undefined is one left out, and `fail` takes whatever was thrown. */
import { expect, test } from 'vitest'
import { claimed, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, rareProbes } from '../support/stores.ts'

forEachEngine((engine) => {
  test('an undefined option counts as left out [S6-F4]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs', { slots: undefined, backoff: undefined, maxAttempts: 1 })
    const none = { agent: undefined, idempotencyKey: undefined }

    await q.add(1, { ...none, priority: undefined, key: undefined, runAt: undefined, data: undefined })
    await q.addMany([{ payload: 2, data: { kept: true }, priority: undefined, delayMs: undefined }], none)
    const { item } = await claimed(
      q.next({ ...none, waitMs: undefined, signal: undefined, leaseMs: undefined }),
    )
    await q.complete(item.id, { ...none, result: undefined, expectedVersion: undefined })
    const worker = hf.work(q, () => {}, {
      concurrency: undefined,
      prefetch: undefined,
      pollEveryMs: undefined,
    })
    await env.advance(100)
    await worker.stop({ drainMs: undefined })
    const lock = await hf.locks.acquireLock('press', {
      waitMs: undefined,
      slots: undefined,
      reentrant: undefined,
    })
    const batch = await hf.locks.runBatch('r', ['a'], () => {}, { lock: 'b', gapMs: 0, total: undefined })
    const task = await hf.tasks.addTask('t', { ...none, labels: undefined, owner: undefined })
    await hf.state('doc').set(1, { ...none, expectedVersion: undefined })

    const { items } = await q.list({ states: undefined, limit: undefined, after: undefined })
    expect(items.map(({ state }) => state)).toEqual(['done', 'done'])
    expect(items.map(({ data }) => data)).toContainEqual({ kept: true })
    expect([lock.outcome, batch.outcome, task.status]).toEqual(['acquired', 'completed', 'Todo'])
  })

  test.each([
    ['null', null, 'null'],
    ['a number', 42, '42'],
    ['an object without a message', { why: 'x' }, expect.any(String)],
    ['an error', new TypeError('broken'), 'broken'],
  ])('fail takes %s [S6-F4]', async (_, thrown, message) => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs', { maxAttempts: 1 })
    await q.add(1)
    const { item } = await claimed(q.next())

    const failed = await q.fail(item.id, thrown)

    expect(failed).toMatchObject({ state: 'failed', error: { message } })
  })

  test('reclaimStale without a threshold takes leases that were silent for 300 s [S6-F4]', async () => {
    const { hf, env } = await engine.open(rareProbes)
    const q = hf.queue('jobs')
    await q.add(1)
    await claimed(q.next({ agent: 'by-hand', leaseMs: 3_600_000 }))

    const soon = await q.reclaimStale()
    await env.advance(301_000)

    expect([soon, await q.reclaimStale()]).toEqual([0, 1])
  })

  test('delete at version 0 expects that there is no document [S6-F4]', async () => {
    const { hf } = await engine.open()
    const doc = hf.state('doc')

    expect(await doc.delete({ expectedVersion: 0 })).toBe(false)
    await doc.set(1)
    expect(await refusalCode(() => doc.delete({ expectedVersion: 0 }))).toBe('VERSION_MISMATCH')
  })
})
