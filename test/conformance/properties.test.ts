/** Suite E: what holds for all histories, on a real store. */
import fc from 'fast-check'
import type { Queue } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { merges, type Step, step } from '../support/history.ts'
import { type HeldMergeState, heldMergeStates, walkTo } from '../support/merge.ts'
import { claimedMany, present, refusal } from '../support/outcomes.ts'
import { runs } from '../support/random.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** Where `move` may lead, as documented. Claiming, retrying and returning are acts of their own. */
const documentedMoves: Record<string, readonly string[]> = {
  pending: ['cancelled'],
  claimed: ['pending', 'rebasing', 'failed_retryable', 'failed_terminal', 'cancelled'],
  rebasing: ['testing', 'failed_retryable', 'failed_terminal', 'cancelled'],
  testing: ['ready_to_merge', 'failed_retryable', 'failed_terminal', 'cancelled'],
  ready_to_merge: ['merging', 'failed_retryable', 'failed_terminal', 'cancelled'],
  merging: ['merged', 'failed_retryable', 'failed_terminal'],
  failed_retryable: ['cancelled'],
  merged: [],
  failed_terminal: [],
  cancelled: [],
}
const states = Object.keys(documentedMoves)
const closedStates = ['merged', 'failed_terminal', 'cancelled']

