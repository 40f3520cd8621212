/** Whose a file or folder is and who else may change it, by its owner and mode. On Windows nothing here says anything. */
import { lstatSync, type Stats, statSync } from 'node:fs'

type Access = Pick<Stats, 'mode' | 'uid' | 'gid'>

const setGroup = 0o2000
const groupAll = 0o070
const othersWrite = 0o002

/**
 * A folder that several users share, as `init --shared` makes it: its group may do everything, and what is made in it
 * belongs to that group. Whoever is in the group may change the store itself and is trusted with what lies beside it.
 */
export function isShared({ mode }: Pick<Stats, 'mode'>): boolean {
  return (mode & (setGroup | groupAll | othersWrite)) === (setGroup | groupAll)
}

/** The mode of a file made there: closed to all but its owner, or open to the group of a shared folder. */
export function fileModeIn(folder: string): number {
  const found = statSync(folder, { throwIfNoEntry: false })
  return found && isShared(found) ? 0o660 : 0o600
}

/** Whether somebody else may write to it; the group that carries the user's own name is not somebody else. */
export function isOpenToOthers({ mode, gid }: Access): boolean {
  return (mode & othersWrite) !== 0 || ((mode & 0o020) !== 0 && gid !== process.getgid?.())
}

export function isOwn({ uid }: Pick<Stats, 'uid'>): boolean {
  return process.getuid === undefined || uid === process.getuid()
}

/** A folder of the user's own that nobody else can look into; a link to one is none. */
export function isPrivateFolder(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found?.isDirectory() || !isOwn(found)) return false
  return process.getuid === undefined || (found.mode & 0o077) === 0
}
