/** A holder that lost its lease and does not know: nothing it does may touch what its successor has. */
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { type HeldMergeState, walkTo } from '../support/merge.ts'
import { claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

const leaseMs = 1_000

/** Every write of a holder, and the state in which the holder of a lease may do it. */
const verbs: Record<string, { from: HeldMergeState; act: (q: Queue) => Promise<unknown> }> = {
  renew: { from: 'claimed', act: (q) => q.renew('w1') },
  progress: { from: 'claimed', act: (q) => q.progress('w1', { done: 1 }) },
  move: { from: 'claimed', act: (q) => q.move('w1', 'rebasing') },
  complete: { from: 'merging', act: (q) => q.complete('w1') },
  fail: { from: 'testing', act: (q) => q.fail('w1', 'tests failed') },
  updateRebaseMetadata: {
    from: 'rebasing',
    act: (q) => q.updateRebaseMetadata('w1', { headSha: 'dead01', testedAgainstSha: 'base02' }),
  },
  returnToRebasing: { from: 'ready_to_merge', act: (q) => q.returnToRebasing('w1', 'base02') },
  beginMerge: { from: 'ready_to_merge', act: (q) => q.beginMerge('w1') },
  completeMerge: { from: 'merging', act: (q) => q.completeMerge('w1', 'dead01') },
  failMerge: { from: 'merging', act: (q) => q.failMerge('w1', 'push refused') },
  renewLock: { from: 'claimed', act: (q) => q.renewLock() },
}

forEachEngine((engine) => {
  describe('after its item was granted again', () => {
    test.each([
      ...Object.entries(verbs).map(([verb, { act }]) => ({ verb, act })),
      { verb: 'extendLock', act: (q: Queue) => q.extendLock({ extraMs: 60_000 }) },
    ])('a late $verb is LEASE_LOST and leaves the successor as it was [Q18] [Z7]', async ({ act }) => {
      const { late, successor } = await succeed(engine)
      const before = await stateOf(successor)

      const code = await refusalCode(() => act(late))

      expect(code).toBe('LEASE_LOST')
      expect(await stateOf(successor)).toEqual(before)
    })

    test.each([
      { verb: 'release', act: (q: Queue) => q.release('w1'), kind: 'item.refused' },
      {
        verb: 'releaseProcessingLock',
        act: (q: Queue) => q.releaseProcessingLock(),
        kind: 'lock.refused',
      },
    ])('a late $verb answers false, changes nothing and is audited [Q8] [Q18]', async ({ act, kind }) => {
      const { late, successor, events } = await succeed(engine)
      const before = await stateOf(successor)

      const released = await act(late)

      expect(released).toBe(false)
      expect(await stateOf(successor)).toEqual(before)
      expect((await events()).at(-1)).toMatchObject({ kind, agent: 'late', version: null, change: null })
    })

    test('the refusal names what was lost, both tokens and who has it now [Q18] [X4]', async () => {
      const { late, lateToken, successor } = await succeed(engine)
      const { token } = await present(successor.get('w1'))

      const refused = await refusal(() => late.complete('w1'))

      expect(refused.facts).toMatchObject({ token: lateToken, currentToken: token, holder: 'successor' })
      expect(token).toBeGreaterThan(lateToken)
    })

    test('a completion is refused even after its successor has finished [Z7]', async () => {
      const { late, successor } = await succeed(engine)
      await walkTo(successor, 'w1', 'merging', {})
      await successor.completeMerge('w1', 'beef02')
      const before = await successor.get('w1')

      const code = await refusalCode(() => late.completeMerge('w1', 'dead01'))

      expect(code).toBe('LEASE_LOST')
      expect(await successor.get('w1')).toEqual(before)
    })
  })

  test.each(Object.entries(verbs))(
    'after a reclaim that nobody followed, a late %s is LEASE_LOST too [Q18]',
    async (_verb, { act }) => {
      const { hf, env, store } = await engine.open({ recovery: false })
      const late = await claimAs(await store.open({ agent: 'late', recovery: false }))
      await env.advance(leaseMs + 1)
      await hf.queue('main').detectAndRecoverStale()
      const before = await stateOf(hf.queue('main'))

      const code = await refusalCode(() => act(late))

      expect(code).toBe('LEASE_LOST')
      expect(await stateOf(hf.queue('main'))).toEqual(before)
    },
  )

  describe('with a lapsed lease that nobody took', () => {
    test.each(Object.entries(verbs))('%s still counts [Q18]', async (_verb, { from, act }) => {
      const { env, store } = await engine.open({ recovery: false })
      const late = await claimAs(await store.open({ agent: 'late', recovery: false }))
      await walkTo(late, 'w1', from, {})
      await env.advance(leaseMs + 1)
      const before = await stateOf(late)

      await act(late)

      expect(await stateOf(late)).not.toEqual(before)
    })

    test.each([
      { verb: 'release', act: (q: Queue) => q.release('w1') },
      { verb: 'releaseProcessingLock', act: (q: Queue) => q.releaseProcessingLock() },
    ])('$verb still counts and answers true [Q8]', async ({ act }) => {
      const { env, store } = await engine.open({ recovery: false })
      const late = await claimAs(await store.open({ agent: 'late', recovery: false }))
      await env.advance(leaseMs + 1)

      expect(await act(late)).toBe(true)
    })

    test('a completion is marked as late in the audit [Q18]', async () => {
      const { env, store } = await engine.open({ recovery: false })
      const late = await claimAs(await store.open({ agent: 'late', recovery: false }))
      await walkTo(late, 'w1', 'merging', {})
      await env.advance(leaseMs + 1)

      await late.completeMerge('w1', 'beef02')

      expect((await late.events('w1')).at(-1)).toMatchObject({ kind: 'item.merged', detail: { late: true } })
    })

    test('only extendLock is refused [Q9] [Z6]', async () => {
      const { env, store } = await engine.open({ recovery: false })
      const late = await claimAs(await store.open({ agent: 'late', recovery: false }))
      await env.advance(leaseMs + 1)
      const before = await stateOf(late)

      const code = await refusalCode(() => late.extendLock({ extraMs: 60_000 }))

      expect(code).toBe('LEASE_LOST')
      expect(await stateOf(late)).toEqual(before)
    })
  })

  describe('tokens', () => {
    test('of one item increase with every grant, even within one millisecond [Q18]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs')
      await q.add({}, { key: 'w1' })
      const tokens: number[] = []
      for (let round = 0; round < 5; round++) {
        const claim = await q.next({ agent: `worker-${round}` })
        if (claim.outcome === 'claimed') tokens.push(claim.item.token)
        await q.release('w1', { agent: `worker-${round}` })
      }

      expect(new Set(tokens).size).toBe(5)
      expect(tokens).toEqual(tokens.toSorted((left, right) => left - right))
    })

    test('of the processing lock increase across releases within one millisecond [Q7]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      const tokens: number[] = []
      for (let round = 0; round < 5; round++) {
        const agent = `worker-${round}`
        const acquired = await q.acquireProcessingLock({ agent })
        if (acquired.outcome === 'acquired') tokens.push(acquired.lock.lease.token)
        await q.releaseProcessingLock({ agent })
      }

      expect(new Set(tokens).size).toBe(5)
      expect(tokens).toEqual(tokens.toSorted((left, right) => left - right))
    })

    test('of a workspace increase across the removal of its item [Q18] [Q26]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
      await q.remove('w1', { force: true })
      await q.releaseProcessingLock({ agent: 'worker-1' })
      await q.submit('w1', { headSha: 'abcd' })

      const second = await claimedWithLock(q.nextWithLock({ agent: 'worker-2' }))

      expect(second.item.token).toBeGreaterThan(first.item.token)
    })

    test('of a resubmitted item continue from those of its first life [Q4] [Q18]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await q.submit('w1', { headSha: 'abcd' })
      const first = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
      await q.fail('w1', 'no', { agent: 'worker-1' })
      await q.submit('w1', { headSha: 'abcd' })

      const second = await claimedWithLock(q.nextWithLock({ agent: 'worker-1' }))
      const code = await refusalCode(() => q.fail('w1', 'late', { token: first.item.token }))

      expect(second.item.token).toBeGreaterThan(first.item.token)
      expect(code).toBe('LEASE_LOST')
    })
  })
})

