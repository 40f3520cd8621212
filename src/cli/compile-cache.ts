/**
 * Where Node keeps what it has compiled. It checks only sizes and a checksum before it runs what it finds, so in the
 * folder it would take by itself, in everybody's temporary one, others could leave code for this user to run.
 *
 * Imports nothing of ours: what other parts use too is bundled with them, and would be compiled before the cache is on.
 */
import { existsSync, lstatSync, mkdirSync, realpathSync, type Stats } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

/** A folder that nobody but this user, or root, could have filled; null where there is none. */
export function compileCacheFolder(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = env.XDG_CACHE_HOME
  const caches = given && isAbsolute(given) ? given : join(homedir(), '.cache')
  const folder = join(caches, 'holdfast', 'compiled')
  try {
    // One by one: where nothing can be created, as in /proc, Node's own `recursive` never returns.
    for (const each of [caches, dirname(folder), folder]) if (!existsSync(each)) mkdirSync(each, 0o700)
    const real = realpathSync(folder)
    const isClosed = process.getuid === undefined || (lstatSync(real).mode & 0o077) === 0
    return isClosed && isGuarded(real) ? real : null
  } catch {
    // No home, or one that cannot be written: everything is compiled each time.
    return null
  }
}

/** Whether nobody else can put another folder in the place of this one or of one above it. */
function isGuarded(folder: string): boolean {
  if (process.getuid === undefined) return true
  const found = lstatSync(folder)
  if (found.uid !== process.getuid() && found.uid !== 0) return false
  if (isOpenToOthers(found)) return false
  return dirname(folder) === folder || isGuarded(dirname(folder))
}

const sticky = 0o1000

/** The group that carries the user's own name is not somebody else. */
function isOpenToOthers({ mode, gid }: Stats): boolean {
  if ((mode & sticky) !== 0) return false
  return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== process.getgid?.())
}
