/** Queues and documents with a schema: what is stored, what comes out, and what becomes of that which does not fit. */
import type { Workflow } from 'holdfast'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { claimed, claimedWithLock, refusalCode } from '../support/outcomes.ts'
import { type Engine, forEachEngine } from '../support/stores.ts'

/** Its held state knows no failure. */
const unfailing: Workflow = {
  name: 'unfailing',
  initial: 'todo',
  failsRetryably: false,
  retryForgives: false,
  slots: 1,
  states: {
    todo: { claimTo: 'doing', moves: [] },
    doing: { held: true, lostTo: 'todo', moves: ['done'], completeTo: 'done' },
    done: { closed: 'well', moves: [] },
  },
}

forEachEngine((engine) => {
  test('nextWithLock with a lease length passes over what does not fit and leaves no lock behind [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])

    const claim = await q.nextWithLock({ leaseMs: 60_000 })

    expect(claim.outcome).toBe('empty')
    expect(await q.get('w0')).toMatchObject({ state: 'failed_terminal' })
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('nextWithLock for another agent with a lease length gives its lock back, too [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])

    const claim = await q.nextWithLock({ agent: 'bob', leaseMs: 60_000 })

    expect(claim.outcome).toBe('empty')
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('a lock taken for an item that does not fit is not kept when the store then fails [S5c-4]', async () => {
    const { hf, q, store } = await openMerge(engine, ['unfit', 'fit'])
    let mend = async () => {}
    const breaks = z.custom().refine(async () => {
      mend = await store.damage.failItems()
      return false
    })
    const broken = hf.queue('main', { schema: breaks })

    const claiming = await broken.nextWithLock({ leaseMs: 60_000 }).catch((error) => error)
    await mend()

    expect(claiming).toMatchObject({ code: 'INTERNAL' })
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('an item that does not fit and cannot fail is passed over under the lock, too [S5c-4]', async () => {
    const { hf } = await engine.open()
    await hf.queue('main', { workflow: unfailing }).addMany([{ payload: 1 }, { payload: 'fit' }])
    const q = hf.queue('main', { schema: z.string() })

    const { item, lock } = await claimedWithLock(q.nextWithLock())

    expect(item.payload).toBe('fit')
    expect(lock).toMatchObject({ item: item.id })
  })

  test.each(['next', 'nextWithLock'] as const)(
    '%s under an idempotency key claims what fits, behind what does not [S5c-4]',
    async (claim) => {
      const { q } = await openMerge(engine, ['unfit', 'unfit', 'fit'])
      const options = { idempotencyKey: 'k'.repeat(255) }

      const first = await claimed(q[claim](options))
      const again = await claimed(q[claim](options))
      await q.fail(first.item.id, 'over')
      const late = await refusalCode(() => q[claim](options))

      expect(first.item.payload).toBe('fit')
      expect([again.item.id, again.item.token]).toEqual([first.item.id, first.item.token])
      expect(late).toBe('LEASE_LOST')
    },
  )

  test('a claim under an idempotency key that found nothing to fit finds nothing again [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])
    const options = { idempotencyKey: 'k' }

    const first = await q.next(options)
    await q.submit('w9', { headSha: 'abcd', payload: 'fit' })
    const again = await q.next(options)

    expect([first.outcome, again.outcome]).toEqual(['empty', 'empty'])
  })

  test('cleanup takes any idempotency key [S5c-4]', async () => {
    const { hf } = await engine.open()

    expect(await hf.queue('main').cleanup({ maxAgeMs: 0, idempotencyKey: 'k'.repeat(255) })).toBe(0)
  })
})

async function openMerge(engine: Engine, payloads: readonly string[]) {
  const opened = await engine.open()
  const any = opened.hf.queue('main', { workflow: 'merge' })
  for (const [index, payload] of payloads.entries())
    await any.submit(`w${index}`, { headSha: 'abcd', payload })
  return { ...opened, q: opened.hf.queue('main', { schema: z.literal('fit') as z.ZodType<string> }) }
}
