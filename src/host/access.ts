/** Who owns a file or folder and who else may change it, by its owner and mode. Says nothing on Windows. */
import { constants, lstatSync, type Stats, statSync } from 'node:fs'
import { isOwnGroup } from './own-group.ts'

type Access = Pick<Stats, 'mode' | 'uid' | 'gid'>

/** Opens a file without following a link or waiting for a pipe that somebody else may have put there. */
export const noFollowFlags = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

const setGroup = 0o2000
const groupAll = 0o070
const groupWrite = 0o020
const othersWrite = 0o002

/**
 * A folder that several users share, as `init --shared` makes it: its group may do everything, and whatever is created
 * in it belongs to that group. Members of the group can change the store itself, so they are trusted with the files
 * next to it.
 */
export function isShared({ mode }: Pick<Stats, 'mode'>): boolean {
  return (mode & (setGroup | groupAll | othersWrite)) === (setGroup | groupAll)
}

/** The mode for a file created there: closed to all but its owner, or open to the group of a shared folder. */
export function fileModeIn(folder: string): number {
  const found = statSync(folder, { throwIfNoEntry: false })
  return found && isShared(found) ? 0o660 : 0o600
}

/** Whether somebody else may write to it. A group that is this user's alone does not count. */
export function isOpenToOthers({ mode, gid }: Access): boolean {
  return (mode & othersWrite) !== 0 || ((mode & groupWrite) !== 0 && !isOwnGroup(gid))
}

export function isOwn({ uid }: Pick<Stats, 'uid'>): boolean {
  return process.getuid === undefined || uid === process.getuid()
}

/** Whether it is a folder of this user that nobody else can look into. A link to one does not count. */
export function isPrivateFolder(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found?.isDirectory() || !isOwn(found)) return false
  return process.getuid === undefined || (found.mode & 0o077) === 0
}
