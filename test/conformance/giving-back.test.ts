/** Giving something back while the store does not answer: renewal ends, and the request is repeated. */
import type { Lease } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { claimed, claimedWithLock, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine, type Opened } from '../support/stores.ts'
import { whileTimePasses } from '../support/wake.ts'

const leaseMs = 30_000
const patienceMs = 2_000
/** A blocked call fails at once, and is retried. */
const busyTimeoutMs = 1

forEachEngine((engine) => {
  describe('a lock whose release gets no answer', () => {
    test('is released once the store is back, and is not renewed until then [S5b-16]', async () => {
      const { hf, env, letGo } = await heldUp(engine, ({ hf }) => take(hf, 'press'))

      const refused = refusalCode(() => hf.locks.releaseLock('press'))
      await env.advance(patienceMs + 100)
      const code = await refused
      await letGo()
      await env.advance(leaseMs / 2)

      expect(code).toBe('BUSY')
      expect((await hf.locks.list()).locks).toEqual([])
    })

    test('is released within the call’s patience, if the store is back by then [S5b-16]', async () => {
      const { hf, env, letGo } = await heldUp(engine, ({ hf }) => take(hf, 'press'))

      const released = hf.locks.releaseLock('press')
      await env.advance(patienceMs / 2)
      await letGo()
      await env.advance(patienceMs / 2)

      expect(await released).toBe(true)
    })

    test('no longer allows any effect, and fires its signal only when it has lapsed [S5b-16]', async () => {
      const { hf, env, before, letGo } = await heldUp(engine, ({ hf }) => take(hf, 'press'))
      const lease = before.lease as Lease
      const { signal } = lease

      const refused = refusalCode(() => hf.locks.releaseLock('press'))
      const error = await refusal(() => lease.assertHeld())
      await env.advance(patienceMs + 100)
      await refused
      const isFired = signal.aborted
      await env.advance(leaseMs)
      await letGo()

      expect(error).toMatchObject({ code: 'LEASE_LOST', facts: { reason: 'it is being given back' } })
      expect(lease.isHeld).toBe(false)
      expect(isFired).toBe(false)
      expect(signal.reason).toMatchObject({ code: 'LEASE_LOST' })
      expect((await take(hf, 'press')).recoveredFrom).not.toBeNull()
    })

    test.each([
      ['at once', 0],
      ['and waits', 10_000],
    ])('does not count as held when its own process asks for it again %s [S5b-16]', async (_, waitMs) => {
      const { hf, env, before, letGo } = await heldUp(engine, ({ hf }) => take(hf, 'press'))

      const released = hf.locks.releaseLock('press')
      const again = take(hf, 'press', { waitMs })
      await env.advance(patienceMs / 2)
      await letGo()
      await env.advance(patienceMs / 2)

      expect(await released).toBe(true)
      expect((await again).lock.lease.token).toBeGreaterThan(before.lock.lease.token)
      expect((await again).lease?.isHeld).toBe(true)
    })

    test('that its process took twice is released as often as asked, and not more [S5b-16]', async () => {
      const { hf, env, store, before } = await opened(engine, async ({ hf }) => {
        await take(hf, 'press', { reentrant: true })
        return take(hf, 'press', { reentrant: true })
      })
      const lease = before.lease as Lease
      const letGo = await store.damage.holdUpWriters()

      const inner = refusalCode(() => hf.locks.releaseLock('press'))
      const isHeldBetween = lease.isHeld
      await env.advance(patienceMs + 100)
      const outer = refusalCode(() => hf.locks.releaseLock('press'))
      await env.advance(patienceMs + 100)
      const codes = [await inner, await outer]
      await letGo()
      await env.advance(leaseMs / 2)

      expect(isHeldBetween).toBe(true)
      expect(codes).toEqual(['BUSY', 'BUSY'])
      expect((await hf.locks.list()).locks).toEqual([])
    })
  })

  describe('an item', () => {
    test('that could not be completed in time is completed once, when the store is back [S5b-16]', async () => {
      const { hf, env, before, letGo } = await heldUp(engine, claimOne)

      const refused = refusalCode(() => hf.queue('q').complete(before.item.id, { result: 1 }))
      await env.advance(patienceMs + 100)
      await refused
      await letGo()
      await env.advance(leaseMs / 2)

      expect(await hf.queue('q').get(before.item.id)).toMatchObject({ state: 'done', result: 1 })
      const kinds = (await hf.queue('q').events(before.item.id)).map(({ kind }) => kind)
      expect(kinds.filter((kind) => kind === 'item.completed')).toHaveLength(1)
    })

    test.each([
      ['failed', (opened: Opened, id: string) => opened.hf.queue('q').fail(id, 'no luck')],
      ['released', (opened: Opened, id: string) => opened.hf.queue('q').release(id)],
      ['released by its key', (opened: Opened) => opened.hf.queue('q').release('k')],
    ])('that could not be %s in time is so when the store is back [S5b-16]', async (_, giveBack) => {
      const held = await heldUp(engine, claimOne)
      const { hf, env, before, letGo } = held

      const refused = refusalCode(() => giveBack(held, before.item.id))
      await env.advance(patienceMs + 100)
      await refused
      await letGo()
      await env.advance(leaseMs / 2)

      expect(await hf.queue('q').get(before.item.id)).not.toMatchObject({ phase: 'held' })
    })

    test('whose completion is refused stays with its holder and is renewed [S5b-16]', async () => {
      const { hf, env, before } = await opened(engine, claimOne)
      const { item } = before
      const lease = before.lease as Lease
      const expectedVersion = item.version + 1

      const code = await refusalCode(() => hf.queue('q').complete(item.id, { expectedVersion }))
      await env.advance(2 * leaseMs)

      expect(code).toBe('VERSION_MISMATCH')
      expect(lease.isHeld).toBe(true)
      expect(await hf.queue('q').complete(item.id)).toMatchObject({ state: 'done' })
    })

    test('whose repeated completion is refused stays with its holder too [S5b-16]', async () => {
      const { hf, env, before, letGo } = await heldUp(engine, claimOne)
      const { item } = before
      const lease = before.lease as Lease
      const expectedVersion = item.version + 1

      const refused = refusalCode(() => hf.queue('q').complete(item.id, { expectedVersion }))
      await env.advance(patienceMs + 100)
      const code = await refused
      await letGo()
      await env.advance(2 * leaseMs)

      expect(code).toBe('BUSY')
      expect(lease.isHeld).toBe(true)
    })

    test('that is being completed is not claimed again by its own process [S5b-16]', async () => {
      const { hf, env, before, letGo } = await heldUp(engine, async ({ hf }) => {
        const queue = hf.queue('q', { slots: 1 })
        await queue.addMany([{ payload: 1 }, { payload: 2 }])
        return claimedWithLock(queue.nextWithLock())
      })

      const completed = hf.queue('q').complete(before.item.id)
      const next = claimed(hf.queue('q').nextWithLock())
      await env.advance(patienceMs / 2)
      await letGo()
      await env.advance(patienceMs / 2)

      expect(await completed).toMatchObject({ state: 'done' })
      expect((await next).item.payload).toBe(2)
    })
  })

  test('manual renewal of a task stops once its holder has asked to complete it [S5b-16]', async () => {
    const { hf, env, before, letGo } = await heldUp(engine, async ({ hf }) => {
      await hf.tasks.addTask('work', { key: 'T-1' })
      await hf.tasks.claimTaskForAgent('T-1', { renew: false, leaseMs })
      return hf.tasks.runLeaseRenewal('T-1', { everyMs: 1_000 })
    })

    const refused = refusalCode(() => hf.tasks.completeTask('T-1'))
    await env.advance(patienceMs + 100)
    await refused
    await letGo()
    await env.advance(leaseMs)
    before.stop()

    expect(await hf.tasks.getTask('T-1')).toMatchObject({ status: 'Done' })
  })

  test('a batch whose lock could not be released reports the outcome of its run [S5b-16]', async () => {
    const { hf, env, store } = await opened(engine, async () => {})
    let letGo = async () => {}
    const onComplete = async () => {
      letGo = await store.damage.holdUpWriters()
    }

    const report = hf.locks.runBatch('r1', ['a', 'b'], () => {}, { lock: 'press', gapMs: 0, onComplete })
    const { outcome } = await whileTimePasses(env, report)
    await letGo()
    await env.advance(leaseMs / 2)

    expect(outcome).toBe('completed')
    expect((await hf.locks.list()).locks).toEqual([])
  })

  test('a worker finishes an item itself if its handler’s own completion was refused [S5b-16]', async () => {
    const { hf, env } = await opened(engine, ({ hf }) => hf.queue('q').add(null))
    const worker = hf.work('q', async ({ id, version }) => {
      void hf
        .queue('q')
        .complete(id, { expectedVersion: version + 1 })
        .catch(() => {})
    })

    await env.advance(1_000)
    await worker.stop()

    expect(await hf.queue('q').stats()).toMatchObject({ completed: 1, processing: 0 })
  })
})

async function claimOne({ hf }: Opened) {
  await hf.queue('q').add(null, { key: 'k' })
  return claimed(hf.queue('q').next())
}

async function opened<Before>(engine: Engine, prepare: (opened: Opened) => Promise<Before>) {
  const store = await engine.open({ agent: 'ada', leaseMs, busyTimeoutMs, patienceMs, recovery: false })
  return { ...store, before: await prepare(store) }
}

/** A store whose writers are held up after that. */
async function heldUp<Before>(engine: Engine, prepare: (opened: Opened) => Promise<Before>) {
  const all = await opened(engine, prepare)
  return { ...all, letGo: await all.store.damage.holdUpWriters() }
}
