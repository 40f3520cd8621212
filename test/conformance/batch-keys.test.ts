/** Items with the same key are one item to a batch, wherever they are in it. */
import { describe, expect, test } from 'vitest'
import { take } from '../support/locks.ts'
import { gate } from '../support/messages.ts'
import { forEachEngine } from '../support/stores.ts'

const options = { gapMs: 0 }

forEachEngine((engine) => {
  describe('a repeated key is handled once and counted once', () => {
    test('in a list: its total counts different keys [L13]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const totals: (number | null | undefined)[] = []
      const items = [{ id: 1 }, { id: 2 }, { id: 1 }]

      const report = await hf.locks.runBatch(
        'c1',
        items,
        async () => void totals.push((await hf.runs.get('c1'))?.total),
        { ...options, keyOf: ({ id }) => `item-${id}` },
      )

      expect(totals).toEqual([2, 2])
      expect(report).toMatchObject({ outcome: 'completed', progress: { done: 2, total: 2 } })
    })

    test('while the first is running, when items arrive one by one [L13]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const worked: string[] = []
      const release = gate()

      const report = await hf.locks.runBatch(
        'c1',
        oneByOne(['slow', 'slow', 'quick', 'slow', 'last']),
        async (item) => {
          worked.push(item)
          if (item === 'slow') await release.opened
          if (item === 'last') release.open()
        },
        { ...options, concurrency: 2 },
      )

      expect(worked).toEqual(['slow', 'quick', 'last'])
      expect(report).toMatchObject({ outcome: 'completed', progress: { done: 3, total: 3 } })
    })

    test('hundreds of items later, while the first is running [L13]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const worked: string[] = []
      const release = gate()
      const others = Array.from({ length: 450 }, (_, number) => `other-${number}`)

      const report = await hf.locks.runBatch(
        'c1',
        ['slow', ...others, 'slow', 'last'],
        async (item) => {
          worked.push(item)
          if (item === 'slow') await release.opened
          if (item === 'last') release.open()
        },
        { ...options, concurrency: 2 },
      )

      expect(worked.filter((item) => item === 'slow')).toHaveLength(1)
      expect(report).toMatchObject({ outcome: 'completed', progress: { done: 452, total: 452 } })
    })

    test('even when it failed and must be repeated: the next run does that, not this one [L13] [L7]', async () => {
      const { hf } = await engine.open({ agent: 'ada' })
      const worked: string[] = []
      const run = (isBroken: boolean) =>
        hf.locks.runBatch(
          'c1',
          oneByOne(['a', 'b', 'a']),
          (item) => {
            worked.push(item)
            if (isBroken && item === 'a') throw new Error('no luck')
          },
          { ...options, completion: 'successful', concurrency: 1 },
        )

      const first = await run(true)
      const firstWorked = worked.splice(0)
      const second = await run(false)

      expect([firstWorked, worked]).toEqual([['a', 'b'], ['a']])
      expect([first.outcome, second.outcome]).toEqual(['failed', 'completed'])
    })
  })

  test('the remaining keys of a list are named once each [L13]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    await take(hf, 'global', { run: 'r' })
    await hf.runs.start('r')
    await hf.runs.record('r', { outcomes: [{ key: 'b', outcome: 'done' }] })

    expect(await hf.runs.remaining('r', ['a', 'b', 'a', 'c'])).toEqual(['a', 'c'])
  })
})

async function* oneByOne(items: readonly string[]): AsyncGenerator<string> {
  for (const item of items) {
    yield item
    await new Promise(setImmediate)
  }
}
