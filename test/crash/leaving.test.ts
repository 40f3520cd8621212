/** A program ends when its own work is done: not later, and not before. */
import { expect, test } from 'vitest'
import { openRaw } from '../support/sqlite-file.ts'
import { eventOf, expectSound, newStore, openHere, print, program, run } from './support.ts'

const leave = (store: string, how: string) => run(process.execPath, [program('leaves'), store, how])
const inGoodOrder = { code: 0, signal: null, stdout: 'finished\n', stderr: '' }

test.each(['closes', 'does not close', 'closes with a worker'])(
  'a program that opens a store, works and %s exits normally [X6]',
  async (how) => {
    const store = newStore()
    const startedAt = performance.now()

    const ending = await leave(store, how)

    print(`a program that ${how} took ${Math.round(performance.now() - startedAt)} ms`)
    expect(ending).toEqual(inGoodOrder)
    const hf = await openHere(store, { background: false })
    expect(await hf.queue('q').stats()).toMatchObject({ total: 1, completed: 1 })
    expectSound(store)
  },
)

test('a program that exits while it holds an item frees it by its death [X6] [Q13]', async () => {
  const store = newStore()
  const hf = await openHere(store)

  const ending = await leave(store, 'leaves while holding')
  const { detail } = await eventOf(hf, 'the reclaim', ({ kind }) => kind === 'item.reclaimed')

  expect(ending).toEqual(inGoodOrder)
  expect(detail).toMatchObject({ holder: 'short', evidence: expect.stringMatching(/is gone|has ended/) })
})

test('a program that exits while its thread uses the store keeps its own exit code [X6]', async () => {
  const stores = Array.from({ length: 6 }, () => newStore())

  const endings = await Promise.all(stores.map((store) => leave(store, 'exits at any moment')))

  expect(endings).toEqual(stores.map(() => inGoodOrder))
  for (const store of stores) expectSound(store)
})

test('a program that forbids eval still works [X6]', async () => {
  const ending = await run(process.execPath, [
    '--disallow-code-generation-from-strings',
    program('leaves'),
    newStore(),
    'closes',
  ])

  expect(ending).toEqual(inGoodOrder)
})

test('a program that waits for its turn to write does not exit before it has its answer [X6] [X4]', async () => {
  const store = newStore()
  await (await openHere(store, { background: false })).close()
  const other = openRaw(store)
  other.exec('begin immediate')

  const ending = await leave(store, 'adds while another writes')
  other.exec('rollback')
  other.close()

  expect(ending).toEqual({ ...inGoodOrder, stdout: 'BUSY\n' })
})

test('a program with an idle worker stays until work comes [X6]', async () => {
  const store = newStore()

  const ending = await leave(store, 'waits for work')

  expect(ending).toEqual(inGoodOrder)
  const hf = await openHere(store, { background: false })
  expect(await hf.queue('q').stats()).toMatchObject({ total: 1, completed: 1 })
})

test('a program that follows events stays until they come [X6]', async () => {
  const hf = await openHere(newStore())
  hf.work('q', () => {})

  const ending = await leave(hf.status.location, 'waits for an event')

  expect(ending).toEqual(inGoodOrder)
})

test('a worker on a handle that renews nothing is refused or works, but does not crash its program [X6] [X4]', async () => {
  const ending = await leave(newStore(), 'works without renewal')

  expect(ending).toEqual({ ...inGoodOrder, stdout: expect.stringMatching(/^(finished|INVALID)\n$/) })
})
