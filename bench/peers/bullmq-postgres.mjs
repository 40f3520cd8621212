/** Draining a queue with BullMQ on PostgreSQL: one worker with the given concurrency, otherwise its defaults. */
import { createPostgresBackend, Queue, Worker } from 'bullmq'
import { Meter } from '../meter.mjs'
import { settle, withDatabase } from '../postgres/database.mjs'
import { payload } from '../store.mjs'

const addedAtOnce = 1000
/** More than it needs: its own 10 would slow it down. */
const maxConnections = 60

export function drain({ items, server, concurrency, ...window }) {
  return withDatabase(server, async (connectionString) => {
    const connection = { connectionString, migrate: true, max: maxConnections }
    const queue = new Queue('bench', { connection }, createPostgresBackend)
    for (let added = 0; added < items; added += addedAtOnce) {
      const length = Math.min(addedAtOnce, items - added)
      await queue.addBulk(Array.from({ length }, () => ({ name: 'bench', data: payload })))
    }
    await settle(connectionString)
    const meter = new Meter(window)
    let left = items
    const options = { connection, concurrency, autorun: false }
    const worker = new Worker('bench', async () => {}, options, createPostgresBackend)
    worker.on('error', console.error)
    worker.on('completed', () => {
      meter.count()
      if (--left === 0) meter.end()
    })
    const running = worker.run()
    await meter.finished
    await worker.close()
    await running
    await queue.close()
    return meter.result
  })
}
