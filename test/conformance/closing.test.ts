/** A clean close leaves nothing behind: everything held is released, and anything missed counts as no crash. */
import type { Holdfast } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { claimed, present, refusal } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine, type Opened } from '../support/stores.ts'

/** Claims again as soon as it is answered, until the store refuses. */
async function claimUntilRefused(claim: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      await claim()
    } catch (error) {
      return error
    }
  }
}

/** Ends an instance; what others claimed in its name is not given back. */
async function endBehind({ hf }: Opened, id: string, agent: string): Promise<void> {
  await hf.execute('instance.end', { id, reason: 'a mistake' }, { agent })
}

forEachEngine((engine) => {
  describe('closing a handle', () => {
    test('leaves no item and no lock held, even if the program keeps claiming [S5b-2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false })
      await hf.queue('jobs').addMany(Array.from({ length: 400 }, (_, payload) => ({ payload })))
      const closing = await store.open({ agent: 'zoe' })
      let slot = 0
      const claiming = [
        claimUntilRefused(() => closing.queue('jobs').next()),
        claimUntilRefused(() => closing.locks.acquireLock(`press-${slot++ % 50}`)),
      ]
      await claimed(closing.queue('jobs').next())

      await closing.close()
      const refusals = await Promise.all(claiming)

      expect(refusals).toMatchObject([{ code: 'STORE_UNAVAILABLE' }, { code: 'STORE_UNAVAILABLE' }])
      expect(await hf.queue('jobs').stats()).toMatchObject({ pending: 400, processing: 0 })
      expect((await hf.locks.list()).locks).toEqual([])
    })

    test('releases more than fits in one transaction, positions in line included [S5b-2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false })
      await hf.queue('jobs').addMany(Array.from({ length: 130 }, (_, payload) => ({ payload })))
      await hf.locks.acquireLock('taken', { leaseMs: 3_600_000 })
      const closing = await store.open({ agent: 'zoe' })
      await closing.queue('jobs').claimMany(100)
      await closing.queue('jobs').claimMany(30)
      for (const each of ['a', 'b', 'c']) await closing.locks.acquireLock(each)
      const waiting = closing.locks.acquireLock('taken', { waitMs: 60_000 })

      const refused = refusal(() => waiting)
      await closing.close()

      expect(await refused).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(await hf.queue('jobs').stats()).toMatchObject({ pending: 130, processing: 0 })
      expect((await hf.locks.list()).locks.map(({ name }) => name)).toEqual(['taken'])
      expect(await hf.agents.list()).toEqual([])
    })

    test('does not wait for the next poll of a handler that waits for work [S5c-51]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false })
      await hf.queue('jobs').add('p')
      const closing = await store.open({ agent: 'zoe' })
      let end: unknown = null
      const begun = new Promise<void>((resolve) => {
        closing.work('jobs', async () => {
          resolve()
          await closing
            .queue('other')
            .next({ waitMs: 60_000 })
            .catch((error) => {
              end = error
            })
        })
      })
      await begun

      // Time stands still.
      await closing.close()

      expect(end).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { closed: true } })
      expect(await hf.queue('jobs').stats()).toMatchObject({ processing: 0 })
    })

    test('ends everything that waits for events, at once [S5c-51]', async () => {
      const { env, store } = await engine.open({ background: false })
      const closing = await store.open({ agent: 'zoe' })
      const seen: unknown[] = []
      const drain = async (news: AsyncIterable<unknown>) => {
        for await (const each of news) seen.push(each)
      }
      const ends = [closing.events(), closing.state('plan').watch(), closing.fleet.watch()].map(drain)
      await env.advance(100)

      await closing.close()
      await Promise.all(ends)

      expect(seen.length).toBeGreaterThan(0)
    })

    test('releases the item of a handler that ran into the closed store, without counting a failure [S5b-2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false })
      await hf.locks.acquireLock('press', { leaseMs: 3_600_000 })
      const { item } = await hf.queue('jobs').add('p')
      const closing = await store.open({ agent: 'zoe' })
      const begun = new Promise<void>((resolve) => {
        closing.work('jobs', async () => {
          resolve()
          await closing.locks.acquireLock('press', { waitMs: 60_000 })
        })
      })
      await begun

      await closing.close()

      const after = await present(hf.queue('jobs').get(item.id))
      expect(after).toMatchObject({ phase: 'ready', failures: 0, crashes: 0, error: null })
    })

    test('lets a handler that is being drained take a free lock [S5b-2]', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false })
      const { item } = await hf.queue('jobs').add('p')
      const closing = await store.open({ agent: 'zoe' })
      let goOn = () => {}
      const told = new Promise<void>((resolve) => {
        goOn = resolve
      })
      const begun = new Promise<void>((resolve) => {
        closing.work('jobs', async () => {
          resolve()
          await told
          return (await closing.locks.acquireLock('press')).outcome
        })
      })
      await begun

      const closed = closing.close()
      goOn()
      await closed

      expect(await hf.queue('jobs').get(item.id)).toMatchObject({ state: 'done', result: 'acquired' })
      expect((await hf.locks.list()).locks).toEqual([])
    })
  })

  describe('an ended instance', () => {
    test('loses what it still holds, at once and without counting a crash [S5b-2]', async () => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf } = opened
      const { item } = await hf.queue('jobs').add('p')
      const id = await joined(opened, 'zoe')
      await hf.execute('queue.next', { queue: 'jobs', leaseMs: 3_600_000 }, { agent: 'eve', instance: id })
      await hf.execute('locks.acquireLock', { name: 'press' }, { agent: 'eve', instance: id })

      await endBehind(opened, id, 'zoe')
      const stats = await hf.recovery.getRecoveryStats()
      const done = await hf.recovery.detectAndRecoverStale()

      expect(stats).toMatchObject({ entriesReclaimed: 1, locksCleaned: 1 })
      expect(done).toMatchObject({ entriesReclaimed: 1, locksCleaned: 1 })
      expect(await hf.queue('jobs').get(item.id)).toMatchObject({
        phase: 'ready',
        crashes: 0,
        exposures: 0,
      })
      expect((await hf.queue('jobs').events(item.id)).at(-1)).toMatchObject({ detail: { blame: 'none' } })
    })

    test('releases its own items, however much another agent claimed in its name', async () => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf } = opened
      await hf.queue('jobs').addMany(Array.from({ length: 101 }, (_, payload) => ({ payload })))
      const id = await joined(opened, 'zoe')
      const claim = { queue: 'jobs', leaseMs: 3_600_000 }
      await hf.execute('queue.claimMany', { ...claim, limit: 100 }, { agent: 'eve', instance: id })
      await hf.execute('queue.next', claim, { agent: 'zoe', instance: id })

      await endBehind(opened, id, 'zoe')

      expect(await hf.queue('jobs').stats()).toMatchObject({ pending: 1, processing: 100 })
    })

    test('is not blamed when its lease lapses first [S5b-2]', async () => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf, env } = opened
      const { item } = await hf.queue('jobs').add('p')
      for (let round = 0; round < 3; round++) {
        const id = await joined(opened, 'zoe')
        await hf.execute('queue.next', { queue: 'jobs', leaseMs: 1_000 }, { agent: 'eve', instance: id })
        await endBehind(opened, id, 'zoe')
        await env.advance(1_001)
        await hf.queue('jobs').detectAndRecoverStale()
      }

      expect(await hf.queue('jobs').get(item.id)).toMatchObject({
        phase: 'ready',
        crashes: 0,
        attempts: 3,
      })
    })

    test('is not removed while it holds something [S5b-2]', async () => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf, env } = opened
      await hf.queue('jobs').add('p')
      const [holding, idle] = [await joined(opened, 'zoe'), await joined(opened, 'max')]
      await hf.execute('queue.next', { queue: 'jobs' }, { agent: 'eve', instance: holding })
      await endBehind(opened, holding, 'zoe')
      await endBehind(opened, idle, 'max')

      await env.advance(8 * 24 * 60 * 60 * 1000)
      const past = { from: env.now(), ageMs: 7 * 24 * 60 * 60 * 1000 }
      const input = { items: null, runs: null, answers: null, instances: past }
      const { instances } = (await hf.execute('retention.run', input)) as { instances: number }

      expect(instances).toBe(1)
    })

    test('of another process cannot be ended, and none of its items is released [S5b-2]', async () => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf } = opened
      await hf.queue('jobs').add('p')
      const id = await joined(opened, 'zoe')
      await hf.execute('queue.next', { queue: 'jobs' }, { agent: 'zoe', instance: id })

      await endBehind(opened, id, 'eve')

      expect((await hf.agents.list()).map((each) => each.id)).toEqual([id])
      expect(await hf.queue('jobs').stats()).toMatchObject({ processing: 1 })
    })

    test.each([
      ['queue.next', { queue: 'jobs' }],
      ['queue.claimMany', { queue: 'jobs', limit: 3 }],
      ['queue.nextWithLock', { queue: 'jobs' }],
      ['queue.acquireProcessingLock', { queue: 'jobs' }],
      ['locks.acquireLock', { name: 'press' }],
      ['locks.reserve', { patterns: ['src/**'] }],
      ['tasks.claimTaskForAgent', { ref: 'T-1' }],
      ['tasks.claimNext', {}],
      ['tasks.batchClaim', { refs: ['T-1'] }],
      ['messages.claimDue', { adapters: ['pigeon'], leaseMs: 1_000 }],
    ] as const)('is refused %s in its own transaction [S5b-2]', async (operation, input) => {
      const opened = await engine.open({ agent: 'ada', background: false, recovery: false })
      const { hf } = opened
      await hf.queue('jobs').add('p')
      await hf.tasks.addTask('a task', { key: 'T-1' })
      await hf.messages.register('bob', { adapter: 'pigeon' })
      await hf.messages.sendWithAck('bob', { content: 'hello' })
      const id = await joined(opened, 'zoe')
      await endBehind(opened, id, 'zoe')

      const refused = await refusal(() =>
        hf.execute(operation, input as never, { agent: 'zoe', instance: id }),
      )

      expect(refused).toMatchObject({ code: 'BUSY', facts: { endedInstance: id } })
    })
  })

  test('a handle whose instance was ended joins again and repeats its claim [S5b-2]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', background: false, recovery: false })
    const host = machine(env)
    await hf.queue('jobs').add('p')
    const robbed = await store.open({ agent: 'zoe', environment: host.process(101), recovery: false })
    const [before] = await hf.agents.list()
    await hf.execute('instance.end', { id: before?.id as string, reason: 'a mistake' }, { agent: 'zoe' })

    const { item } = await claimed(robbed.queue('jobs').next())

    const [after] = await hf.agents.list()
    expect(after?.id).not.toBe(before?.id)
    expect(await holderOf(hf, item.id)).toBe(after?.id)
  })
})

async function joined({ hf, env }: Opened, agent: string): Promise<string> {
  const id = env.id()
  const { bootId, hostName, pidNamespace } = env.host.identity
  const identity = { bootId, hostName, pidNamespace, pid: 1, startTime: 'then' }
  await hf.execute('instance.start', { id, ...identity }, { agent })
  return id
}

async function holderOf(hf: Holdfast, id: string): Promise<string | null> {
  const [last] = await hf.queue('jobs').events(id, { limit: 1 })
  return (last?.change?.instance as string | undefined) ?? null
}
