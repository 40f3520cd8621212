/** Handing over what root has just created to the user it belongs to. No link that somebody plants meanwhile is followed. */
import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { noFollowFlags } from './access.ts'
import { unlessRefused } from './unless-refused.ts'
import { sudoCaller } from './user.ts'

type Env = Readonly<Record<string, string | undefined>>

/**
 * A file that root has just created in a folder of the user who called sudo becomes theirs. A stranger's folder that
 * took the place of one that was checked gets nothing. Nor does the caller if a link led to another folder when the
 * file was created: where the system tells, its real folder counts.
 */
export function giveFileToCaller(descriptor: number, folder: string, env: Env = process.env): void {
  const caller = sudoCaller(env)
  if (caller === null) return
  const file = pathOf(descriptor)
  const { uid, gid } = statSync(file === null ? folder : dirname(file))
  if (uid !== 0 && uid === caller) fchownSync(descriptor, uid, gid)
}

/** Where an open file is, whatever links led to it when it was opened; null where the system does not tell. */
export function pathOf(descriptor: number): string | null {
  return unlessRefused(() => readlinkSync(`/dev/fd/${descriptor}`))
}

/** A new folder becomes the caller's as well. It gets their own group, unless it has inherited one. */
export function giveFolderToCaller(folder: string, env: Env = process.env): void {
  const caller = sudoCaller(env)
  if (caller === null || statSync(dirname(folder)).uid !== caller) return
  giveNewFolder(folder, ({ gid }) => {
    const group = /^\d{1,10}$/.test(env.SUDO_GID ?? '') ? Number(env.SUDO_GID) : gid
    return { uid: caller, gid: gid === process.getgid?.() ? group : gid }
  })
}

type Owner = Pick<Stats, 'uid' | 'gid'>

/**
 * Gives a folder that root has just created to another user. Whoever owns its parent may have put a link or another of
 * root's folders there: a link is not followed, and an empty folder gives nothing away.
 */
export function giveNewFolder(folder: string, ownerOf: (found: Owner) => Owner): void {
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | noFollowFlags)
  try {
    const found = fstatSync(descriptor)
    if (found.uid !== 0 || !isEmpty(descriptor)) return
    const { uid, gid } = ownerOf(found)
    fchownSync(descriptor, uid, gid)
  } finally {
    closeSync(descriptor)
  }
}

/** False also where a folder cannot be listed by its descriptor: then it stays root's. */
function isEmpty(folder: number): boolean {
  return unlessRefused(() => readdirSync(`/dev/fd/${folder}`))?.length === 0
}
