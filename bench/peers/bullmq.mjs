/** Draining a queue with BullMQ: one worker with the given concurrency on the given Redis, otherwise its defaults. */
import { Queue, Worker } from 'bullmq'
import { Meter } from '../meter.mjs'
import { payload } from '../store.mjs'

const addedAtOnce = 1000

export async function drain({ items, concurrency, port, ...window }) {
  const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null }
  const queue = new Queue('bench', { connection })
  await queue.obliterate({ force: true })
  for (let added = 0; added < items; added += addedAtOnce) {
    const length = Math.min(addedAtOnce, items - added)
    await queue.addBulk(Array.from({ length }, () => ({ name: 'bench', data: payload })))
  }
  const meter = new Meter(window)
  let left = items
  const worker = new Worker('bench', async () => {}, { connection, concurrency, autorun: false })
  worker.on('error', console.error)
  worker.on('completed', () => {
    meter.count()
    if (--left === 0) meter.end()
  })
  const run = worker.run()
  await meter.finished
  await worker.close()
  await run
  await queue.obliterate({ force: true })
  await queue.close()
  return meter.result
}