forEachEngine((engine) => {
  test('in every history the lock has one holder, claims follow the order, closed items never change and all reads agree [E-01] [E-03] [E-05] [E-18] [E-20] [E-21]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const history = await merges(engine)
        for (const each of steps) await history.take(each)
      }),
      runs(12),
    )
  })

  test('the same history gives the same result [E-12]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
        const [first, second] = [await replayOn(engine, steps), await replayOn(engine, steps)]
        expect(second).toEqual(first)
      }),
      runs(6),
    )
  })

  test('of concurrent claimers, exactly one wins each item [E-02] [E-04]', async () => {
    const numbers = fc.record({
      items: fc.nat(25),
      claimers: fc.nat(25),
      handles: fc.integer({ min: 1, max: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(numbers, async ({ items, claimers, handles }) => {
        const { hf, store } = await engine.open()
        const queues = [hf.queue('jobs')]
        while (queues.length < handles) queues.push((await store.open()).queue('jobs'))
        if (items > 0)
          await hf.queue('jobs').addMany(Array.from({ length: items }, (_, n) => ({ payload: n })))

        const claims = await Promise.all(
          Array.from({ length: claimers }, (_, n) => queues[n % handles]?.next({ agent: `worker-${n}` })),
        )

        const won = claims.flatMap((claim) => (claim?.outcome === 'claimed' ? [claim.item.payload] : []))
        expect(won.toSorted((left, right) => Number(left) - Number(right))).toEqual(
          Array.from({ length: Math.min(items, claimers) }, (_, n) => n),
        )
      }),
      runs(8),
    )
  })

  test('claims follow priority, and equal priorities keep their order [E-03] [E-04]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 10 }), { maxLength: 60 }), async (priorities) => {
        const { hf } = await engine.open()
        const q = hf.queue('jobs')
        for (const [index, priority] of priorities.entries()) await q.add(index, { priority })

        const served =
          priorities.length === 0 ? [] : await claimedMany(q.claimMany(100, { agent: 'worker-1' }))

        const expected = priorities.map((priority, index) => ({ priority, index }))
        expected.sort((left, right) => left.priority - right.priority || left.index - right.index)
        expect(served.map(({ payload }) => payload)).toEqual(expected.map(({ index }) => index))
      }),
      runs(6),
    )
  })

  test('many items are added all or none [E-19]', async () => {
    const batch = fc.record({ good: fc.integer({ min: 1, max: 30 }), badAt: fc.option(fc.nat(30)) })
    await fc.assert(
      fc.asyncProperty(batch, async ({ good, badAt }) => {
        const { hf } = await engine.open()
        const q = hf.queue('jobs')
        const items: { payload: unknown; priority?: number }[] = Array.from({ length: good }, () => ({
          payload: 1,
        }))
        if (badAt !== null) items.splice(badAt, 0, { payload: 1, priority: 0.5 })

        await q.addMany(items).catch(() => {})

        expect((await q.list({ limit: 500 })).items).toHaveLength(badAt === null ? good : 0)
      }),
      runs(6),
    )
  })

  describe.each(states)('from %s', (from) => {
    test('every documented move succeeds, every other is refused naming both states, and moving to the same state changes nothing [E-06] [E-11] [E-15] [E-16] [E-17]', async () => {
      const { hf, store } = await engine.open()
      const other = await store.open()

      for (const to of states) {
        const q = hf.queue(`to ${to}`, { workflow: 'merge' })
        const reader = other.queue(`to ${to}`)
        const token = await bring(q, 'w1', from)
        const before = await present(reader.get('w1'))
        const options = token === null ? {} : { agent: 'worker-1', token }
        const isAllowed = to === from || documentedMoves[from]?.includes(to)

        if (isAllowed) await q.move('w1', to, options)
        else {
          const refused = await refusal(() => q.move('w1', to, options))
          expect(refused).toMatchObject({ code: 'ILLEGAL_MOVE', facts: { from, to } })
        }

        const after = await present(reader.get('w1'))
        expect(after.state).toBe(isAllowed ? to : from)
        if (after.state === from) expect(after).toEqual(before)
      }
    })
  })

  test.each(closedStates)(
    'what is %s stays as it is, whatever is tried [E-07] [E-08] [E-09] [E-10] [E-14]',
    async (state) => {
      const { hf, env } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      await bring(q, 'w1', state)
      const before = await present(q.get('w1'))
      const as = { agent: 'worker-1', token: before.token }

      const acts: (() => Promise<unknown>)[] = [
        () => q.retry('w1'),
        () => q.cancel('w1'),
        () => q.fail('w1', 'no', as),
        () => q.beginMerge('w1', as),
        () => q.returnToRebasing('w1', 'base02', as),
        () => q.failMerge('w1', 'no', as),
        () => q.release('w1', as),
        () => q.progress('w1', 1, as),
        () => q.setPriority('w1', 1),
      ]
      for (const act of acts) await act().catch(() => {})
      await q.reclaimStale({ thresholdMs: 0 })
      await env.advance(310_000)

      expect(await q.get('w1')).toEqual(before)
      expect(before.phase).toBe('closed')
    },
  )

  test.each(states.filter((state) => !closedStates.includes(state)))(
    'what is %s can be brought to an end [E-13] [E-14]',
    async (state) => {
      const { hf } = await engine.open()
      const q = hf.queue('main', { workflow: 'merge' })
      const token = await bring(q, 'w1', state)
      expect((await present(q.get('w1'))).phase).not.toBe('closed')

      const ended =
        token === null ? await q.cancel('w1') : await q.fail('w1', 'no', { agent: 'worker-1', token })

      expect(ended.phase).toBe('closed')
    },
  )
})

async function replayOn(engine: Engine, steps: readonly Step[]): Promise<unknown> {
  const history = await merges(engine)
  const answers: string[] = []
  for (const each of steps) answers.push(await history.take(each))
  return { answers, end: await history.describe() }
}

/** A change under this key in the wanted state; answers the token of its holder, null when nobody holds it. */
async function bring(q: Queue, key: string, state: string): Promise<number | null> {
  await q.submit(key, { headSha: 'abcd', priority: 0 })
  if (state === 'pending') return null
  if (state === 'cancelled') {
    await q.cancel(key)
    return null
  }
  const claim = await q.nextWithLock({ agent: 'worker-1' })
  if (claim.outcome !== 'claimed' || claim.item.key !== key) expect.fail(`${key} was to be claimed`)
  const holder = { agent: 'worker-1', token: claim.item.token }
  if ((heldMergeStates as readonly string[]).includes(state)) {
    await walkTo(q, key, state as HeldMergeState, holder)
    return claim.item.token
  }
  if (state === 'merged') {
    await walkTo(q, key, 'merging', holder)
    await q.completeMerge(key, 'beef02', holder)
  } else await q.fail(key, 'no', { ...holder, retryable: state === 'failed_retryable' })
  return null
}
