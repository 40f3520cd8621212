/**
 * Draining a queue with graphile-worker: its defaults, with as many connections as it needs for its concurrency. With a
 * local queue it fetches and completes in batches, set up as its page on performance does.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { Meter } from '../meter.mjs'
import { settle, withDatabase } from '../postgres/database.mjs'
import { payload } from '../store.mjs'

const addedAtOnce = 1000
const logger = new Logger(() => () => {})

export function drain({ items, server, concurrency, localQueue, ...window }) {
  return withDatabase(server, async (connectionString) => {
    await fill(connectionString, items)
    await settle(connectionString)
    const meter = new Meter(window)
    let left = items
    const batching = { localQueue: { size: localQueue }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
    const runner = await run({
      noHandleSignals: true,
      preset: {
        worker: {
          connectionString,
          logger,
          concurrentJobs: concurrency,
          maxPoolSize: concurrency + 5,
          ...(localQueue === undefined ? {} : batching),
        },
      },
      taskList: {
        bench: () => {
          meter.count()
          if (--left === 0) meter.end()
        },
      },
    })
    await meter.finished
    await runner.stop()
    return meter.result
  })
}

async function fill(connectionString, items) {
  const utils = await makeWorkerUtils({ connectionString, logger })
  await utils.migrate()
  for (let added = 0; added < items; added += addedAtOnce) {
    const length = Math.min(addedAtOnce, items - added)
    await utils.addJobs(Array.from({ length }, () => ({ identifier: 'bench', payload })))
  }
  await utils.release()
}