type Handle = Awaited<ReturnType<Engine['open']>>['hf']

/** A manual lease on w1 with its lock: nobody renews it, as with a process that froze. */
async function claimAs(hf: Handle): Promise<Queue> {
  const q = hf.queue('main', { workflow: 'merge' })
  await q.submit('w1', { headSha: 'abcd' })
  await claimedWithLock(q.nextWithLock({ renew: false, leaseMs }))
  return q
}

/** The late holder's lease lapsed, its item was reclaimed and granted to a successor. */
async function succeed(engine: Engine) {
  const { hf, env, store } = await engine.open({ agent: 'successor' })
  const late = await claimAs(await store.open({ agent: 'late' }))
  const { token: lateToken } = await present(late.get('w1'))
  await env.advance(leaseMs + 1)
  const successor = hf.queue('main', { workflow: 'merge' })
  await claimedWithLock(successor.nextWithLock({ renew: false }))
  const events = async () => {
    const seen = []
    const all = new AbortController()
    for await (const event of hf.events({ signal: all.signal })) {
      seen.push(event)
      if (event.kind.endsWith('.refused')) all.abort()
    }
    return seen
  }
  return { late, lateToken, successor, events }
}

async function stateOf(q: Queue) {
  return { item: await q.get('w1'), lock: await q.getProcessingLock() }
}
