/** SQLite refuses a second writer at once, so it has to retry; a server lets it wait in line. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import type { Holdfast } from 'holdfast'
import { expect, test, vi } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'
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
  test('a claim that other writers refuse waits longer each time [HP-015] [F-06] [Q11]', async () => {
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

  test('refused writers go in the order they asked [Q11] [Q12]', async () => {
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

  test('a writer that is never refused creates no turn file', async () => {
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

  test('a writer waits while others take turns, longer than it would wait for a single one [S5e-6]', async () => {
    const { hf, env, store } = await engine.open({ background: false, busyTimeoutMs: 200, patienceMs: 2_000 })
    const others = new Crowd(store.url)
    const added = vi.fn()

    const adding = hf.queue('jobs').add({}).then(added)
    for (let turn = 0; turn < 12; turn++) {
      await env.advance(50)
      others.goOn()
    }
    others.leave()
    await env.advance(50)

    await adding
    expect(added).toHaveBeenCalledOnce()
  })

  test('a writer that never gets in gives up when its patience ends, and says why [S5e-6]', async () => {
    const { hf, env, store } = await engine.open({ background: false, busyTimeoutMs: 200, patienceMs: 2_000 })
    const others = new Crowd(store.url)
    const refused = refusal(() => hf.queue('jobs').add({}))

    for (let turn = 0; turn < 45; turn++) {
      await env.advance(50)
      others.goOn()
    }

    const error = await refused
    others.leave()
    expect(error).toMatchObject({ code: 'BUSY', facts: { timeoutMs: 2_000 } })
    expect(error.message).toContain('other processes kept writing')
  })

  test('one that stops in the middle of a crowd may block others no longer than any other [S5e-6]', async () => {
    const { hf, env, store } = await engine.open({ background: false, busyTimeoutMs: 200, patienceMs: 2_000 })
    const others = new Crowd(store.url)
    const refused = vi.fn()
    const refusing = refusal(() => hf.queue('jobs').add({})).then(refused)

    await env.advance(50)
    others.goOn()
    await env.advance(190)
    const early = refused.mock.calls.length
    await env.advance(60)
    const inTime = refused.mock.calls.length
    others.leave()
    await env.advance(2_000)
    await refusing

    expect([early, inTime]).toEqual([0, 1])
    expect(refused.mock.calls[0]?.[0]).toMatchObject({ code: 'BUSY', facts: { timeoutMs: 200 } })
  })

  test.each([
    ['its patience, if that is longer than what one may take', { busyTimeoutMs: 400, patienceMs: 600 }, 600],
    ['what one may take, if that is longer than its patience', { busyTimeoutMs: 600, patienceMs: 0 }, 600],
  ])('a crowd is waited for as long as %s [S5e-6]', async (_, options, limitMs) => {
    const { hf, env, store } = await engine.open({ background: false, ...options })
    const others = new Crowd(store.url)
    const refused = vi.fn()
    const refusing = refusal(() => hf.queue('jobs').add({})).then(refused)

    for (let waitedMs = 0; waitedMs < limitMs - 50; waitedMs += 50) {
      await env.advance(50)
      others.goOn()
    }
    const early = refused.mock.calls.length
    for (let turn = 0; turn < 3; turn++) {
      await env.advance(50)
      others.goOn()
    }
    const inTime = refused.mock.calls.length
    others.leave()
    await env.advance(2_000)
    await refusing

    expect([early, inTime]).toEqual([0, 1])
    const error = refused.mock.calls[0]?.[0]
    expect(error).toMatchObject({ code: 'BUSY', facts: { timeoutMs: limitMs } })
    expect(error.message).toContain('other processes kept writing')
  })

  test('a crowd that comes just before the thread for leases starts does not fail open() [S5e-6]', async () => {
    const { store } = await engine.openInRealTime({ background: false })
    const joined = openRaw(store.url)
    const instances = joined.prepare('select id from instance')
    const before = instances.all().length
    let others: Crowd | null = null
    let turns = 0
    const coming = setInterval(() => {
      const isCrowded = others !== null || instances.all().length > before
      if (!isCrowded) return
      others ??= new Crowd(store.url)
      if (turns++ % 50 === 0) others.goOn()
      if (turns > 600) {
        clearInterval(coming)
        others.leave()
      }
    }, 1)

    const hf = await store.open({ busyTimeoutMs: 300, patienceMs: 20_000 })

    expect(turns).toBeGreaterThan(0)
    await hf.close()
    clearInterval(coming)
    joined.close()
  })
})

/** Other processes that write one after the other and leave no gap. */
class Crowd {
  readonly #database

  constructor(path: string) {
    this.#database = openRaw(path)
    this.#database.exec('begin immediate')
  }

  goOn(): void {
    const [row] = this.#database.prepare('pragma user_version').all() as { user_version: number }[]
    this.#database.exec(`pragma user_version = ${row?.user_version}; commit; begin immediate`)
  }

  leave(): void {
    this.#database.exec('rollback')
    this.#database.close()
  }
}
