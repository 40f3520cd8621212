/** What happens in one process reaches the others at once. */
import { expect, test } from 'vitest'
import { claimBy, newStore, openActor, openHere, print, quantile, until, warmUp } from './support.ts'

test("a cancel from another process fires the holder's signal within a second [X6] [Q20] [S5-26]", async () => {
  const store = newStore()
  const hf = await openHere(store)
  const queue = hf.queue('q')
  const holder = await openActor(store)
  await warmUp(hf, holder)
  const delays: number[] = []

  for (let round = 0; round < 5; round++) {
    await queue.add({ round })
    const { id, token } = await claimBy(holder, 'q')
    const cancelledAt = performance.now()
    await queue.cancel(id)
    const { code, at } = await holder.told('aborted', ({ item }) => item === id)
    delays.push(at - cancelledAt)
    expect(code).toBe('LEASE_LOST')
    const late = await holder.askRefusal('complete', { queue: 'q', item: id, token })
    expect(late.code).toBe('LEASE_LOST')
  }

  print(`told of a cancel after ${delays.map(Math.round).join(', ')} ms`)
  expect(Math.max(...delays)).toBeLessThan(1000)
  expect(await queue.stats()).toMatchObject({ cancelled: 5, processing: 0 })
})

test('a worker idle in another process picks up a new item at once [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const queue = hf.queue('q')
  const worker = await openActor(store)
  await worker.ask('work', { queue: 'q', each: true })
  const delays: number[] = []

  for (let round = 0; round < 100; round++) {
    const addedAt = performance.now()
    const { item } = await queue.add({ round })
    const { at } = await worker.told('handling', (message) => message.item === item.id)
    delays.push(at - addedAt)
    // The worker asked for the next item in the transaction that completed this one, and found none.
    await until('the worker is idle again', async () => (await queue.get(item.id))?.standing === 'closed')
  }

  const [p50, p99] = [quantile(delays, 0.5), quantile(delays, 0.99)]
  print(`from add to handler in another process: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`)
  expect(p99).toBeLessThan(250)
})
