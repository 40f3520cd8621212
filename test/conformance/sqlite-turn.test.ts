/** SQLite refuses a second writer at once, so whoever comes second asks again; a server lets it wait in line. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import type { Holdfast } from 'holdfast'
import { expect, test, vi } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

/** What the file of turns may look like after an accident, as the numbers in it; null: a folder stands in its place. */
const accidents: Record<string, (now: number) => number[] | null> = {
  'a turn of a process that is dead': (now) => [7, now + 20, 0],
  'a turn without an end': () => [7, Number.MAX_VALUE, 0],
  'a place in line of a process that is dead': (now) => [0, 0, 0, 7, now - 1000, now],
  'a place in line until the end of time': () => [0, 0, 0, 7, 0, Number.MAX_VALUE],
  'nothing that is a number': () => [Number.NaN, Number.NaN, Number.NaN],
  'a file that cannot be had': () => null,
}

forEachEngine((engine) => {
  test('a claim that is refused by other writers waits longer each time [HP-015] [F-06] [Q11]', async () => {
    const { hf, env, store } = await engine.open({ background: false })
    const q = hf.queue('jobs')
    await q.add({})
    const timer = vi.spyOn(env, 'timer')
    const letGo = await store.damage.holdUpWriters()
    const claiming = q.next({ agent: 'worker-1' })

    await env.advance(1_000)
    await letGo()
    await env.advance(2_000)

    expect((await claiming).outcome).toBe('claimed')
    const waits = timer.mock.calls.map(([ms]) => ms).slice(0, 4)
    expect(waits.length).toBeGreaterThan(2)
    expect(waits).toEqual(waits.toSorted((left, right) => left - right))
  })

  test('writers that were refused come in the order in which they asked [Q11] [Q12]', async () => {
    const { env, store } = await engine.open({ background: false })
    const handles: Holdfast[] = []
    for (let number = 0; number < 6; number++) handles.push(await store.open({ background: false }))
    const letGo = await store.damage.holdUpWriters()
    const came: number[] = []

    const adding: Promise<unknown>[] = []
    for (const [number, handle] of handles.entries()) {
      const added = handle.queue('jobs').add({ number })
      adding.push(added.then(() => came.push(number)))
      await env.advance(1)
    }
    await env.advance(100)
    await letGo()
    await env.advance(100)

    await Promise.all(adding)
    expect(came).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('a writer that nobody refuses makes no file of turns', async () => {
    const { hf, store } = await engine.open({ background: false })
    const other = await store.open({ background: false })

    await hf.queue('jobs').add({})
    await other.queue('jobs').add({})

    expect(existsSync(`${store.url}-turn`)).toBe(false)
  })

  test.each(Object.entries(accidents))('%s keeps nobody from writing [X6]', async (_, numbersAt) => {
    const { hf, env, store } = await engine.open({ background: false })
    const numbers = numbersAt(env.monotonic())
    if (numbers === null) mkdirSync(`${store.url}-turn`)
    else writeFileSync(`${store.url}-turn`, new Float64Array(numbers))
    const letGo = await store.damage.holdUpWriters()
    const added = vi.fn()

    const adding = hf.queue('jobs').add({}).then(added)
    await env.advance(1)
    await letGo()
    await env.advance(30)

    expect(added).toHaveBeenCalledOnce()
    await adding
  })
})
