/** A process that takes locks as it is told, and works under them in ways that would show a second holder. */
import { appendFileSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'holdfast'

const tell = (message) => new Promise((told) => process.send(message, told))
let hf = null

const orders = {
  async open({ store, ...options }) {
    hf = await open(store, { logger: false, ...options })
  },

  async rest() {
    await hf?.close()
    hf = null
  },

  /** Rounds of: take the lock, raise a number in a file without any other guard, give the lock back. */
  async rounds({ name, count, folder }) {
    for (let round = 0; round < count; round++) {
      const { outcome } = await hf.locks.acquireLock(name, { waitMs: 60_000 })
      if (outcome !== 'acquired') throw new Error(`not ${outcome}`)
      try {
        mkdirSync(join(folder, 'inside'))
      } catch {
        appendFileSync(join(folder, 'collisions'), `${hf.agent}\n`)
      }
      const number = Number(readFileSync(join(folder, 'number'), 'utf8'))
      await new Promise(setImmediate)
      writeFileSync(join(folder, 'number'), String(number + 1))
      appendFileSync(join(folder, 'order'), `${hf.agent}\n`)
      rmdirSync(join(folder, 'inside'))
      if (!(await hf.locks.releaseLock(name))) throw new Error('the lock was lost')
    }
  },

  /** So many waiters at once, each of which takes the lock and gives it back. */
  async line({ name, count }) {
    const serve = async () => {
      const { outcome, lease } = await hf.locks.acquireLock(name, { waitMs: 60_000 })
      if (outcome !== 'acquired') throw new Error(`not ${outcome}`)
      await hf.locks.releaseLock(name, { token: lease.token })
    }
    await Promise.all(Array.from({ length: count }, serve))
  },

  /** Its main loop turns no more; its threads go on. */
  async block({ ms }) {
    await tell({ type: 'handling', item: 'block' })
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  },

  /** A batch that tells of each item when it begins, and never gets done with one of them. */
  async batch({ run, items, endlessAt }) {
    const report = await hf.locks.runBatch(
      run,
      items,
      async (item) => {
        await tell({ type: 'handling', item })
        if (item === endlessAt) await new Promise(() => {})
      },
      { concurrency: 1, gapMs: 0 },
    )
    return report
  },

  async acquire({ name, ...options }) {
    const answer = await hf.locks.acquireLock(name, options)
    const { lease, ...rest } = answer
    lease?.signal.addEventListener(
      'abort',
      () => void tell({ type: 'aborted', item: name, code: lease.signal.reason.code }),
    )
    return rest
  },

  start: ({ run, ...options }) => hf.runs.start(run, options),
  record: ({ run, ...options }) => hf.runs.record(run, options),
  release: ({ name, token }) => hf.locks.releaseLock(name, { token }),
}

process.on('disconnect', () => process.exit())
process.on('message', async ({ number, order, facts }) => {
  try {
    await tell({ type: 'answer', number, result: await orders[order](facts) })
  } catch (error) {
    const { code, message, facts: told } = error
    await tell({ type: 'answer', number, error: { code, message, facts: told } })
  }
})
await tell({ type: 'ready', pid: process.pid })
