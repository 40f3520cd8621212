/** A date that was wrong for a while removes nothing early and keeps nothing for ever. */
import { describe, expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { claimed } from '../support/outcomes.ts'
import { dayMs, retain, retainFor } from '../support/retention.ts'
import { forEachEngine, type Opened } from '../support/stores.ts'

const minuteMs = 60_000
const yearMs = 365 * dayMs

forEachEngine((engine) => {
  /** One of everything that retention removes, and two hours of retention. */
  const opened = async (): Promise<Opened> => {
    const store = await engine.open({ agent: 'ada', background: false, redelivery: false })
    await finishOneOfEach(store)
    await retainFor(2, store)
    return store
  }

  describe('a date a year ahead', () => {
    test('for a minute removes nothing [S5b-10]', async () => {
      const store = await opened()
      const before = await store.store.countRows()

      await aheadFor(minuteMs, store)
      await retainFor(2, store)

      expect(before).toMatchObject({ item: 1, answer: 1, message: 1, delivery: 1, run: 1, instance: 1 })
      expect(await store.store.countRows()).toEqual(before)
    })

    test('that stays is trusted after two hours at most, and everything old is removed [S5b-10]', async () => {
      const store = await opened()

      store.env.setWall(store.env.now() + yearMs)
      await retainFor(2, store)

      expect(await store.store.countRows()).toMatchObject({ item: 0, answer: 0, message: 0, delivery: 0 })
      expect(await store.store.countRows()).toMatchObject({ run: 0, outcome: 0, instance: 0 })
      expect((await store.store.countRows()).event).toBeLessThan(20)
    })

    test('that was trusted and then corrected makes nothing old that ends afterwards [S5b-10]', async () => {
      const store = await opened()
      store.env.setWall(store.env.now() + yearMs)
      await retainFor(2, store)

      store.env.setWall(store.env.now() - yearMs)
      await finishOneOfEach(store, 'second')
      const before = await store.store.countRows()
      await retainFor(2, store)

      expect(await store.store.countRows()).toEqual({ ...before, allowance: 0 })
    })

    test('is noticed in the middle of a removal [S5b-10]', async () => {
      const { hf, store, env } = await opened()
      const before = await store.countRows()
      const past = { from: env.now() + yearMs, ageMs: dayMs }

      await hf.execute('retention.run', { items: past, runs: past, answers: past, instances: past })
      await hf.execute('messages.retain', { past })
      await hf.execute('events.seal', { past })

      expect(await store.countRows()).toEqual(before)
    })
  })

  test('old items are removed within two hours, whether or not the machine sleeps [S5b-10]', async () => {
    const store = await opened()

    await store.env.advance(7 * dayMs)
    await retainFor(2, store)
    const awake = await store.store.countRows()
    await finishOneOfEach(store, 'second')
    store.env.suspend(7 * dayMs)
    await retainFor(2, store)

    expect(awake).toMatchObject({ item: 0, message: 0, instance: 0 })
    expect(await store.store.countRows()).toMatchObject({ item: 0, message: 0, instance: 0 })
  })

  describe('events', () => {
    test('dated ten years ahead keep no others, however many there are [S5b-10]', async () => {
      const { hf, env } = await engine.open({ background: false })
      await hf.queue('before').add(null)
      env.setWall(env.now() + 10 * yearMs)
      for (let number = 0; number < 120; number++) await hf.queue(`ahead-${number}`).add(null)
      env.setWall(env.now() - 10 * yearMs)
      for (let number = 0; number < 120; number++) await hf.queue(`after-${number}`).add(null)

      await env.advance(91 * dayMs)
      await hf.queue('late').add(null)
      await retainFor(2, { hf, env })

      expect((await readFeed(hf)).map(({ queue, id }) => queue ?? id)).toEqual(['late', 'late'])
    })

    test('dated ten years ahead stay as long as those around them [S5b-10]', async () => {
      const { hf, env } = await engine.open({ background: false })
      await hf.queue('before').add(null)
      await env.advance(91 * dayMs)
      env.setWall(env.now() + 10 * yearMs)
      await hf.queue('ahead').add(null)
      env.setWall(env.now() - 10 * yearMs)
      await hf.queue('late').add(null)

      await retainFor(2, { hf, env })

      expect((await readFeed(hf)).map(({ queue, id }) => queue ?? id)).toEqual([
        'ahead',
        'ahead',
        'late',
        'late',
      ])
    })

    test('dated too early do not age others, and stay as long as those around them [S5b-10]', async () => {
      const { hf, env } = await engine.open({ background: false })
      await hf.queue('before').add(null)
      await env.advance(91 * dayMs)
      const now = env.now()
      env.setWall(now + 10 * yearMs)
      await hf.queue('ahead').add(null)
      env.setWall(0)
      await hf.queue('early').add(null)
      env.setWall(now)
      await hf.queue('late').add(null)

      await retainFor(2, { hf, env })
      const kept = (await readFeed(hf)).map(({ queue, id }) => queue ?? id)

      expect(kept).toEqual(['ahead', 'ahead', 'early', 'early', 'late', 'late'])
    })
  })

  describe('an explicit cleanup', () => {
    test('acts at once, by the date that both clocks agree on [S5b-10]', async () => {
      const { hf, env } = await opened()

      env.setWall(env.now() + yearMs)
      const ahead = await hf.queue('jobs').cleanup({ maxAgeMs: dayMs })
      env.setWall(env.now() - yearMs)
      await env.advance(dayMs)
      const later = await hf.queue('jobs').cleanup({ maxAgeMs: dayMs })

      expect([ahead, later]).toEqual([0, 1])
    })

    test('trusts a date that has stayed, even if no process runs retention [S5b-10]', async () => {
      const { hf, env } = await opened()
      env.setWall(env.now() + yearMs)

      const removed: number[] = []
      for (let hour = 0; hour <= 2; hour++) {
        removed.push(await hf.queue('jobs').cleanup({ maxAgeMs: dayMs }))
        await env.advance(60 * minuteMs)
      }

      expect(removed).toEqual([0, 0, 1])
    })

    test('of everything also removes what was finished while the date was ahead [S5b-10]', async () => {
      const { hf, env } = await engine.open({ background: false })
      env.setWall(env.now() + yearMs)
      await hf.queue('jobs').add(null, { key: 'ahead' })
      await hf.queue('jobs').cancel('ahead')
      env.setWall(env.now() - yearMs)

      expect(await hf.queue('jobs').cleanup({ maxAgeMs: 0 })).toBe(1)
    })
  })

  test('a process removes what is old in the background, once it trusts the date [S5b-10]', async () => {
    const { hf, env, store } = await engine.open({ recovery: false, retention: { itemsMs: 30 * minuteMs } })
    await hf.queue('jobs').add(null, { key: 'done' })
    await hf.queue('jobs').cancel('done')
    await env.advance(minuteMs + 10_000)

    env.suspend(30 * minuteMs)
    await env.advance(minuteMs + 10_000)
    const noted = await store.countRows()
    await env.advance(4 * minuteMs)

    expect(noted).toMatchObject({ item: 1 })
    expect(await store.countRows()).toMatchObject({ item: 0 })
  })
})

async function aheadFor(ms: number, { hf, env }: Opened): Promise<void> {
  env.setWall(env.now() + yearMs)
  await retain(hf)
  await env.advance(ms)
  await retain(hf)
  env.setWall(env.now() - yearMs)
  await retain(hf)
}

/** An item, an answer, a message, a run and an instance, all of them over. */
async function finishOneOfEach({ hf, env }: Opened, name = 'first'): Promise<void> {
  await hf.queue('jobs').add(null, { idempotencyKey: name })
  const { item } = await claimed(hf.queue('jobs').next())
  await hf.queue('jobs').complete(item.id)
  await hf.messages.register('bob')
  const { message } = await hf.messages.sendWithAck('bob', { content: 1 })
  await hf.messages.receiveAck(message.id, { agent: 'bob' })
  await hf.locks.acquireLock(name, { run: name })
  await hf.runs.start(name, { lock: name, total: 1 })
  await hf.runs.record(name, { outcomes: [{ key: 'a', outcome: 'done' }] })
  await hf.locks.releaseLock(name)
  const instance = env.id()
  const { bootId, hostName, pidNamespace } = env.host.identity
  await hf.execute('instance.start', {
    id: instance,
    bootId,
    hostName,
    pidNamespace,
    pid: 1,
    startTime: 'then',
  })
  await hf.execute('instance.end', { id: instance, reason: 'over' })
}
