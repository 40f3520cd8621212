/** Many real processes that update one document all the time: each of them gets through. */
import { expect, test } from 'vitest'
import { ownServer } from './server-store.ts'
import { type Actor, newStore, often, openActor, openHere, print } from './support.ts'

const own = ownServer()
const writers = 8
const rounds = often({ few: 5, many: 20 })
const times = 10

test.each([
  ['SQLite', () => newStore()],
  ['PostgreSQL', () => own.newStore()],
])(
  `[S5-7] 8 processes update one document ${rounds * times} times each on %s, and none gives up`,
  async (engine, create) => {
    const store = create()
    const hf = await openHere(store, { background: false })
    const actors = await Promise.all(
      Array.from({ length: writers }, () => openActor(store, { durability: 'normal' })),
    )

    const startedAt = performance.now()
    const gaveUp = await Promise.all(actors.map(countUp))
    const tookMs = Math.round(performance.now() - startedAt)

    const total = writers * rounds * times
    print(`${total} updates of one document by ${writers} processes on ${engine} in ${tookMs} ms`)
    expect(gaveUp).toEqual(actors.map(() => 0))
    expect(await hf.state('count').get()).toMatchObject({ value: total, version: total })
  },
)

/** In several orders, each of which must be answered in time. */
async function countUp(actor: Actor): Promise<number> {
  let gaveUp = 0
  for (let round = 0; round < rounds; round++) {
    gaveUp += (await actor.ask<{ gaveUp: number }>('countUp', { key: 'count', times })).gaveUp
  }
  return gaveUp
}
