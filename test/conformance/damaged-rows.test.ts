/** An unreadable row is set aside: it stays where it is and blocks nothing else. */
import { describe, expect, test } from 'vitest'
import { claimed, claimedMany, refusal } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('a damaged item of a dead process does not keep its other work from being reclaimed [Q13]', async () => {
    const { hf, env, store } = await engine.open({ agent: 'witness' })
    const host = machine(env)
    const worker = await store.open({ agent: 'worker', environment: host.process(7) })
    const watcher = await store.open({ agent: 'watcher', environment: host.process(8) })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    const { item: sound } = await jobs.add('sound')
    await worker.queue('jobs').claimMany(2)
    await store.damage.garble(broken.id)

    host.kill(7)
    const report = await watcher.recovery.detectAndRecoverStale()

    expect(report.ids).toEqual([sound.id])
    expect((await jobs.get(sound.id))?.phase).toBe('ready')
  })

  test('reports, warnings and handoff work despite a damaged item', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', recovery: false })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    await claimed(jobs.next({ renew: false }))
    const { item: sound } = await jobs.add('sound')
    await claimed(jobs.next({ renew: false }))
    await store.damage.garble(broken.id)
    await env.advance(250_000)

    const { locks } = await hf.recovery.detectStaleLocks()
    const warned = await hf.execute('lease.listNear', {})
    const taken = await jobs.reclaimStale({ thresholdMs: 1_000 })

    expect(locks.map(({ id }) => id)).toEqual([sound.id])
    expect(warned).toMatchObject([{ id: sound.id }])
    expect(taken).toBe(1)
  })

  test('reports and warnings work despite a damaged reservation', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', background: false })
    await hf.locks.reserve('src/**', { leaseMs: 60_000 })
    const [reserved] = (await hf.locks.list()).locks
    await hf.locks.acquireLock('press', { leaseMs: 60_000 })
    await store.damage.garblePatterns(String(reserved?.name))
    await env.advance(50_000)

    const { locks } = await hf.recovery.detectStaleLocks()

    expect(locks.map(({ id }) => id)).toEqual(['press#0'])
    expect(await hf.execute('lease.listNear', {})).toMatchObject([{ id: 'press#0' }])
  })

  test('a damaged item in line does not block those behind it, and is reported by name', async () => {
    const { hf, store } = await engine.open({ agent: 'ada', background: false })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    await jobs.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    await store.damage.garble(broken.id)

    const peeked = await jobs.peek()
    const first = await claimed(jobs.next())
    const rest = await claimedMany(jobs.claimMany(2))
    const refused = await refusal(() => jobs.get(broken.id))

    expect([peeked?.payload, first.item.payload]).toEqual([1, 1])
    expect(rest.map(({ payload }) => payload)).toEqual([2, 3])
    expect((await jobs.list()).items).toHaveLength(3)
    expect(refused.code).toBe('STORE_UNFIT')
    expect(refused.message).toContain(broken.id)
  })

  test('a damaged delayed item that is due does not keep other delays from ending', async () => {
    const { hf, env, store } = await engine.open({ agent: 'ada', background: false })
    const jobs = hf.queue('jobs')
    const runAt = env.now() + 1_000
    const { item: broken } = await jobs.add('broken', { runAt })
    await jobs.add('sound', { runAt })
    await store.damage.garble(broken.id)
    await env.advance(2_000)

    expect((await claimed(jobs.next())).item.payload).toBe('sound')
  })

  test('a damaged item whose lease lapsed is not healed again before every claim', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const healings: string[] = []
    const environment = { ...machine(env).process(7), reached: count }
    const hf = await store.open({ agent: 'ada', background: false, environment })
    const jobs = hf.queue('jobs')
    const { item: broken } = await jobs.add('broken')
    await claimed(jobs.next({ leaseMs: 1_000 }))
    await jobs.addMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    await store.damage.garble(broken.id)
    await env.advance(2_000)

    for (let claim = 0; claim < 3; claim++) await claimed(jobs.next())

    expect(healings).toEqual([])

    function count(point: string): void {
      if (point === 'recovery.begun') healings.push(point)
    }
  })

  test('a damaged reservation whose lease lapsed is not healed again before every claim', async () => {
    const { env, store } = await engine.open({ background: false, recovery: false })
    const healings: string[] = []
    const environment = { ...machine(env).process(7), reached: count }
    const hf = await store.open({ agent: 'ada', background: false, environment })
    const reserved = await hf.locks.reserve(['src/**'], { leaseMs: 1_000 })
    expect(reserved.outcome).toBe('acquired')
    const [held] = (await hf.locks.list()).locks
    await store.damage.garblePatterns(String(held?.name))
    await hf.queue('jobs').addMany([{ payload: 1 }, { payload: 2 }])
    await env.advance(2_000)

    for (let claim = 0; claim < 2; claim++) await claimed(hf.queue('jobs').next())

    expect(healings).toEqual([])

    function count(point: string): void {
      if (point === 'recovery.begun') healings.push(point)
    }
  })

  describe('a whole page of damaged rows', () => {
    /** As many as one recovery takes. */
    const page = Array.from({ length: 100 }, (_, each) => `a${each}`)

    test('of lapsed locks hides no lapsed lock', async () => {
      const { hf, env, store } = await engine.open({ agent: 'ada', background: false, recovery: false })
      await Promise.all(page.map((name) => hf.locks.acquireLock(name, { leaseMs: 1_000 })))
      await hf.locks.acquireLock('press', { leaseMs: 2_000 })
      await store.damage.garbleLocks('a')
      await env.advance(3_000)

      const report = await hf.recovery.detectAndRecoverStale()

      expect(report).toMatchObject({ locksCleaned: 1 })
    })

    test('of a dead process hides none of its locks', async () => {
      const { env, store } = await engine.open({ agent: 'witness' })
      const host = machine(env)
      const worker = await store.open({ agent: 'worker', environment: host.process(7) })
      const watcher = await store.open({ agent: 'watcher', environment: host.process(8) })
      await Promise.all(page.map((name) => worker.locks.acquireLock(name)))
      await worker.locks.acquireLock('press')
      await store.damage.garbleLocks('a')

      host.kill(7)
      const report = await watcher.recovery.detectAndRecoverStale()

      expect(report).toMatchObject({ locksCleaned: 1 })
    })

    test('of runs hides no run that lost its lock', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false, recovery: false })
      const runs = [...page, 'b']
      await Promise.all(runs.map((run) => hf.locks.acquireLock(run, { run })))
      await Promise.all(runs.map((run) => hf.runs.start(run, { lock: run, cursor: 1 })))
      await store.damage.garbleRuns('a')
      await store.damage.loseLocks()

      await hf.recovery.detectAndRecoverStale()

      expect(await hf.runs.get('b')).toMatchObject({ status: 'paused' })
    })

    test('that is held hides no lease that ends later', async () => {
      const { hf, store } = await engine.open({ agent: 'ada', background: false, recovery: false })
      const jobs = hf.queue('jobs')
      const { item: broken } = await jobs.add('broken')
      await claimed(jobs.next({ leaseMs: 1_000 }))
      await jobs.add('sound')
      await claimed(jobs.next({ leaseMs: 60_000 }))
      await store.damage.garble(broken.id)

      const { lapseInMs } = await hf.execute('queue.look', { queue: 'jobs', lapses: true })

      expect(lapseInMs).toBeGreaterThan(1_000)
    })
  })
})
