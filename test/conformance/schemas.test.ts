/** Queues and documents with a schema: what is stored, what is returned, and what happens to values that do not fit. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Workflow } from 'holdfast'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { claimed, claimedMany, claimedWithLock, present, refusal, refusalCode } from '../support/outcomes.ts'
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
    done: { closed: 'succeeded', moves: [] },
  },
}

forEachEngine((engine) => {
  test('nextWithLock with a lease length skips items that do not fit and leaves no lock behind [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])

    const claim = await q.nextWithLock({ leaseMs: 60_000 })

    expect(claim.outcome).toBe('empty')
    expect(await q.get('w0')).toMatchObject({ state: 'failed_terminal' })
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('nextWithLock for another agent with a lease length releases its lock too [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])

    const claim = await q.nextWithLock({ agent: 'bob', leaseMs: 60_000 })

    expect(claim.outcome).toBe('empty')
    expect(await q.getProcessingLock()).toBeNull()
  })

  test('a lock taken for an item that does not fit is not kept if the store then fails [S5c-4]', async () => {
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

  test('an item that does not fit and cannot fail is skipped under the lock too [S5c-4]', async () => {
    const { hf } = await engine.open()
    await hf.queue('main', { workflow: unfailing }).addMany([{ payload: 1 }, { payload: 'fit' }])
    const q = hf.queue('main', { schema: z.string() })

    const { item, lock } = await claimedWithLock(q.nextWithLock())

    expect(item.payload).toBe('fit')
    expect(lock).toMatchObject({ item: item.id })
  })

  test.each(['next', 'nextWithLock'] as const)(
    '%s under an idempotency key claims items that fit, behind those that do not [S5c-4]',
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

  test('claimMany under an idempotency key returns items that fit, each time, until none of them is held [S5c-4]', async () => {
    const { q } = await openJobs(engine, ['unfit', 'fit', 'unfit', 'fit', 'fit'])
    const options = { idempotencyKey: 'k1' }

    const first = await claimedMany(q.claimMany(4, options))
    const again = await claimedMany(q.claimMany(4, options))
    await q.complete(first[0]?.id as string)
    const left = await claimedMany(q.claimMany(4, options))
    await q.complete(first[1]?.id as string)
    const late = await refusalCode(() => q.claimMany(4, options))

    const namesOf = (items: typeof first) => items.map(({ id, token }) => [id, token])
    expect(first.map(({ payload }) => payload)).toEqual(['fit', 'fit'])
    expect(namesOf(again)).toEqual(namesOf(first))
    expect(namesOf(left)).toEqual(namesOf(first).slice(1))
    expect(late).toBe('LEASE_LOST')
    expect(await q.stats()).toMatchObject({ pending: 1, failed: 2 })
  })

  test('claimMany continues behind items that do not fit, even under an idempotency key [S5c-4]', async () => {
    const { q } = await openJobs(engine, ['unfit', 'unfit', 'unfit', 'fit', 'fit'])
    const options = { idempotencyKey: 'k1' }

    const first = await claimedMany(q.claimMany(2, options))
    const again = await claimedMany(q.claimMany(2, options))

    expect(first.map(({ payload }) => payload)).toEqual(['fit'])
    expect(again.map(({ id }) => id)).toEqual(first.map(({ id }) => id))
    expect(await q.stats()).toMatchObject({ pending: 1, failed: 3, processing: 1 })
  })

  test('a claim under an idempotency key that found nothing suitable finds nothing again [S5c-4]', async () => {
    const { q } = await openMerge(engine, ['unfit'])
    const options = { idempotencyKey: 'k' }

    const first = await q.next(options)
    await q.submit('w9', { headSha: 'abcd', payload: 'fit' })
    const again = await q.next(options)

    expect([first.outcome, again.outcome]).toEqual(['empty', 'empty'])
  })

  describe('a schema whose output differs from its input', () => {
    const schema = z.object({ at: z.coerce.date(), tries: z.string().transform(Number).default(1) })
    const given = { at: new Date(0), tries: '5' }
    const stored = { at: '1970-01-01T00:00:00.000Z', tries: '5' }
    const made = { at: new Date(0), tries: 5 }

    test('stores the input in the queue, and claims get the output [S5c-5]', async () => {
      const { hf, env } = await engine.open()
      const q = hf.queue('jobs', { schema })

      const { item } = await q.add(given)
      await q.addMany([{ payload: given }, { payload: given }])
      await q.submit('w1', { headSha: 'abcd', payload: given })
      const shown = [
        item,
        await present(q.peek()),
        await present(q.get('w1')),
        ...(await q.list()).items,
      ].map(({ payload }) => payload)
      const [created] = await q.events(item.id)
      const { item: first } = await claimed(q.next())
      const [second] = await claimedMany(q.claimMany(1))
      const seen: unknown[] = []
      const worker = hf.work(q, ({ payload }) => void seen.push(payload))
      await env.advance(100)
      await worker.stop()

      expect(shown).toEqual(shown.map(() => stored))
      expect(JSON.parse(created?.change?.payload as string)).toEqual(stored)
      expect([first.payload, second?.payload, ...seen]).toEqual([made, made, made, made])
    })

    test('stores the input in a document, and reads get the output [S5c-5]', async () => {
      const { hf } = await engine.open()
      const plan = hf.state('plan', { schema })

      await plan.set(given)
      const entry = await present(plan.get())
      const watched = (await plan.watch().next()).value
      const update = await plan.update((value) => {
        expect(value).toEqual(made)
        return { at: value?.at, tries: '6' }
      })

      expect([entry.value, watched?.value]).toEqual([made, made])
      expect(update).toMatchObject({ outcome: 'saved', value: { at: new Date(0), tries: 6 } })
      expect((await plan.history()).entries.map(({ value }) => value)).toEqual([
        { ...stored, tries: '6' },
        stored,
      ])
    })

    test('does not store what only the schema adds [S5c-5]', async () => {
      const { hf } = await engine.open()
      const q = hf.queue('jobs', { schema })

      const { item } = await q.add({ at: new Date(0) })

      expect(item.payload).toEqual({ at: stored.at })
      expect((await claimed(q.next())).item.payload).toEqual({ ...made, tries: 1 })
    })
  })

  test('an asynchronous schema that uses the store itself is awaited before the command [S5c-5]', async () => {
    const { hf } = await engine.open()
    const log = hf.queue<unknown>('log')
    const validate = async (value: unknown) => {
      await log.add(value)
      return value === 'unfit' ? { issues: [{ message: 'unfit' }] } : { value: String(value) }
    }
    // Not one of zod: those are tried without waiting first, and so check twice.
    const schema: StandardSchemaV1<string> = { '~standard': { version: 1, vendor: 'test', validate } }
    const q = hf.queue('jobs', { schema })
    const plan = hf.state('plan', { schema })
    const checks = async () => (await log.stats()).pending

    await q.add('one')
    await q.addMany([{ payload: 'two' }])
    await q.submit('w1', { headSha: 'abcd', payload: 'three' })
    await plan.set('four')
    const added = await checks()
    const codes = [await refusalCode(() => q.add('unfit')), await refusalCode(() => plan.set('unfit'))]
    const { item } = await claimed(q.next())
    const rest = await claimedMany(q.claimMany(2))
    const read = await present(plan.get())

    expect(added).toBe(4)
    expect(codes).toEqual(['INVALID', 'INVALID'])
    expect([item, ...rest].map(({ payload }) => payload)).toEqual(['one', 'two', 'three'])
    expect(read.value).toBe('four')
    expect(await checks()).toBe(10)
  })

  test('the JSON of a value must fit, because nothing else will ever be read [S5c-5]', async () => {
    const { hf } = await engine.open()
    // The types refuse this schema; a program in plain JavaScript can still give it.
    const schema: z.ZodType<unknown, unknown> = z.object({ at: z.date() })
    const [q, plan] = [hf.queue('jobs', { schema }), hf.state('plan', { schema })]
    const value = { at: new Date(0) }

    const codes = [
      await refusalCode(() => q.add(value)),
      await refusalCode(() => q.addMany([{ payload: value }])),
      await refusalCode(() => q.submit('w1', { headSha: 'abcd', payload: value })),
      await refusalCode(() => plan.set(value)),
      await refusalCode(() => plan.update(() => value)),
    ]

    expect(codes).toEqual(codes.map(() => 'INVALID'))
    expect((await q.list()).items).toEqual([])
    expect(await plan.get()).toBeNull()
  })

  test('the value that was checked is the one stored, even if the object serializes differently each time [S5c-5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue<unknown>('jobs', { schema: z.literal(1) })
    let asked = 0
    const odd = { toJSON: () => ++asked }

    const { item } = await q.add(odd)

    expect(item.payload).toBe(1)
  })

  test('a value that is not JSON is refused with its path, before the schema sees it [S5c-5]', async () => {
    const { hf } = await engine.open()
    let seen = 0
    const schema = z.any().refine(() => ++seen)
    const value = { list: [1, new Map()] }

    const ofQueue = await refusal(() => hf.queue('jobs', { schema }).add(value))
    const ofState = await refusal(() => hf.state('plan', { schema }).set(value))

    for (const { code, message } of [ofQueue, ofState]) {
      expect(code).toBe('INVALID')
      expect(message).toContain('list.1: is of the class Map')
    }
    expect(seen).toBe(0)
  })

  test('a change without a payload is refused if its schema needs one, but may update an open one [S5c-5]', async () => {
    const { hf } = await engine.open()
    const q = hf.queue('main', { workflow: 'merge', schema: z.string() })
    const open = hf.queue('free', { schema: z.string().nullable() })

    const code = await refusalCode(() => q.submit('w1', { headSha: 'abcd' }))
    await q.submit('w1', { headSha: 'abcd', payload: 'text' })
    const moved = await q.submit('w1', { headSha: 'abce' })
    const { item } = await open.submit('w1', { headSha: 'abcd' })

    expect(code).toBe('INVALID')
    expect(moved).toMatchObject({ outcome: 'updated', item: { payload: 'text', data: { headSha: 'abce' } } })
    expect(item.payload).toBeNull()
  })

  test('cleanup accepts any idempotency key [S5c-4]', async () => {
    const { hf } = await engine.open()

    expect(await hf.queue('main').cleanup({ maxAgeMs: 0, idempotencyKey: 'k'.repeat(255) })).toBe(0)
  })
})

async function openJobs(engine: Engine, payloads: readonly string[]) {
  const opened = await engine.open()
  await opened.hf.queue('jobs').addMany(payloads.map((payload) => ({ payload })))
  return { ...opened, q: opened.hf.queue('jobs', { schema: z.literal('fit') as z.ZodType<string> }) }
}

async function openMerge(engine: Engine, payloads: readonly string[]) {
  const opened = await engine.open()
  const any = opened.hf.queue('main', { workflow: 'merge' })
  for (const [index, payload] of payloads.entries())
    await any.submit(`w${index}`, { headSha: 'abcd', payload })
  return { ...opened, q: opened.hf.queue('main', { schema: z.literal('fit') as z.ZodType<string> }) }
}
