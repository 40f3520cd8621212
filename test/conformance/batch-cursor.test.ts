/** Where a batch goes on. */
import { expect, test } from 'vitest'
import { forEachEngine } from '../support/stores.ts'

forEachEngine((engine) => {
  test('if no item may fail, a batch that resumes from its cursor repeats the failed items [L9]', async () => {
    const { hf } = await engine.open({ agent: 'ada' })
    const all = ['a', 'b', 'c', 'd']
    const after = (cursor: unknown) => (cursor === null ? all : all.slice(all.indexOf(String(cursor)) + 1))
    const options = { gapMs: 0, concurrency: 1, total: 4, completion: 'successful' } as const
    const first = await hf.locks.runBatch(
      'run',
      after,
      (item) => {
        if (item === 'b') throw new Error('no ink')
      },
      options,
    )

    const handled: string[] = []
    const second = await hf.locks.runBatch('run', after, (item) => handled.push(item), options)

    expect([first.outcome, second.outcome]).toEqual(['failed', 'completed'])
    expect(handled).toEqual(['b'])
  })
})
