/** Creates a folder and its parents, one at a time: where nothing can be created, as in /proc, Node's `recursive` hangs. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

interface Making {
  /** Modes. */
  readonly own?: number | undefined
  readonly parents?: number
  /** Called for each new folder, before anything is created in it. */
  readonly made?: (folder: string) => void
}

/** Returns true if the folder is new. Another command may be creating it at the same time. */
export function makeFolder(folder: string, making: Making = {}): boolean {
  if (isFolder(folder)) return false
  const above = dirname(folder)
  if (above !== folder && !existsSync(above)) makeFolder(above, { ...making, own: making.parents })
  try {
    mkdirSync(folder, making.own)
    making.made?.(folder)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' && isFolder(folder)) return false
    throw error
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
