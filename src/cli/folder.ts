/** Creates a folder and its parents, one at a time: where nothing can be created, as in /proc, Node's `recursive` hangs. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Returns true if the folder is new. Another command may be creating it at the same time. */
export function makeFolder(
  folder: string,
  modes: { own?: number | undefined; parents?: number } = {},
): boolean {
  if (isFolder(folder)) return false
  const above = dirname(folder)
  if (above !== folder && !existsSync(above)) makeFolder(above, { ...modes, own: modes.parents })
  try {
    mkdirSync(folder, modes.own)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' && isFolder(folder)) return false
    throw error
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
