/** Suite B, second half: damage, contention, bounds, and that healing changes nothing else. */
import type { Queue } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { heldMergeStates, walkTo } from '../support/merge.ts'
import { claimed, claimedMany, claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const onClaimOnly = { onOpen: false, everyMs: 0, probeEveryMs: 0 }
const leaseMs = 1_000

forEachEngine((engine) => {
  describe('breakage', () => {
    test('of the store is a typed error after which the handle still works [EP-001] [X4]', async () => {
      const { hf, store } = await engine.open()
      const q = hf.queue('jobs')
      const { item } = await q.add({})
      await q.next({ agent: 'worker-1' })
      const mend = await store.damage.failItems()

      const refused = await refusal(() => q.complete(item.id, { agent: 'worker-1' }))
      const during = await q.get(item.id)
      await mend()
      const after = await q.complete(item.id, { agent: 'worker-1' })

      expect(refused.code).toBe('INTERNAL')
      expect(refused.next).not.toBe('')
      expect(during?.state).toBe('running')
      expect(after.state).toBe('done')
    })

    test('of one command does not fail those committed with it [EP-001]', async () => {
      const { hf, store } = await engine.open()
      const q = hf.queue('jobs')
      const { item } = await q.add({})
      await q.next({ agent: 'worker-1' })
      const mend = await store.damage.failItems()

      const [completed, added] = await Promise.allSettled([
        q.complete(item.id, { agent: 'worker-1' }),
        q.add({ beside: true }),
      ])
      await mend()

      expect([completed.status, added.status]).toEqual(['rejected', 'fulfilled'])
    })

    test('of a lock row heals once its lease has lapsed, and blocks nothing [EP-002] [EC-010]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
      await store.damage.garbleLock('main')

      const before = await q.nextWithLock({ agent: 'worker-2' })
      await env.advance(leaseMs + 1)
      const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(before.outcome).toBe('held')
      expect(item.key).toBe('w1')
    })

    test('of an unreadable item row does not stop other items from healing [EP-002] [Q14]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      const [garbled, sound] = await claimAll(q, 2)
      await store.damage.garble(garbled as string)
      await env.advance(leaseMs + 1)

      const { item } = await claimed(q.next({ agent: 'worker-2' }))

      expect(item.id).toBe(sound)
    })

    test('of start time, holder and lease heals like any lapse [EC-007] [Q14] [Q1]', async () => {
      const { hf, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      const { item } = await q.add({ a: 1 })
      await q.next({ agent: 'worker-1' })
      await store.damage.forgetHolder(item.id)

      const report = await q.detectAndRecoverStale()

      expect(report).toMatchObject({ entriesReclaimed: 1, ids: [item.id] })
      expect(await q.get(item.id)).toMatchObject({ state: 'pending', phase: 'ready', payload: { a: 1 } })
    })

    test('of the owner, now unknown, heals when the lease lapses [Q14]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      const { item } = await q.add({})
      await q.next({ agent: 'worker-1', leaseMs })
      await store.damage.giveToStranger(item.id)
      await env.advance(leaseMs + 1)

      await q.detectAndRecoverStale()

      expect(await q.get(item.id)).toMatchObject({ state: 'pending', phase: 'ready' })
    })

    test('by a close in the middle of healing leaves nothing half done [EP-004]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await claimAll(q, 250)
      await env.advance(leaseMs + 1)
      const leaving = await store.open()

      const advanced = env.advance(200)
      const healing = Promise.allSettled([leaving.recovery.detectAndRecoverStale()])
      await leaving.close()
      await Promise.all([advanced, healing])
      await q.detectAndRecoverStale()

      const { items } = await q.list({ limit: 500 })
      expect(items.map(({ crashes }) => crashes)).toEqual(Array.from({ length: 250 }, () => 1))
    })

    test.each(['forgetMigration', 'loseTable'] as const)(
      'of the schema (%s) is repaired or refused with an explanation at open, not later [EP-005]',
      async (damage) => {
        const { hf, store } = await engine.open()
        await hf.queue('jobs').add({})
        await hf.close()
        await store.damage[damage]()

        const answer = await store.open().then(
          (reopened) => reopened.queue('jobs').add({}),
          (error: unknown) => error,
        )

        if (answer instanceof Error) expect(answer).toMatchObject({ code: 'STORE_UNFIT' })
        else expect(answer).toMatchObject({ totalPending: 2 })
      },
    )
  })

  describe('edges', () => {
    test('a stale lock without items is removed by the next claim [EC-001]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('main', { workflow: 'merge' })
      await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
      await env.advance(leaseMs + 1)

      const claim = await q.nextWithLock({ agent: 'worker-2' })

      expect(claim.outcome).toBe('empty')
      expect(await q.getProcessingLock()).toBeNull()
    })

    test('a lease of 0 ms lapses at the next millisecond [EC-002]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      const { item } = await q.add({})
      await q.next({ agent: 'worker-1', leaseMs: 0 })

      const now = await present(q.get(item.id))
      await env.advance(1)
      const later = await present(q.get(item.id))

      expect([now.holder, later.holder]).toEqual(['worker-1', null])
      expect((await claimed(q.next({ agent: 'worker-2' }))).item.id).toBe(item.id)
    })

    test('one call heals a thousand stale items [EC-003] [Q28] [S5-26]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await claimAll(q, 1_000)
      await env.advance(leaseMs + 1)

      const report = await q.detectAndRecoverStale()

      expect(report.entriesReclaimed).toBe(1_000)
      expect(await q.stats()).toMatchObject({ pending: 1_000, processing: 0 })
    })

    test.each(heldMergeStates)(
      'an item lost while %s heals like any other [EC-004] [Q14] [Q2]',
      async (state) => {
        const { hf, env } = await engine.open({ recovery: onClaimOnly })
        const q = hf.queue('main', { workflow: 'merge' })
        await q.submit('w1', { headSha: 'abcd', bead: 'bd-1' })
        await q.nextWithLock({ agent: 'worker-1', leaseMs })
        await walkTo(q, 'w1', state, { agent: 'worker-1' })
        await env.advance(leaseMs + 1)

        const report = await q.detectAndRecoverStale()

        expect(report).toMatchObject({ entriesReclaimed: 1, locksCleaned: 1, byState: { [state]: 1 } })
        expect(await q.get('w1')).toMatchObject({
          state: 'pending',
          phase: 'ready',
          previousState: state,
          crashes: 1,
          data: { bead: 'bd-1' },
        })
      },
    )

    test('an item lost while merging keeps its journal for the next worker [Q14]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      await q.nextWithLock({ agent: 'worker-1', leaseMs })
      await walkTo(q, 'w1', 'merging', { agent: 'worker-1' })
      await env.advance(leaseMs + 1)

      const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(item.data).toMatchObject({ journal: { landingAs: 'beef01' } })
    })

    test('healing during other workers’ claims harms neither [EC-005]', async () => {
      const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      const stale = await claimAll(q, 10)
      const fresh = (await q.addMany(Array.from({ length: 10 }, () => ({ payload: null })))).ids
      const other = (await store.open({ recovery: onClaimOnly })).queue('jobs')
      await env.advance(leaseMs + 1)

      const [items] = await Promise.all([
        Promise.all(
          Array.from({ length: 20 }, (_, worker) => claimed(q.next({ agent: `worker-${worker}` }))),
        ),
        other.detectAndRecoverStale(),
        other.detectAndRecoverStale(),
      ])

      expect(new Set(items.map(({ item }) => item.id))).toEqual(new Set([...stale, ...fresh]))
    })

    test('claims and healing proceed as soon as other writers let them [EC-008]', async () => {
      const { hf, env, store } = await engine.open({ background: false })
      const q = hf.queue('jobs')
      await claimAll(q, 1)
      await env.advance(leaseMs + 1)
      const letGo = await store.damage.holdUpWriters()
      const claims = Array.from({ length: 50 }, (_, worker) => q.next({ agent: `worker-${worker}` }))
      const healing = q.detectAndRecoverStale()

      await env.advance(100)
      await letGo()
      await env.advance(2_000)

      const outcomes = (await Promise.all(claims)).map(({ outcome }) => outcome)
      expect(outcomes.filter((outcome) => outcome === 'claimed')).toHaveLength(1)
      expect((await healing).entriesReclaimed).toBe(0)
    })

    test('a writer blocked for longer than it may wait gets BUSY, and nothing has changed [EC-008]', async () => {
      const { hf, store } = await engine.openInRealTime({ background: false, busyTimeoutMs: 100 })
      const q = hf.queue('jobs')
      await q.add({})
      const letGo = await store.damage.holdUpWriters()

      const code = await refusalCode(() => q.next({ agent: 'worker-1' }))
      await letGo()

      expect(code).toBe('BUSY')
      expect(await q.stats()).toMatchObject({ pending: 1, processing: 0 })
    })

    test('claims made in the same millisecond are all reclaimed [EC-009]', async () => {
      const { hf, env } = await engine.open({ recovery: onClaimOnly })
      const q = hf.queue('jobs')
      await q.addMany(Array.from({ length: 7 }, () => ({ payload: null })))
      await Promise.all(
        Array.from({ length: 7 }, (_, worker) => q.next({ agent: `worker-${worker}`, leaseMs })),
      )
      await env.advance(leaseMs + 1)

      const { entriesReclaimed } = await q.detectAndRecoverStale()

      expect(entriesReclaimed).toBe(7)
    })
  })

  describe('with healing on and off', () => {
    test('reclaimStale keeps its meaning [CV-002]', async () => {
      expect(await onAndOff(engine, reclaims)).toEqual([
        [0, 1, 0],
        [0, 1, 0],
      ])
    })

    test('acquiring the lock means the same [CV-003] [Q7]', async () => {
      const [on, off] = await onAndOff(engine, acquisitions)

      expect(on).toEqual(['acquired', 'held', 'acquired', 'held', 'acquired'])
      expect(off).toEqual(on)
    })

    test('a release by another agent returns false and its extension is refused [CV-004] [CV-005]', async () => {
      const [on, off] = await onAndOff(engine, strangersActs)

      expect(on).toEqual([false, 'LEASE_LOST', 'LEASE_LOST', true])
      expect(off).toEqual(on)
    })

    test('the tables are the same [CV-006]', async () => {
      const [on, off] = await Promise.all(
        [true, false].map(async (recovery) => {
          const { hf, env, store } = await engine.open({ recovery })
          await claimAll(hf.queue('jobs'), 1)
          await env.advance(leaseMs + 5_001)
          return store.damage.describeSchema()
        }),
      )

      expect(on).toContain('create')
      expect(off).toBe(on)
    })

    test('every mistake has the same code [CV-010] [X4]', async () => {
      const [on, off] = await onAndOff(engine, mistakes)

      expect(on).toEqual(['NOT_FOUND', 'ILLEGAL_MOVE', 'DUPLICATE', 'INVALID', 'HELD', 'LEASE_LOST'])
      expect(off).toEqual(on)
    })
  })

  test('a reader sees a recovery whole or not at all [CV-007]', async () => {
    const { hf, env, store } = await engine.open({ recovery: onClaimOnly })
    const q = hf.queue('jobs')
    const reader = (await store.open({ recovery: onClaimOnly })).queue('jobs')
    await claimAll(q, 50)
    await env.advance(leaseMs + 1)

    let isDone = false
    const seen = new Set([(await reader.stats()).processing])
    const healing = q.detectAndRecoverStale().then(() => {
      isDone = true
    })
    while (!isDone) {
      seen.add((await reader.stats()).processing)
      await new Promise(setImmediate)
    }
    await healing
    seen.add((await reader.stats()).processing)

    expect([...seen].toSorted((left, right) => left - right)).toEqual([0, 50])
  })

  test('claims that heal first need no extra transaction while nothing is stale [CV-009] [Q28] [S5-26]', async () => {
    const [on, off] = [await countClaims(engine, onClaimOnly), await countClaims(engine, false)]

    expect(on).toEqual(off)
    expect(on['recovery.begun']).toBeUndefined()
  })
})

