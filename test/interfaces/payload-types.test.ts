/**
 * Payloads and documents have two types: what a schema accepts, which is stored as JSON, and what the schema makes of
 * it. tsc checks this file, and refuses an expected error that is none. Nothing in it is carried out.
 */
import type { Handler, Holdfast, Queue, QueueItem, State } from 'holdfast'
import { expectTypeOf, test } from 'vitest'
import * as z from 'zod'

/** Compiled, never called. */
function compiled(_calls: (hf: Holdfast) => unknown): void {}

const schema = z.object({
  url: z.string(),
  retries: z.int().default(3),
  at: z.iso.datetime().transform((text) => new Date(text)),
})
type Input = { url: string; retries?: number | undefined; at: string }
type Output = { url: string; retries: number; at: Date }

test('add takes the schema’s input; handlers and claims get its output [S6-F1]', () => {
  compiled(async (hf) => {
    const jobs = hf.queue('jobs', { schema })
    expectTypeOf(jobs).toEqualTypeOf<Queue<Input, Output>>()
    const { item } = await jobs.add({ url: 'x', at: '2030-01-01T00:00:00Z' })
    expectTypeOf(item.payload).toEqualTypeOf<Input>()
    await jobs.addMany([{ payload: { url: 'x', at: '2030-01-01T00:00:00Z' } }])
    // @ts-expect-error the schema takes a string
    await jobs.add({ url: 'x', at: new Date() })
    // @ts-expect-error a field is missing
    await jobs.add({ at: '2030-01-01T00:00:00Z' })

    const claim = await jobs.next()
    if (claim.outcome === 'claimed') expectTypeOf(claim.item.payload).toEqualTypeOf<Output>()
    const claims = await jobs.claimMany(2)
    if (claims.outcome === 'claimed')
      expectTypeOf(claims.items[0]?.item).toExtend<QueueItem<Output> | undefined>()
    const worker = hf.work(jobs, ({ payload }) => expectTypeOf(payload).toEqualTypeOf<Output>())
    worker.on('completed', ({ item }) => expectTypeOf(item.payload).toEqualTypeOf<Output>())
    // @ts-expect-error a handler gets the output
    const wrong: Handler<Input> = ({ payload }) => payload.at.getTime()
    return wrong
  })
})

test('calls that only show an item show its payload as stored [S6-F1]', () => {
  compiled(async (hf) => {
    const jobs = hf.queue('jobs', { schema })
    expectTypeOf(await jobs.get('x')).toEqualTypeOf<QueueItem<Input> | null>()
    expectTypeOf(await jobs.peek()).toEqualTypeOf<QueueItem<Input> | null>()
    expectTypeOf((await jobs.list()).items).toEqualTypeOf<QueueItem<Input>[]>()
    expectTypeOf((await jobs.complete('x')).payload).toEqualTypeOf<Input>()
  })
})

test('a queue without a schema returns the type it was given [S6-F1]', () => {
  compiled(async (hf) => {
    expectTypeOf(hf.queue('jobs')).toEqualTypeOf<Queue<unknown, unknown>>()
    expectTypeOf(hf.queue<{ url: string }>('jobs')).toEqualTypeOf<Queue<{ url: string }, { url: string }>>()
    hf.work<{ url: string }>('jobs', ({ payload }) => expectTypeOf(payload).toEqualTypeOf<{ url: string }>())
  })
})

test('a document is saved as input and read as output; update gets one and returns the other [S6-F1]', () => {
  compiled(async (hf) => {
    const state = hf.state('config', { schema })
    expectTypeOf(state).toEqualTypeOf<State<Input, Output>>()
    await state.set({ url: 'x', at: '2030-01-01T00:00:00Z' })
    // @ts-expect-error the schema takes a string
    await state.set({ url: 'x', at: new Date() })
    expectTypeOf((await state.get())?.value).toEqualTypeOf<Output | undefined>()
    for await (const entry of state.watch()) expectTypeOf(entry?.value).toEqualTypeOf<Output | undefined>()
    const updated = await state.update((value) => {
      expectTypeOf(value).toEqualTypeOf<Output | null>()
      return (value && { ...value, at: value.at.toISOString() }) || undefined
    })
    expectTypeOf(updated.value).toEqualTypeOf<Output | null>()
    // @ts-expect-error the output is not the input
    await state.update((value) => value ?? undefined)
  })
})

interface Node {
  readonly name: string
  readonly children: readonly Node[]
}

test('an input that JSON does not return unchanged does not compile [S6-F2]', () => {
  compiled((hf) => {
    // @ts-expect-error a Date comes back as a string
    hf.queue<{ at: Date }>('jobs')
    // @ts-expect-error a schema that takes a Date refuses what was stored
    hf.queue('jobs', { schema: z.object({ at: z.date() }) })
    // @ts-expect-error JSON has no bigint
    hf.queue<bigint>('jobs')
    // @ts-expect-error JSON has no Map
    hf.queue<{ seen: Map<string, number> }>('jobs')
    // @ts-expect-error nor a Set, however deep
    hf.queue<{ list: { seen: Set<string> }[] }>('jobs')
    // @ts-expect-error in one of several forms
    hf.queue<{ at: string } | { at: Date }>('jobs')
    // @ts-expect-error a list would have null where it had undefined
    hf.queue<(string | undefined)[]>('jobs')
    // @ts-expect-error nothing is no payload
    hf.queue<undefined>('jobs')
    // @ts-expect-error a function is lost
    hf.queue<{ run: () => void }>('jobs')
    // @ts-expect-error for a worker too
    hf.work<{ at: Date }>('jobs', () => {})
    // @ts-expect-error and for a document
    hf.state<{ at: Date }>('config')
    // @ts-expect-error and its schema
    hf.state('config', { schema: z.map(z.string(), z.string()) })
  })
})

test('whatever JSON returns unchanged compiles [S6-F2]', () => {
  compiled((hf) => [
    hf.queue<{ a?: string; b: number | undefined; c: readonly [string, null]; d: Record<string, boolean[]> }>(
      'x',
    ),
    hf.queue<'a' | 1 | null>('x'),
    hf.queue<string & { readonly brand: 'id' }>('x'),
    hf.queue<Node>('x'),
    hf.queue<unknown>('x'),
    hf.queue('x', { schema: z.object({ at: z.coerce.date() }) }),
    hf.queue('x', { schema: z.json() }),
    hf.state<Node>('x'),
  ])
})
