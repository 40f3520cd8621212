/** What one call on a thousand things costs others: the longest write transaction, and how long its caller waits. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'holdfast'
import { queueName, withStore } from '../store.mjs'
import { TransactionWatch } from '../transactions.mjs'

const importedAtOnce = 100
const claimedAtOnce = 100

/** Completes an item that so many wait for, once for the warm-up and once measured. */
export function completeAwaited({ waiting }) {
  return withStore({ items: 0 }, async (file) => {
    const watch = new TransactionWatch()
    const hf = await openWatched(file, watch)
    for (const _ of ['warm-up', 'measured']) {
      const { item } = await hf.queue('gates').add('gate')
      await importItems(hf, 'behind', waiting, [item.id])
      await hf.queue('gates').next({ renew: false })
      watch.longestMs = 0
      await hf.queue('gates').complete(item.id)
    }
    await hf.close()
    return { longestMs: watch.longestMs }
  })
}

/** Adds so many at once, ten times for the warm-up and once measured. */
export function addMany({ added }) {
  return withStore({ items: 0 }, async (file) => {
    const watch = new TransactionWatch()
    const hf = await openWatched(file, watch)
    const items = Array.from({ length: added }, (_, number) => ({ payload: { number } }))
    for (let round = 0; round <= 10; round++) {
      watch.longestMs = 0
      await hf.queue(queueName).addMany(items)
    }
    await hf.close()
    return { longestMs: watch.longestMs }
  })
}

/** Gives a task that so many wait for a new blocker. */
export function dependOnAnother({ waiting }) {
  return withStore({ items: 0 }, async (file) => {
    const watch = new TransactionWatch()
    const hf = await openWatched(file, watch)
    const [hub, early] = [await hf.tasks.addTask('hub'), await hf.tasks.addTask('early')]
    await importItems(hf, 'behind', waiting, [hub.id])
    await hf.tasks.updateTask(hub.id, { dependsOn: [] })
    watch.longestMs = 0
    await hf.tasks.updateTask(hub.id, { dependsOn: [early.id] })
    await hf.close()
    return { longestMs: watch.longestMs }
  })
}

/** Opens a store with so many lapsed items: how long its caller waits, and how many lines are logged. */
export function openStale({ stale }) {
  return withStore({ items: stale }, async (file) => {
    const lazy = await openWatched(file, new TransactionWatch())
    for (let claimed = 0; claimed < stale; claimed += claimedAtOnce)
      await lazy
        .queue(queueName)
        .claimMany(Math.min(claimedAtOnce, stale - claimed), { leaseMs: 1, renew: false })
    await lazy.close()
    await sleep(20)

    let lines = 0
    const count = () => void lines++
    const before = performance.now()
    const hf = await open(file, { logger: { info: count, warn: count, error: count } })
    const ms = performance.now() - before
    await hf.close()
    return { ms, lines }
  })
}

function openWatched(file, { environment }) {
  const options = { background: false, recovery: false, logger: false, durability: 'normal', environment }
  return open(file, options)
}

async function importItems(hf, queue, count, blockers) {
  for (let from = 0; from < count; from += importedAtOnce) {
    const length = Math.min(importedAtOnce, count - from)
    const entry = () => ({ id: randomUUID(), state: 'pending', blockers, addedAt: 1 })
    const entries = Array.from({ length }, entry)
    await hf.execute('queue.import', { queue, workflow: 'job', from: 'bench', entries })
  }
}
