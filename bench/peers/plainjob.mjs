/** Draining a queue with plainjob: its own settings (WAL, synchronous NORMAL), better-sqlite3, several workers. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { better, defineQueue, defineWorker } from 'plainjob'
import { Meter } from '../meter.mjs'
import { makeFolder, payload } from '../store.mjs'

const logger = { debug() {}, info() {}, warn() {}, error: console.error }

export async function drain({ items, workers, ...window }) {
  const folder = makeFolder()
  const database = new Database(join(folder.path, 'jobs.db'))
  const queue = defineQueue({ connection: better(database), logger })
  queue.addMany(
    'bench',
    Array.from({ length: items }, () => payload),
  )
  database.pragma('wal_checkpoint(truncate)')
  const meter = new Meter(window)
  let left = items
  const onCompleted = () => {
    meter.count()
    if (--left === 0) meter.end()
    // It starves timers while there is work, so only its own callback can stop it in time.
    if (meter.isOver) for (const worker of running) void worker.stop()
  }
  const running = Array.from({ length: workers }, () =>
    defineWorker('bench', () => {}, { queue, logger, onCompleted }),
  )
  await Promise.all(running.map((worker) => worker.start()))
  queue.close()
  folder.remove()
  return meter.result
}
