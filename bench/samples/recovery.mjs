/** What healing costs: nothing to heal before each claim, and much to heal at once. */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'holdfast'
import { median } from '../statistics.mjs'
import { queueName, withStore } from '../store.mjs'
import { TransactionWatch } from '../transactions.mjs'

/** Claims with recovery on and off, in small alternating blocks, so that drift affects both alike. */
export function compareRecovery({ rounds, blocks, claims }) {
  const items = (rounds + 1) * blocks * claims
  return withStore({ items }, (onFile) =>
    withStore({ items }, async (offFile) => {
      // Not `full`: waiting for the disk would hide what recovery adds.
      const on = await open(onFile, { durability: 'normal' })
      const off = await open(offFile, { durability: 'normal', recovery: false })
      const result = { on: [], off: [] }
      for (let round = -1; round < rounds; round++) {
        const times = { on: [], off: [] }
        for (let block = 0; block < blocks; block++) {
          if (block % 2 === 0) await claimSome(on, claims, times.on)
          await claimSome(off, claims, times.off)
          if (block % 2 === 1) await claimSome(on, claims, times.on)
        }
        // The first round only warms up.
        if (round < 0) continue
        result.on.push(median(times.on))
        result.off.push(median(times.off))
      }
      await on.close()
      await off.close()
      return result
    }),
  )
}

async function claimSome(hf, count, times) {
  const queue = hf.queue(queueName)
  for (let claimed = 0; claimed < count; claimed++) {
    const before = performance.now()
    const claim = await queue.next()
    times.push((performance.now() - before) * 1000)
    await queue.complete(claim.item.id)
  }
}

const claimedAtOnce = 100

/** Heals so many lapsed items in a process that never healed before: the time it takes in all, and the longest time others had to wait for one transaction. */
export function heal({ stale }) {
  return withStore({ items: stale }, async (file) => {
    const lazy = await open(file, { background: false, recovery: false })
    for (let claimed = 0; claimed < stale; claimed += claimedAtOnce) {
      await lazy.queue(queueName).claimMany(Math.min(claimedAtOnce, stale - claimed), { leaseMs: 1 })
    }
    await lazy.close()
    await sleep(20)

    const watch = new TransactionWatch()
    const { environment } = watch
    const hf = await open(file, { background: false, recovery: false, logger: false, environment })
    const before = performance.now()
    const { entriesReclaimed } = await hf.recovery.detectAndRecoverStale()
    const ms = performance.now() - before
    await hf.close()
    if (entriesReclaimed !== stale) throw new Error(`${entriesReclaimed} of ${stale} items were healed`)
    return { ms, longestMs: watch.longestMs }
  })
}
