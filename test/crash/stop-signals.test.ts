/** A stop is not a crash: workers drain on SIGINT and SIGTERM, give back what is left, and let the signal end the process. */
import type { Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { type Actor, newStore, openHere, print, reclaimOf, startProgram, until } from './support.ts'

test('a handler that ends in time completes its item; then the signal ends the process [S5-3]', async () => {
  const { hf, worker, id } = await atWork()

  worker.kill('SIGTERM')
  await worker.told('trapped')
  worker.send('go on')
  const signal = await worker.ended()

  expect(signal).toBe('SIGTERM')
  expect(await hf.queue('jobs').get(id)).toMatchObject({ state: 'done', crashes: 0 })
})

test('a handler that does not end gets 8 s; its item is released and not blamed [S5-3]', async () => {
  const { hf, worker, id } = await atWork()

  const stoppedAt = performance.now()
  worker.kill('SIGTERM')
  const signal = await worker.ended()
  const tookMs = performance.now() - stoppedAt

  print(`ended ${Math.round(tookMs)} ms after SIGTERM`)
  expect(signal).toBe('SIGTERM')
  expect(tookMs).toBeGreaterThan(7_900)
  // Docker kills after 10 s; a machine with other things to do may be late with everything.
  expect(tookMs).toBeLessThan(12_000)
  expect(worker.all('aborted')).toHaveLength(1)
  expect(await hf.queue('jobs').get(id)).toMatchObject(untouched)
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  'three stops by %s, each with a second signal, leave a healthy long item in line [S5-3]',
  async (signal) => {
    const { hf, store, worker, id } = await atWork()
    const ends = [await endByTwo(worker, signal)]
    for (let stop = 0; stop < 2; stop++) ends.push(await endByTwo(await handling(store, id), signal))

    expect(ends).toEqual([signal, signal, signal])
    expect(await hf.queue('jobs').get(id)).toMatchObject({ ...untouched, attempts: 3 })
    const kinds = (await hf.queue('jobs').events(id)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'item.released')).toHaveLength(3)
    expect(kinds).not.toContain('item.reclaimed')
  },
)

test('a program with its own listener decides when to exit [S5-3]', async () => {
  const { hf, worker, id } = await atWork({ LISTENS: '1' })

  worker.kill('SIGTERM')
  await worker.told('refused', ({ code }) => code === 'heard')
  worker.kill('SIGTERM')
  await until('the item is given back', async () => (await hf.queue('jobs').get(id))?.phase === 'ready')

  expect(worker.child.exitCode ?? worker.child.signalCode).toBeNull()
  expect(await hf.queue('jobs').get(id)).toMatchObject(untouched)
})

test.each(['before', 'after'])(
  'a program with a once-listener, added %s its worker, decides when to exit [S5-3]',
  async (when) => {
    const { hf, worker, id } = await atWork({ LISTENS_ONCE: when })

    worker.kill('SIGTERM')
    await worker.told('trapped')
    worker.send('go on')
    const signal = await worker.ended()

    expect({ signal, exitCode: worker.child.exitCode }).toEqual({ signal: null, exitCode: 7 })
    expect(await hf.queue('jobs').get(id)).toMatchObject({ state: 'done', crashes: 0 })
  },
)

test('with stopOnSignals: false the signal has its default effect [S5-3]', async () => {
  const { hf, worker, id } = await atWork({ LEAVES_SIGNALS: '1' })

  worker.kill('SIGTERM')
  const signal = await worker.ended()
  await reclaimOf(hf, id)

  expect(signal).toBe('SIGTERM')
  expect(await hf.queue('jobs').get(id)).toMatchObject({ crashes: 1 })
})

const untouched = { state: 'pending', phase: 'ready', crashes: 0, exposures: 0, failures: 0 }

/** A worker process whose handler has begun. */
async function atWork(
  env: Readonly<Record<string, string>> = {},
): Promise<{ hf: Holdfast; store: string; worker: Actor; id: string }> {
  const store = newStore()
  const hf = await openHere(store)
  const { item } = await hf.queue('jobs').add('long')
  const worker = await handling(store, item.id, env)
  return { hf, store, worker, id: item.id }
}

async function handling(
  store: string,
  id: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Actor> {
  const worker = await startProgram('stops', { env: { STORE: store, ...env } })
  await worker.told('handling', ({ item }) => item === id)
  return worker
}

/** The second one once the first was heard: sent together they may be one. */
async function endByTwo(worker: Actor, signal: NodeJS.Signals): Promise<NodeJS.Signals | null> {
  worker.kill(signal)
  await worker.told('trapped')
  worker.kill(signal)
  return worker.ended()
}
