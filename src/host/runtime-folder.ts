/**
 * A folder of this user on this machine, for small files by which the user's processes recognise each other. Nobody
 * else can look into it or put anything there.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isPrivateFolder } from './access.ts'

/**
 * Best first. Located by uid and not by XDG_RUNTIME_DIR, which is not set under cron and sudo. The first exists only
 * while its user is logged in.
 */
export function runtimeFolders(): string[] {
  const uid = process.getuid?.()
  const temporary = join(tmpdir(), `holdfast-${uid ?? 'user'}`)
  return uid === undefined ? [temporary] : [join('/run/user', String(uid), 'holdfast'), temporary]
}

/** False if there is none and none can be created, or if it is not private to this user. */
export function makeFolder(folder: string): boolean {
  if (isPrivateFolder(folder)) return true
  try {
    mkdirSync(folder, 0o700)
  } catch {
    // Something else has that name, or the parent folder is missing.
  }
  return isPrivateFolder(folder)
}

/** A file that cannot be removed, because the folder has become read-only, is harmless: others judge it by its age. */
export function removeFile(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // Swept another time.
  }
}
