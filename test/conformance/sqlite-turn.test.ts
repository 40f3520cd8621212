/** SQLite refuses a second writer at once, so whoever comes second asks again; a server lets it wait in line. */
import { expect, test, vi } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

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
})
