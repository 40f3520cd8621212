/** A store that could not be written for a while: leases that lapsed in the meantime count as no crash. */
import { expect, test } from 'vitest'
import { claimed, present } from '../support/outcomes.ts'
import { machine } from '../support/processes.ts'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test.each([
    ['that lapsed while others could write is blamed', false, 1],
    ['that lapsed while nobody could write is not blamed', true, 0],
  ])('an item %s [S5-1]', async (_, isHeldUp, crashes) => {
    const { env, store } = await engine.open({ background: false })
    const host = machine(env)
    const holder = await store.open({ agent: 'holder', environment: host.process(101), leaseMs: 3_000 })
    const healer = await store.open({ agent: 'healer', environment: host.process(102) })
    const { item } = await healer.queue('jobs').add(null)
    await claimed(holder.queue('jobs').next())
    host.freeze(101)

    const letGo = isHeldUp ? await store.damage.holdUpWriters() : async () => {}
    await env.advance(12_000)
    await letGo()
    await env.advance(12_000)

    expect(await present(healer.queue('jobs').get(item.id))).toMatchObject({ phase: 'ready', crashes })
  })
})