/** How often each point was reached by twenty claims with nothing to heal. How long they take is measured by the bench. */
async function countClaims(
  engine: Engine,
  recovery: typeof onClaimOnly | false,
): Promise<Record<string, number>> {
  const points: Record<string, number> = {}
  const environment = new MovableEnvironment({
    reached(point) {
      points[point] = (points[point] ?? 0) + 1
    },
  })
  const { hf } = await engine.open({ environment, recovery })
  const q = hf.queue('jobs')
  await q.addMany(Array.from({ length: 20 }, (_, number) => ({ payload: number })))
  for (const point of Object.keys(points)) delete points[point]

  for (let claims = 0; claims < 20; claims++) await claimed(q.next({ agent: 'worker-1' }))
  return points
}

async function claimAll(q: Queue, count: number): Promise<string[]> {
  const { ids } = await q.addMany(Array.from({ length: count }, (_, number) => ({ payload: number })))
  for (let left = count; left > 0; left -= 100)
    await claimedMany(q.claimMany(Math.min(left, 100), { agent: 'worker-0', leaseMs }))
  return ids
}

type Advance = (ms: number) => Promise<void>

async function onAndOff<Result>(engine: Engine, run: (q: Queue, advance: Advance) => Promise<Result>) {
  const results: Result[] = []
  for (const recovery of [true, false]) {
    const { hf, env } = await engine.open({ recovery })
    results.push(await run(hf.queue('main', { workflow: 'merge' }), (ms) => env.advance(ms)))
  }
  return results
}

