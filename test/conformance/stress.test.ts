/** Suite F: many at once, through several handles on one store. */
import type { Holdfast, Queue, QueueOptions } from 'holdfast'
import { beforeAll, expect, test } from 'vitest'
import { claimed, claimedMany } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

const handleCount = 4

forEachEngine((engine) => {
  /** On one store, in real time, each with its own caretaker thread, which takes longer to start than a test. */
  const handles: Holdfast[] = []
  let tests = 0
  /** A queue of the test's own, seen through each handle. */
  const newQueue = (options: QueueOptions<unknown> = {}): Queue[] => {
    const name = `jobs-${++tests}`
    return handles.map((handle) => handle.queue(name, options))
  }

  beforeAll(async () => {
    const { hf, store } = await engine.openInRealTimeForAll({ durability: 'normal' })
    handles.push(hf)
    while (handles.length < handleCount) handles.push(await store.open({ durability: 'normal' }))
  })

  test('a great many concurrent claims split the items exactly [F-01]', async () => {
    const queues = newQueue()
    const { ids } = await first(queues).addMany(
      Array.from({ length: 300 }, (_, number) => ({ payload: number })),
    )

    const claims = await Promise.all(
      queues.flatMap((q, handle) =>
        Array.from({ length: 150 }, (_, number) => q.next({ agent: `worker-${handle}-${number}` })),
      ),
    )

    const won = claims.flatMap((claim) => (claim.outcome === 'claimed' ? [claim.item.id] : []))
    expect(won.toSorted()).toEqual(ids.toSorted())
  })

  test('fast adding and removing leaves nothing behind [F-02]', async () => {
    const queues = newQueue()

    await Promise.all(
      queues.map(async (q, handle) => {
        for (let round = 0; round < 25; round++) {
          await q.add(round, { key: `w-${handle}` })
          expect(await q.remove(`w-${handle}`)).toBe(true)
        }
      }),
    )

    expect(await first(queues).stats()).toMatchObject({ total: 0 })
  })

  test('order holds while priorities change during the claims [F-03] [F-13]', async () => {
    const queues = newQueue()
    const q = first(queues)
    const { ids } = await q.addMany(
      Array.from({ length: 80 }, (_, number) => ({ payload: number, priority: 9 })),
    )

    const claiming = Promise.all(queues.map((each) => claimed(each.next({ agent: 'early' }))))
    await Promise.all(
      ids.map((id, number) => (queues[number % handleCount] ?? q).setPriority(id, (number * 7) % 10)),
    )
    await claiming
    const { items } = await q.list({ phase: 'ready', limit: 500 })
    const served = await claimedMany(q.claimMany(100, { agent: 'late' }))

    const priorities = served.map(({ priority }) => priority)
    expect(priorities).toEqual(priorities.toSorted((left, right) => left - right))
    expect(served.map(({ id }) => id)).toEqual(items.map(({ id }) => id))
    expect(served).toHaveLength(80 - handleCount)
  })

  test('mixed writers never block each other forever, and their results add up [F-04]', async () => {
    const queues = newQueue()

    await Promise.all(
      queues.map(async (q, handle) => {
        for (let round = 0; round < 15; round++) {
          const { item } = await q.add({ handle, round })
          const claim = await q.next({ agent: `worker-${handle}` })
          await Promise.all([
            q.setPriority(item.id, round % 10).catch(ignoreFinished),
            claim.outcome === 'claimed'
              ? q.complete(claim.item.id, { agent: `worker-${handle}` })
              : undefined,
            handles[handle]?.recovery.detectAndRecoverStale(),
            q.stats(),
          ])
        }
      }),
    )

    const stats = await first(queues).stats()
    expect(stats.total).toBe(15 * handleCount)
    expect(stats.completed + stats.pending).toBe(stats.total)
    expect(stats.processing).toBe(0)
  })

  test('many items are finished at once, each once [F-05]', async () => {
    const queues = newQueue()
    const q = first(queues)
    await q.addMany(Array.from({ length: 200 }, (_, number) => ({ payload: number })))
    const items = [
      ...(await claimedMany(q.claimMany(100, { agent: 'worker-1' }))),
      ...(await claimedMany(q.claimMany(100, { agent: 'worker-1' }))),
    ]

    const done = await Promise.all(
      items.flatMap(({ id, token }) =>
        queues.slice(0, 2).map((each) => each.complete(id, { agent: 'worker-1', token })),
      ),
    )

    expect(new Set(done.map(({ state }) => state))).toEqual(new Set(['done']))
    expect(await q.stats()).toMatchObject({ completed: 200, processing: 0 })
    const versions = new Set(
      (await q.list({ phase: 'closed', limit: 500 })).items.map(({ version }) => version),
    )
    expect(versions).toEqual(new Set([3]))
  })

  test('contention ends without an error for any caller [F-06] [F-14]', async () => {
    const queues = newQueue()

    const answers = await Promise.allSettled(
      queues.map(async (q) => {
        for (let round = 0; round < 40; round++) await q.add(round)
      }),
    )

    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: handleCount }, () => 'fulfilled'),
    )
    expect(await first(queues).stats()).toMatchObject({ total: 40 * handleCount })
  })

  test('clean-up under load deletes only what is closed [F-07]', async () => {
    const queues = newQueue()
    let closed = 0
    let removed = 0

    await Promise.all(
      queues.map(async (q, handle) => {
        for (let round = 0; round < 20; round++) {
          const { item } = await q.add(round)
          if (round % 2 === 0) {
            await q.cancel(item.id)
            closed++
          }
          if (handle === 0) removed += await q.cleanup({ maxAgeMs: 0 })
        }
      }),
    )
    removed += await first(queues).cleanup({ maxAgeMs: 0 })

    expect(removed).toBe(closed)
    expect(await first(queues).stats()).toMatchObject({ total: 10 * handleCount, pending: 10 * handleCount })
  })

  test('workers of several handles process everything, and nothing twice [F-08]', async () => {
    const queues = newQueue()
    const { ids } = await first(queues).addMany(
      Array.from({ length: 200 }, (_, number) => ({ payload: number })),
    )
    const processed: string[] = []
    let finish = () => {}
    const all = new Promise<void>((resolve) => (finish = resolve))

    const workers = handles.map((hf) =>
      hf.work(
        first(queues).name,
        (item) => {
          processed.push(item.id)
          if (processed.length >= 200) finish()
        },
        { concurrency: 5, prefetch: 5 },
      ),
    )
    await all
    await Promise.all(workers.map((worker) => worker.stop()))

    expect(processed.toSorted()).toEqual(ids.toSorted())
    expect(await first(queues).stats()).toMatchObject({ completed: 200, processing: 0, pending: 0 })
  })

  test('a lapsed lock under load gets one new holder [F-09]', async () => {
    const { hf, env, store } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge' })
    for (let number = 1; number <= 5; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
    await q.nextWithLock({ agent: 'crashed', leaseMs: 1_000 })
    const queues = [q, (await store.open()).queue('main'), (await store.open()).queue('main')]
    await env.advance(1_001)

    const claims = await Promise.all(
      queues.flatMap((each, handle) =>
        Array.from({ length: 20 }, (_, number) => each.nextWithLock({ agent: `worker-${handle}-${number}` })),
      ),
    )

    expect(claims.filter(({ outcome }) => outcome === 'claimed')).toHaveLength(1)
    expect(claims.filter(({ outcome }) => outcome === 'held')).toHaveLength(59)
  })

  test('a lock that is extended in time does not lapse under load [F-10]', async () => {
    const { hf, env, store } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge' })
    for (let number = 1; number <= 3; number++) await q.submit(`w${number}`, { headSha: 'abcd' })
    const { item } = await claimed(q.nextWithLock({ agent: 'holder', leaseMs: 1_000 }))
    const rival = (await store.open()).queue('main')

    for (let round = 0; round < 10; round++) {
      await env.advance(900)
      const [, ...attempts] = await Promise.all([
        q.extendLock({ agent: 'holder', extraMs: 900 }),
        ...Array.from({ length: 10 }, (_, number) => rival.nextWithLock({ agent: `rival-${number}` })),
      ])
      expect(new Set(attempts.map(({ outcome }) => outcome))).toEqual(new Set(['held']))
    }

    expect(await q.get(item.id)).toMatchObject({ holder: 'holder', crashes: 0 })
  })

  test('under heavy contention the lock has one holder at a time, work under it never overlaps and everybody is served [F-11] [F-12] [F-14]', async () => {
    const queues = newQueue({ workflow: 'merge' })
    const contenders = 24
    for (let number = 0; number < contenders; number++)
      await first(queues).submit(`w${number}`, { headSha: 'abcd' })
    let inside = 0
    let most = 0
    const served = new Map<string, string | null>()

    await Promise.all(
      Array.from({ length: contenders }, async (_, number) => {
        const q = queues[number % handleCount] ?? first(queues)
        const agent = `worker-${number}`
        for (;;) {
          const claim = await q.nextWithLock({ agent })
          if (claim.outcome !== 'claimed') {
            await new Promise(setImmediate)
            continue
          }
          inside++
          most = Math.max(most, inside)
          served.set(agent, claim.item.key)
          await q.fail(claim.item.id, 'done with', { agent })
          inside--
          expect(await q.releaseProcessingLock({ agent })).toBe(true)
          return
        }
      }),
    )

    expect(most).toBe(1)
    expect(new Set(served.values()).size).toBe(contenders)
  })

  test('priority decides under contention too [F-13]', async () => {
    const queues = newQueue()
    const q = first(queues)
    await q.addMany(Array.from({ length: 60 }, (_, number) => ({ payload: null, priority: number % 3 })))

    const claims = await Promise.all(
      queues.flatMap((each, handle) =>
        Array.from({ length: 5 }, (_, number) => claimed(each.next({ agent: `worker-${handle}-${number}` }))),
      ),
    )

    expect(new Set(claims.map(({ item }) => item.priority))).toEqual(new Set([0]))
  })
})

function first<Thing>(things: readonly Thing[]): Thing {
  return things[0] ?? expect.fail('there is none')
}

/** Another handle may have finished it meanwhile. */
function ignoreFinished(error: unknown): void {
  expect(error).toMatchObject({ code: 'ILLEGAL_MOVE' })
}
