/** Acquiring and releasing again and again costs the same for ever and leaves nothing behind but events. */
import { expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { isQuick } from '../support/quick.ts'
import { forEachEngine } from '../support/stores.ts'

/** Of 500 rounds each. */
const chunks = isQuick ? 8 : 20
const someChunks = Math.floor(0.4 * chunks)

forEachEngine((engine) => {
  test(`${500 * chunks} rounds of acquire and release cost no more at the end, and leave no row [L3]`, async () => {
    const { hf, store } = await engine.openInRealTime({ agent: 'ada', durability: 'normal' })
    const names = Array.from({ length: 50 }, (_, number) => `lock-${number}`)
    const round = async (name: string) => {
      await take(hf, name)
      await hf.locks.releaseLock(name)
    }
    const tookMs: number[] = []

    for (let chunk = 0; chunk < chunks; chunk++) {
      const startedAt = performance.now()
      for (let number = 0; number < 10; number++) await Promise.all(names.map(round))
      tookMs.push(performance.now() - startedAt)
    }

    // The quickest of each: other programs may slow down some.
    expect(Math.min(...tookMs.slice(-someChunks))).toBeLessThan(3 * Math.min(...tookMs.slice(0, someChunks)))
    expect([...(await store.readTables()).keys()].filter((key) => !key.startsWith('instance:'))).toEqual([])
  })
})
