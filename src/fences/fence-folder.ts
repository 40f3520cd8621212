/**
 * The folder `<file>.fence`. Anyone who can write to it decides which tokens pass, so it is used only if it, and
 * everything in it, belongs to this user or to a group that shares it.
 */
import { constants, type Stats } from 'node:fs'
import { lstat, mkdir, open, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { HoldfastError } from '../errors.ts'
import { isOpenToOthers, isOwn, isShared, noFollowFlags } from '../host/access.ts'

/**
 * False if something already exists there. As open as its parent folder: to this user, or to a group that shares it.
 */
export async function makeFenceFolder(folder: string): Promise<boolean> {
  const above = await stat(dirname(folder))
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  if (isShared(above)) await openToGroup(folder)
  return true
}

/** Somebody else in the group may have put a link in its place. */
async function openToGroup(folder: string): Promise<void> {
  const made = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | noFollowFlags)
  try {
    await made.chmod(0o2770)
  } finally {
    await made.close()
  }
}

/** Throws if somebody else created the folder or anything in it. */
export async function assertOwnFence(folder: string): Promise<void> {
  if (process.getuid === undefined) return
  const found = await lstat(folder)
  if (!found.isDirectory()) throw notOurs(folder, 'it is not a folder')
  const isGroups = isShared(found) && isShared(await stat(dirname(folder)))
  if (!isGroups && !isTrusted(found)) throw notOurs(folder, `it belongs to another user (uid ${found.uid})`)
  if (!isGroups && isOpenToOthers(found)) throw notOurs(folder, 'other users can write to it')
  for (const name of await readdir(folder)) {
    const entry = await lstat(join(folder, name)).catch(() => null)
    const fault = entry && faultOf(name, entry, isGroups ? found.gid : null)
    if (fault) throw notOurs(join(folder, name), fault)
  }
}

/** What a fence creates: files with tokens and content, and symbolic links that are locks. */
const isFile = /^(token\.json|(token|content)\.tmp)$/
const isLink = /^(lock|[\w-]{1,64}\.heir)$/

/** `group`: the group of a shared folder; null if only this user and root are trusted. */
function faultOf(name: string, entry: Stats, group: number | null): string | null {
  const isExpected = isFile.test(name) ? entry.isFile() : isLink.test(name) && entry.isSymbolicLink()
  if (!isExpected) return 'no fence created it'
  if (isTrusted(entry) || entry.gid === group) return null
  return `it belongs to another user (uid ${entry.uid})`
}

function isTrusted(found: Stats): boolean {
  return isOwn(found) || found.uid === 0
}

/** Never follows a link, whatever was put there meanwhile. */
export async function readFenceFile(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | noFollowFlags)
  try {
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/** Null if there is no such file. */
export async function unlessMissing<Result>(reading: Promise<Result>): Promise<Result | null> {
  try {
    return await reading
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

function notOurs(path: string, why: string): HoldfastError {
  return new HoldfastError('FORBIDDEN', {
    what: `${path} is not used: ${why}`,
    next: 'find out what it is and who put it there; remove it once no former holder can still write',
    facts: { path },
  })
}
