/** Handles that close while their program still claims, with their threads and in real time. */
import { expect, test } from 'vitest'
import { ownServer } from './server-store.ts'
import { newStore, openHere } from './support.ts'

const own = ownServer()
const rounds = 10

test.each([
  ['SQLite', newStore],
  ['PostgreSQL', () => own.newStore()],
])('handles on %s that close while their program claims leave nothing held [S5b-2]', async (_, makeStore) => {
  const store = makeStore()
  const hf = await openHere(store, { background: false, recovery: false })
  await hf.queue('q').addMany(Array.from({ length: 100 }, (__, payload) => ({ payload })))

  for (let round = 0; round < rounds; round++) {
    const closing = await openHere(store, { recovery: false })
    const claiming = [
      untilRefused(() => closing.queue('q').next()),
      untilRefused(() => closing.locks.acquireLock('press')),
      untilRefused(() => closing.execute('queue.next', { queue: 'q' })),
    ]
    await closing.queue('q').next()
    await closing.close()
    await Promise.all(claiming)

    expect(await hf.queue('q').stats()).toMatchObject({ pending: 100, processing: 0 })
    expect((await hf.locks.list()).locks).toEqual([])
  }
  const { items } = await hf.queue('q').list({ limit: 100 })
  expect(items.filter(({ failures, crashes, exposures }) => failures + crashes + exposures > 0)).toEqual([])
})

async function untilRefused(claim: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await claim()
    } catch {
      return
    }
  }
}
