/** Items that lose holder after holder. */
import type { Queue } from 'holdfast'
import { expect, test } from 'vitest'
import { claimed, present, refusalCode } from '../support/outcomes.ts'
import { forEachEngine, type Opened, rareProbes } from '../support/stores.ts'

const leaseMs = 1_000
/** How long an item waits after crashes of its own: none after the first, then longer and longer. */
const waitsMs = [0, 0, 5_000, 30_000, 180_000, 300_000]

forEachEngine((engine) => {
  test('the third crash without progress quarantines the item, with its evidence [Q17]', async () => {
    const opened = await engine.open()
    const q = opened.hf.queue('jobs')
    const { item } = await q.add({ a: 1 })

    await crash(opened, q, 2)
    const afterTwo = await present(q.get(item.id))
    await crash(opened, q, 1)

    const found = await present(q.get(item.id))
    expect(afterTwo).toMatchObject({ crashes: 2, quarantine: null, phase: 'waiting' })
    expect(found).toMatchObject({ state: 'pending', crashes: 3, phase: 'waiting', payload: { a: 1 } })
    expect(found.quarantine).toMatchObject({
      at: expect.any(Number),
      reason: expect.stringContaining('3 holders'),
    })
    expect((await q.next()).outcome).toBe('empty')
    expect(await q.stats()).toMatchObject({ quarantined: 1 })
    expect((await q.list({ quarantined: true })).items.map(({ id }) => id)).toEqual([item.id])
  })

  test('a recovery reports what it quarantined, and the item has an event for it [Q17] [Q13]', async () => {
    const opened = await engine.open({ recovery: { everyMs: 0, onOpen: false } })
    const q = opened.hf.queue('jobs', { maxCrashes: 1 })
    const { item } = await q.add(null)
    await q.next({ agent: 'worker-1', leaseMs })
    await opened.env.advance(leaseMs + 1)

    const report = await q.detectAndRecoverStale()

    expect(report).toMatchObject({ entriesReclaimed: 1, quarantined: 1 })
    expect((await q.events(item.id)).at(-1)).toMatchObject({
      kind: 'item.quarantined',
      detail: { holder: 'worker-1', from: 'running' },
    })
  })

  test('progress proves that the work is sound and resets the count [Q17]', async () => {
    const opened = await engine.open()
    const q = opened.hf.queue('jobs')
    const { item } = await q.add(null)
    await crash(opened, q, 2)
    await waitOut(opened.env, q)
    await q.next({ agent: 'worker-1', leaseMs })
    await q.progress(item.id, { done: 1 }, { agent: 'worker-1' })
    await opened.env.advance(leaseMs + 1)

    await crash(opened, q, 1)

    expect(await q.get(item.id)).toMatchObject({ crashes: 2, quarantine: null })
  })

  test('release, failure and an operator’s reclaim before the lapse do not count as crashes [Q17]', async () => {
    const { hf, env } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    await q.next({ agent: 'worker-1' })
    await q.release(item.id, { agent: 'worker-1' })
    await q.next({ agent: 'worker-1' })
    await q.reclaimStale({ thresholdMs: 0 })
    await q.next({ agent: 'worker-1' })
    await q.fail(item.id, 'no', { agent: 'worker-1', backoff: { baseMs: 0, factor: 1, maxMs: 0 } })
    await env.advance(1)

    expect(await q.get(item.id)).toMatchObject({ attempts: 3, failures: 1, crashes: 0 })
  })

  test('closing a handle that holds an item releases it without counting a crash [Q17] [Q24]', async () => {
    const { hf, store } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)
    const leaving = await store.open({ agent: 'leaving' })
    await claimed(leaving.queue('jobs').next())

    await leaving.close()

    expect(await q.get(item.id)).toMatchObject({ state: 'pending', phase: 'ready', crashes: 0 })
  })

  test('a queue may allow another number of crashes, or any number [Q17]', async () => {
    const opened = await engine.open(rareProbes)
    const strict = opened.hf.queue('strict', { maxCrashes: 1 })
    const patient = opened.hf.queue('patient', { maxCrashes: 0 })
    await strict.add(null, { key: 'k' })
    await patient.add(null, { key: 'k' })

    await crash(opened, strict, 1)
    await crash(opened, patient, 6)

    expect(await strict.get('k')).toMatchObject({ phase: 'waiting', crashes: 1 })
    expect(await patient.get('k')).toMatchObject({ phase: 'waiting', crashes: 6, quarantine: null })
  })

  test('releasing an item from quarantine resets its count [Q17]', async () => {
    const opened = await engine.open()
    const q = opened.hf.queue('jobs')
    const { item } = await q.add(null)
    await crash(opened, q, 3)

    const released = await q.releaseFromQuarantine(item.id, { reason: 'memory doubled' })

    expect(released).toMatchObject({ phase: 'ready', crashes: 0, quarantine: null })
    expect((await claimed(q.next())).item.id).toBe(item.id)
    expect((await q.events(item.id)).map(({ kind }) => kind)).toContain('item.unquarantined')
  })

  test('an item that is not in quarantine cannot be released from it [Q17]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add(null)

    expect(await refusalCode(() => q.releaseFromQuarantine(item.id))).toBe('INVALID')
  })

  test('a quarantined item can be cancelled and removed [Q17] [Q20]', async () => {
    const opened = await engine.open()
    const q = opened.hf.queue('jobs')
    const { item } = await q.add(null, { key: 'k' })
    await crash(opened, q, 3)

    const cancelled = await q.cancel(item.id)

    expect(cancelled).toMatchObject({ state: 'cancelled', phase: 'closed' })
    expect(await q.stats()).toMatchObject({ cancelled: 1, quarantined: 0, blocked: 0 })
  })
})

/** No longer than the items have to wait: on a server each second that is moved takes a while. */
async function waitOut(env: Opened['env'], q: Queue): Promise<void> {
  const { items } = await q.list()
  const crashes = Math.max(...items.map((item) => item.crashes))
  await env.advance(waitsMs[Math.min(crashes, waitsMs.length - 1)] ?? 0)
}

async function crash({ env }: Opened, q: Queue, times: number): Promise<void> {
  for (let round = 0; round < times; round++) {
    await waitOut(env, q)
    await claimed(q.next({ agent: `worker-${round}`, leaseMs }))
    await env.advance(leaseMs + 1)
    await q.detectAndRecoverStale()
  }
}
