/** Locks of redlock with its defaults: one client of one Redis, leases as long as ours. */
import { Redis } from 'ioredis'
import Redlock from 'redlock'
import { measureLocks } from '../lock-callers.mjs'

const leaseMs = 30_000

export async function lock({ port, ...load }) {
  const client = new Redis({ host: '127.0.0.1', port })
  const redlock = new Redlock([client])
  const acquire = async (name) => {
    const held = await redlock.acquire([name], leaseMs)
    return () => held.release()
  }
  const result = await measureLocks({ ...load, acquire })
  await redlock.quit()
  return result
}
