/** The path of a store file: what is valid, and where it leads. */
import { readlinkSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { InvalidError } from '../errors.ts'
import { unlessRefused } from './unless-refused.ts'

/** As many as the kernel follows. */
const maxLinks = 40

/**
 * The one path of a store, whichever links lead to it: its log, its wake-up file and its writers' queue are named after
 * it. For a store that does not exist yet, the path at which it will be created.
 */
export function realPath(given: string): string {
  assertFilePath(given)
  let path = isAbsolute(given) ? given : `${process.cwd()}/${given}`
  for (let links = 0; links <= maxLinks; links++) {
    const found = unlessRefused(() => realpathSync.native(path))
    if (found !== null) return assertFile(found)
    // A missing folder is left to SQLite, which reports it.
    const folder = unlessRefused(() => realpathSync.native(dirname(path))) ?? dirname(path)
    const target = unlessRefused(() => readlinkSync(path))
    if (target === null) return join(folder, basename(path))
    // Not normalised: only the file system knows what `..` means after a link.
    path = isAbsolute(target) ? target : `${folder}/${target}`
  }
  throw new InvalidError({
    what: `${given} is a link that leads back to itself`,
    next: 'give the path of the store file',
    facts: { path: given },
  })
}

/** Resolved, `jobs/` would be a file called `jobs`. */
export function assertFilePath(given: string): void {
  if (/(^|\/)\.{0,2}$/.test(given)) throw noFile(given, 'a folder')
}

/** Opening anything else might change it, or might never return. */
function assertFile(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found && !found.isFile()) throw noFile(path, found.isDirectory() ? 'a folder' : 'a device or a pipe')
  return path
}

function noFile(path: string, kind: string): InvalidError {
  return new InvalidError({
    what: `${path} is ${kind}, and a store is a file`,
    next: 'give the path of a file; it is created if it does not exist',
    facts: { path },
  })
}