async function reclaims(q: Queue, advance: Advance): Promise<number[]> {
  await q.submit('w1', { headSha: 'abcd' })
  await q.nextWithLock({ agent: 'worker-1' })
  await advance(leaseMs)
  const thresholds = [leaseMs + 1, leaseMs, leaseMs]
  const counts: number[] = []
  for (const thresholdMs of thresholds) counts.push(await q.reclaimStale({ thresholdMs }))
  return counts
}

async function acquisitions(q: Queue, advance: Advance): Promise<string[]> {
  const acquire = async (agent: string) => (await q.acquireProcessingLock({ agent, leaseMs })).outcome
  const outcomes = [await acquire('worker-1'), await acquire('worker-2'), await acquire('worker-1')]
  await advance(leaseMs)
  outcomes.push(await acquire('worker-2'))
  await advance(1)
  outcomes.push(await acquire('worker-2'))
  return outcomes
}

async function strangersActs(q: Queue): Promise<unknown[]> {
  await q.acquireProcessingLock({ agent: 'worker-1', leaseMs })
  return [
    await q.releaseProcessingLock({ agent: 'worker-2' }),
    await refusalCode(() => q.extendLock({ agent: 'worker-2', extraMs: 1_000 })),
    await refusalCode(() => q.renewLock({ agent: 'worker-2' })),
    await q.releaseProcessingLock({ agent: 'worker-1' }),
  ]
}

async function mistakes(q: Queue): Promise<string[]> {
  await q.submit('w1', { headSha: 'abcd' })
  const codes = [
    await refusalCode(() => q.move('nothing', 'rebasing')),
    await refusalCode(() => q.retry('w1')),
    await refusalCode(() => q.add(null, { key: 'w1' })),
    await refusalCode(() => q.submit('w2', { headSha: 'x' })),
  ]
  const { item } = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
  codes.push(await refusalCode(() => q.fail('w1', 'mine', { agent: 'worker-2' })))
  await q.release('w1', { agent: 'worker-1' })
  codes.push(await refusalCode(() => q.fail('w1', 'late', { token: item.token })))
  return codes
}
