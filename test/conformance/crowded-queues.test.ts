/** Many idle workers for few items: each item notifies all of them, and one gets it. */
import { expect, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'
import { neverLooks, whileTimePasses } from '../support/wake.ts'

forEachEngine((engine) => {
  test('a worker that kept losing races takes what is added while it does not listen [S5e-7]', async () => {
    const { env, store, hf: busy } = await engine.open({ agent: 'busy' })
    const environment = { ...neverLooks(env, 600), random: () => 0.99 }
    const late = await store.open({ agent: 'late', environment })
    const completed = late.events({ kinds: ['item.completed'] })
    const taken: unknown[] = []
    late.work('jobs', ({ payload }) => void taken.push(payload))
    const worker = busy.work('jobs', () => null)
    // Each item is gone when the other worker hears of it. After eight of them it is deaf for nearly half a second.
    for (let step = 0; step < 10; step++) {
      await busy.queue('jobs').add(step)
      await whileTimePasses(env, completed.next())
    }
    await worker.stop()
    const before = taken.length

    await busy.queue('jobs').add('left over')
    await whileTimePasses(env, completed.next())

    expect(taken.slice(before)).toEqual(['left over'])
  })
})
