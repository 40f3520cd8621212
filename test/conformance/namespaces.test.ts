/** Namespaces of one store know nothing of each other. */
import { expect, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { claimed, claimedWithLock, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('the same queue and key may be open in each, and claims return only their own', async () => {
    const { left, right } = await openTwo(engine)

    await left.queue('jobs').add('left', { key: 'k', dedupeKey: 'd' })
    await right.queue('jobs').add('right', { key: 'k', dedupeKey: 'd' })

    expect((await claimed(left.queue('jobs').next())).item.payload).toBe('left')
    expect((await claimed(right.queue('jobs').next())).item.payload).toBe('right')
    expect((await left.queue('jobs').next()).outcome).toBe('empty')
  })

  test('an item cannot be read, changed or waited for from the other, not even by its id', async () => {
    const { left, right } = await openTwo(engine)
    const { item } = await left.queue('jobs').add(null, { key: 'k' })
    await right.queue('jobs').add(null)
    const foreign = right.queue('jobs')

    expect(await foreign.get(item.id)).toBeNull()
    expect(await foreign.get('k')).toBeNull()
    expect(await foreign.remove(item.id)).toBe(false)
    expect(await foreign.events(item.id)).toEqual([])
    expect(await refusalCode(() => foreign.cancel(item.id))).toBe('NOT_FOUND')
    expect(await refusalCode(() => foreign.add(null, { blockers: [item.id] }))).toBe('NOT_FOUND')
  })

  test('a queue has a separate workflow, limits, pause and lock in each', async () => {
    const { left, right } = await openTwo(engine)
    const merges = left.queue('main', { workflow: 'merge' })
    const jobs = right.queue('main', { workflow: 'job' })
    await merges.submit('w1', { headSha: 'abcd' })
    await jobs.add(null)

    await claimedWithLock(merges.nextWithLock({ agent: 'worker-1' }))
    await jobs.pause()

    expect(await jobs.getProcessingLock()).toBeNull()
    expect(await merges.stats()).toMatchObject({ paused: false, processing: 1 })
    expect((await jobs.next()).outcome).toBe('paused')
  })

  test('an idempotency key is a different key in each', async () => {
    const { left, right } = await openTwo(engine)

    const first = await left.queue('jobs').add(1, { idempotencyKey: 'k' })
    const second = await right.queue('jobs').add(2, { idempotencyKey: 'k' })

    expect([first.item.payload, second.item.payload]).toEqual([1, 2])
  })

  test('each has its own feed of events and its own recovery', async () => {
    const { left, right, env } = await openTwo(engine)
    for (const hf of [left, right]) {
      await hf.queue('jobs').add(null)
      await hf.queue('jobs').next({ agent: 'worker-1', leaseMs: 100 })
    }
    await env.advance(101)

    const report = await left.recovery.detectAndRecoverStale()

    expect(report.entriesReclaimed).toBe(1)
    expect(await right.recovery.getRecoveryStats()).toMatchObject({ entriesReclaimed: 1, lastRun: null })
    const kinds = (events: { kind: string }[]) =>
      events.filter(({ kind }) => kind === 'item.reclaimed').length
    expect([kinds(await readFeed(left)), kinds(await readFeed(right))]).toEqual([1, 0])
  })

  test.each(['', '../up', 'a\nb', ' lead', 'x'.repeat(201)])(
    'a namespace called %j is refused',
    async (namespace) => {
      const { store } = await engine.open()

      expect(await refusalCode(() => store.open({ namespace }))).toBe('INVALID')
    },
  )
})

async function openTwo(engine: Engine) {
  const recovery = { onOpen: false, everyMs: 0, onClaim: false }
  const { hf: left, store, env } = await engine.open({ namespace: 'left', recovery })
  return { left, right: await store.open({ namespace: 'right', recovery }), env, store }
}
