/**
 * Where Node keeps compiled code. Node checks only sizes and a checksum before it runs what it finds. Its default
 * folder is inside the shared temporary directory, where other users could plant code for this user to run.
 *
 * Imports next to none of our modules: shared code is compiled before the cache is on.
 */
import { existsSync, lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { isOpenToOthers, isOwn, isPrivateFolder } from '../host/access.ts'

/** A folder that only this user or root can have written to; null if there is none. */
export function compileCacheFolder(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = env.XDG_CACHE_HOME
  const caches = given && isAbsolute(given) ? given : join(homedir(), '.cache')
  const folder = join(caches, 'holdfast', 'compiled')
  try {
    // One at a time: where nothing can be created, as in /proc, Node's `recursive` option never returns.
    for (const each of [caches, dirname(folder), folder]) {
      if (existsSync(each)) continue
      // Under a sudo that keeps HOME, a folder of root's would keep the caller out of their own.
      if (!isGuarded(realpathSync(dirname(each)))) return null
      mkdirSync(each, 0o700)
    }
    const real = realpathSync(folder)
    return isPrivateFolder(real) && isGuarded(real) ? real : null
  } catch {
    // There is no home, or it is not writable: compile everything each time.
    return null
  }
}

const sticky = 0o1000

/** Whether no other user can replace this folder or one above it. */
function isGuarded(folder: string): boolean {
  if (process.getuid === undefined) return true
  const found = lstatSync(folder)
  if (!isOwn(found) && found.uid !== 0) return false
  if ((found.mode & sticky) === 0 && isOpenToOthers(found)) return false
  return dirname(folder) === folder || isGuarded(dirname(folder))
}
