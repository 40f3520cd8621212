/** Locks of proper-lockfile with its defaults, but for `realpath`: looking that up would only cost it time. */
import { join } from 'node:path'
import lockfile from 'proper-lockfile'
import { measureLocks } from '../lock-callers.mjs'
import { makeFolder } from '../store.mjs'

export async function lock(load) {
  const folder = makeFolder()
  const acquire = (name) => lockfile.lock(join(folder.path, name), { realpath: false })
  const result = await measureLocks({ ...load, acquire })
  folder.remove()
  return result
}
