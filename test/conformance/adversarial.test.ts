/** Suite D: hostile use. */
import type { Queue } from 'holdfast'
import { expect, test } from 'vitest'
import { claimed, claimedMany, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('the same key from the same workspace updates the item [D-01]', async () => {
    const { q } = await openMerge(engine)
    const first = await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'w1:c1' })

    const second = await q.submit('w1', { headSha: 'bbbb', dedupeKey: 'w1:c1' })

    expect(second).toMatchObject({
      outcome: 'updated',
      item: { id: first.item.id, data: { headSha: 'bbbb' } },
    })
    expect(await q.stats()).toMatchObject({ total: 1 })
  })

  test('an open key from another workspace is refused, naming the item that has it [D-02]', async () => {
    const { q } = await openMerge(engine)
    const { item } = await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'shared:c1' })

    const refused = await refusal(() => q.submit('w2', { headSha: 'bbbb', dedupeKey: 'shared:c1' }))

    expect(refused).toMatchObject({
      code: 'DUPLICATE',
      facts: { field: 'dedupeKey', value: 'shared:c1', existing: item.id },
    })
    expect(await q.get('w2')).toBeNull()
  })

  test('a key is free again once its item is closed [D-03]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa', dedupeKey: 'shared:c1' })
    await q.cancel('w1')

    const { outcome } = await q.submit('w2', { headSha: 'bbbb', dedupeKey: 'shared:c1' })

    expect(outcome).toBe('new')
  })

  test('of racing submits under one key, one creates the item and the rest agree [D-04] [Q4]', async () => {
    const { store } = await openMerge(engine)
    const queues = await Promise.all(
      [1, 2, 3].map(async () => (await store.open()).queue('main', { workflow: 'merge' })),
    )

    const answers = await Promise.all(
      queues.flatMap((q) => Array.from({ length: 10 }, () => q.submit('w1', { headSha: 'aaaa' }))),
    )

    expect(answers.filter(({ outcome }) => outcome === 'new')).toHaveLength(1)
    expect(answers.filter(({ outcome }) => outcome === 'updated')).toHaveLength(29)
    expect(new Set(answers.map(({ item }) => item.id)).size).toBe(1)
  })

  test('submitting the same thing over and over has no further effect [D-05]', async () => {
    const { q } = await openMerge(engine)
    const { item } = await q.submit('w1', { headSha: 'aaaa' })

    for (let round = 0; round < 5; round++) await q.submit('w1', { headSha: 'aaaa' })

    expect(await q.get('w1')).toEqual(item)
    expect(await q.events('w1')).toHaveLength(1)
  })

  test('a queue of ten thousand items stays correct [D-06]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const thousand = Array.from({ length: 1_000 }, (_, number) => ({
      payload: number,
      priority: 1 + (number % 7),
    }))
    for (let batch = 0; batch < 10; batch++) await q.addMany(thousand)

    const { item } = await q.add('urgent', { priority: 0 })

    expect(await q.stats()).toMatchObject({ total: 10_001, pending: 10_001 })
    expect(await q.position(item.id)).toBe(1)
    expect((await claimed(q.next({ agent: 'worker-1' }))).item.payload).toBe('urgent')
  })

  test('the smallest and largest priorities sort correctly [D-07] [Q5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const priorities = [10, 0, 7, 5, 1]
    for (const priority of priorities) await q.add(priority, { priority })

    const served = (await claimedMany(q.claimMany(10, { agent: 'worker-1' }))).map(({ priority }) => priority)

    expect(served).toEqual([0, 1, 5, 7, 10])
    for (const priority of [11, -1, 2 ** 31, 0.5, Number.NaN])
      expect(await refusalCode(() => q.add(null, { priority }))).toBe('INVALID')
  })

  test.each(['ünïcode-日本', 'feat/a.b@c+d#e=f,g~h', 'with inner space', 'Ω', 'a'.repeat(200)])(
    'the name %j survives unaltered [D-08]',
    async (name) => {
      const { hf } = await engine.open()
      const q = hf.queue(name)

      const { item } = await q.add({ name }, { key: name, dedupeKey: name, agent: name })

      expect(item).toMatchObject({
        queue: name,
        key: name,
        dedupeKey: name,
        submittedBy: name,
        payload: { name },
      })
      expect(await q.get(name)).toEqual(item)
    },
  )

  test('absent optional fields stay absent, and items without keys are unlimited [D-09] [Q3]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')

    const { item } = await q.add(null)
    await q.add(null)

    expect(item).toMatchObject({
      key: null,
      dedupeKey: null,
      parent: null,
      blockers: [],
      runAt: null,
      payload: null,
      result: null,
      error: null,
      progress: null,
      data: {},
      priority: 5,
    })
    expect(await q.stats()).toMatchObject({ pending: 2 })
  })

  test('a thousand agents contend and each item has one winner [D-10] [Q12] [E-02]', async () => {
    const { hf, store } = await engine.open()
    const handles = [hf, await store.open(), await store.open(), await store.open()]
    await hf.queue('jobs').addMany(Array.from({ length: 40 }, (_, number) => ({ payload: number })))

    const claims = await Promise.all(
      handles.flatMap((handle, number) =>
        Array.from({ length: 250 }, (_, agent) =>
          handle.queue('jobs').next({ agent: `agent-${number}-${agent}` }),
        ),
      ),
    )

    const winners = claims.flatMap((claim) => (claim.outcome === 'claimed' ? [claim.item.id] : []))
    expect(winners).toHaveLength(40)
    expect(new Set(winners).size).toBe(40)
  })

  test('alternately adding and removing leaves nothing behind [D-11]', async () => {
    const { q } = await openMerge(engine)

    for (let round = 0; round < 20; round++) {
      await q.submit('w1', { headSha: 'aaaa' })
      expect(await q.remove('w1')).toBe(true)
    }

    expect(await q.stats()).toMatchObject({ total: 0 })
    expect(await q.get('w1')).toBeNull()
  })

  test('of two moves from one state, one wins [D-12]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.move('w1', 'rebasing', { agent: 'worker-1' })

    const moves = await Promise.allSettled([
      q.move('w1', 'failed_retryable', { agent: 'worker-1' }),
      q.move('w1', 'testing', { agent: 'worker-1' }),
    ])

    expect(moves.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect(await q.get('w1')).toMatchObject({ state: 'failed_retryable' })
  })

  test('removing what does not exist is harmless and says so [D-13] [Q26]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })

    expect(await q.remove('nothing')).toBe(false)
    expect(await q.remove('0190a1b2-0000-7000-8000-000000000000')).toBe(false)
    expect(await q.stats()).toMatchObject({ total: 1 })
  })

  test('getting what does not exist says so [D-14]', async () => {
    const { hf } = await engine.open()

    expect(await hf.queue('nowhere').get('nothing')).toBeNull()
    expect(await hf.queue('nowhere').peek()).toBeNull()
    expect((await hf.queue('nowhere').next()).outcome).toBe('empty')
    expect(await hf.queue('nowhere').events('nothing')).toEqual([])
  })

  test('acting on what does not exist is NOT_FOUND [D-15]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })

    const acts = [
      () => q.move('nothing', 'rebasing'),
      () => q.complete('nothing'),
      () => q.fail('nothing', 'no'),
      () => q.retry('nothing'),
      () => q.cancel('nothing'),
      () => q.setPriority('nothing', 1),
      () => q.position('nothing'),
      () => q.renew('nothing'),
    ]

    for (const act of acts) expect(await refusalCode(act)).toBe('NOT_FOUND')
  })

  test('completing twice under one grant succeeds twice and is done once [D-16]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    const { item } = await q.add({})
    const { item: held } = await claimed(q.next({ agent: 'worker-1' }))
    const once = await q.complete(item.id, { agent: 'worker-1', token: held.token, result: 1 })

    const twice = await q.complete(item.id, { token: held.token, result: 2 })

    expect(twice).toEqual(once)
    expect((await q.events(item.id)).filter(({ kind }) => kind === 'item.completed')).toHaveLength(1)
  })

  test('a lapsed lock is acquired again under a larger token, and the audit names the former holder [D-17]', async () => {
    const { hf, env } = await engine.open({ recovery: false })
    const q = hf.queue('main', { workflow: 'merge' })
    const first = await q.acquireProcessingLock({ agent: 'worker-1', leaseMs: 1_000 })
    await env.advance(1_001)

    const second = await q.acquireProcessingLock({ agent: 'worker-2', reason: 'nightly' })

    if (first.outcome !== 'acquired' || second.outcome !== 'acquired') expect.fail('both were to be granted')
    expect(second.lock.lease.token).toBeGreaterThan(first.lock.lease.token)
    expect(second.lock).toMatchObject({ holder: 'worker-2', reason: 'nightly' })
    for await (const event of hf.events()) {
      if (event.kind !== 'lock.stolen') continue
      expect(event.detail).toMatchObject({
        previousHolder: 'worker-1',
        previousToken: first.lock.lease.token,
      })
      break
    }
  })

  test('a release by another agent changes nothing, whatever token it names [D-18] [Q8]', async () => {
    const { q } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })
    const { item } = await claimed(q.nextWithLock({ agent: 'worker-1' }))

    const answers = [
      await q.release('w1', { agent: 'worker-2' }),
      await q.release('w1', { agent: 'worker-2', token: item.token - 1 }),
      await q.releaseProcessingLock({ agent: 'worker-2' }),
      await q.releaseProcessingLock({ agent: 'worker-2', token: 1 }),
    ]

    expect(answers).toEqual([false, false, false, false])
    expect(await q.get('w1')).toMatchObject({ holder: 'worker-1' })
  })

  test('clean-up deletes many old items and keeps the young ones [D-19] [Q26]', async () => {
    const { hf, env } = await engine.open({ background: false })
    const q = hf.queue('jobs')
    await finishMany(q, 600)
    await env.advance(60_000)
    await finishMany(q, 10)

    const old = await q.cleanup({ maxAgeMs: 60_000 })
    const all = await q.cleanup({ maxAgeMs: 0 })

    expect([old, all]).toEqual([600, 10])
    expect(await q.stats()).toMatchObject({ total: 0 })
  })

  test('clean-up spares items that wait or are in progress [D-20] [Q26]', async () => {
    const { q, env } = await openMerge(engine)
    for (const key of ['w1', 'w2', 'w3', 'w4']) await q.submit(key, { headSha: 'aaaa' })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.fail('w1', 'again', { agent: 'worker-1', retryable: true })
    await q.nextWithLock({ agent: 'worker-1' })
    await q.cancel('w3')
    await env.advance(1)

    const removed = await q.cleanup({ maxAgeMs: 0 })

    expect(removed).toBe(1)
    expect((await q.list()).items.map(({ key, state }) => `${key} ${state}`)).toEqual([
      'w1 failed_retryable',
      'w2 claimed',
      'w4 pending',
    ])
  })

  test('of concurrent retries, one wins [D-21] [Q20]', async () => {
    const { q, store } = await openMerge(engine)
    await failRetryably(q)
    const other = (await store.open()).queue('main')

    const retries = await Promise.allSettled(
      Array.from({ length: 10 }, (_, number) => (number % 2 ? q : other).retry('w1')),
    )

    expect(retries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect((await q.events('w1')).filter(({ kind }) => kind === 'item.retried')).toHaveLength(1)
  })

  test('of concurrent cancels, one wins [D-22] [Q20]', async () => {
    const { q, store } = await openMerge(engine)
    await q.submit('w1', { headSha: 'aaaa' })
    const other = (await store.open()).queue('main')

    const cancels = await Promise.allSettled(
      Array.from({ length: 10 }, (_, number) => (number % 2 ? q : other).cancel('w1')),
    )

    expect(cancels.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test.each(['retry first', 'cancel first'])(
    'a retry racing a cancel (%s) leaves a state that both answers explain [D-23] [Q20]',
    async (order) => {
      const { q, store } = await openMerge(engine)
      await failRetryably(q)
      const other = (await store.open()).queue('main')
      const acts = [() => q.retry('w1'), () => other.cancel('w1')]
      if (order === 'cancel first') acts.reverse()

      await Promise.allSettled(acts.map((act) => act()))

      const { state } = await present(q.get('w1'))
      expect(state).toBe('cancelled')
    },
  )

  test('a reclaim racing a cancel ends cancelled, with the leases gone [D-23] [Q20]', async () => {
    const { hf, env, store } = await engine.open({ recovery: false })
    const q = hf.queue('main', { workflow: 'merge' })
    await q.submit('w1', { headSha: 'aaaa' })
    await q.nextWithLock({ agent: 'worker-1', leaseMs: 1_000 })
    await env.advance(1_001)
    const other = (await store.open({ recovery: false })).queue('main')

    await Promise.allSettled([other.detectAndRecoverStale(), q.cancel('w1'), other.detectAndRecoverStale()])

    expect(await q.get('w1')).toMatchObject({ state: 'cancelled', lease: null })
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('a claim that finds nothing leaves no lock, and keeps one that was there [D-24]', async () => {
    const { q } = await openMerge(engine)

    await q.nextWithLock({ agent: 'worker-1' })
    const untaken = await q.getProcessingLock()
    await q.acquireProcessingLock({ agent: 'worker-1' })
    await q.nextWithLock({ agent: 'worker-1' })

    expect(untaken).toBeNull()
    expect(await q.getProcessingLock()).toMatchObject({ holder: 'worker-1' })
  })

  test('consecutive claims never repeat an item [D-25] [E-05]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany(Array.from({ length: 25 }, (_, number) => ({ payload: number })))

    const ids: string[] = []
    for (let claim = await q.next({ agent: 'worker-1' }); claim.outcome === 'claimed'; ) {
      ids.push(claim.item.id)
      claim = await q.next({ agent: 'worker-1' })
    }

    expect(ids).toHaveLength(25)
    expect(new Set(ids).size).toBe(25)
  })

  test('positions stay distinct and without gaps while others add and claim [D-26] [Q3] [Q6]', async () => {
    const { hf, store } = await engine.open()
    const q = hf.queue('jobs')
    const other = (await store.open()).queue('jobs')
    await q.addMany(Array.from({ length: 10 }, (_, number) => ({ payload: number })))

    await Promise.all([
      ...Array.from({ length: 5 }, (_, number) => q.add(null, { priority: number })),
      ...Array.from({ length: 5 }, (_, worker) => other.next({ agent: `worker-${worker}` })),
    ])

    const { items } = await q.list({ phase: 'ready' })
    const positions = await Promise.all(items.map(({ id }) => q.position(id)))
    expect(positions).toEqual(items.map((_, index) => index + 1))
    expect(await q.peek()).toEqual(items[0])
  })

  test('adding an item returns its position in line and how many wait [Q3]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2, priority: 9 }])

    const middle = await q.add(null)
    const last = await q.add(null, { priority: 10 })

    expect(middle).toMatchObject({ position: 2, totalPending: 3 })
    expect(last).toMatchObject({ position: 4, totalPending: 4 })
  })
})

async function openMerge(engine: Engine) {
  const opened = await engine.open()
  return { ...opened, q: opened.hf.queue('main', { workflow: 'merge' }) }
}

async function failRetryably(q: Queue): Promise<void> {
  await q.submit('w1', { headSha: 'aaaa' })
  await q.nextWithLock({ agent: 'worker-1' })
  await q.fail('w1', 'again', { agent: 'worker-1', retryable: true })
}

async function finishMany(q: Queue, count: number): Promise<void> {
  await q.addMany(Array.from({ length: count }, (_, number) => ({ payload: number })))
  for (let left = count; left > 0; left -= 100) {
    const items = await claimedMany(q.claimMany(Math.min(left, 100), { agent: 'worker-1' }))
    await Promise.all(items.map(({ id }) => q.complete(id, { agent: 'worker-1' })))
  }
}
