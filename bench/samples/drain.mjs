/** Draining a queue with Holdfast: jobs per second, each claimed and completed, with its events. */
import { open } from 'holdfast'
import { Meter } from '../meter.mjs'
import { queueName, withStore } from '../store.mjs'

/** Callers that claim one item and complete it, in separate calls. */
export function drainByCallers({ items, server, durability, callers, background = true, ...window }) {
  return withStore({ items, server }, async (store) => {
    const hf = await open(store, { durability, background })
    const queue = hf.queue(queueName)
    const meter = new Meter(window)
    await Promise.all(Array.from({ length: callers }, () => callUntilOver(queue, meter)))
    await hf.close()
    return meter.result
  })
}

async function callUntilOver(queue, meter) {
  while (!meter.isOver) {
    const claim = await queue.next()
    if (claim.outcome !== 'claimed') return meter.end()
    await queue.complete(claim.item.id)
    meter.count()
  }
}

/** A worker of the library, whose handler returns at once. It holds prefetched items under leases too. */
export function drainByWorker({ items, server, durability, concurrency, prefetch = 0, ...window }) {
  return withStore({ items, server }, async (store) => {
    const hf = await open(store, { durability })
    const meter = new Meter(window)
    let left = items
    hf.work(
      queueName,
      () => {
        meter.count()
        if (--left === 0) meter.end()
      },
      { concurrency, prefetch },
    )
    await meter.finished
    await hf.close()
    return meter.result
  })
}
