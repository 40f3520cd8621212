/**
 * A folder of this user on this machine, for small files by which its processes know each other. Nobody else can look
 * into it or put anything there.
 */
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isPrivateFolder } from './access.ts'

/**
 * Best first. Found by the user's number and not by XDG_RUNTIME_DIR, which is not set for cron and sudo. The first is
 * there only while its user is logged in.
 */
export function runtimeFolders(): string[] {
  const uid = process.getuid?.()
  const temporary = join(tmpdir(), `holdfast-${uid ?? 'user'}`)
  return uid === undefined ? [temporary] : [join('/run/user', String(uid), 'holdfast'), temporary]
}

/** False where there is none and none can be made, and where it is not this user's alone. */
export function makeFolder(folder: string): boolean {
  if (isPrivateFolder(folder)) return true
  try {
    mkdirSync(folder, 0o700)
  } catch {
    // Something else is there, or the folder above is not.
  }
  return isPrivateFolder(folder)
}
