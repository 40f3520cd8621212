/**
 * Locks acquired and released per second. Each caller has its own lock and makes one call after the other; ours and
 * theirs go through the same loop. `acquire(name)` returns the function that releases.
 */
import { Meter } from './meter.mjs'

export async function measureLocks({ callers, acquire, ...window }) {
  const meter = new Meter(window)
  const callUntilOver = async (_, number) => {
    while (!meter.isOver) {
      const release = await acquire(`bench-${number}`)
      await release()
      meter.count()
    }
  }
  await Promise.all(Array.from({ length: callers }, callUntilOver))
  return meter.result
}
