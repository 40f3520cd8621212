/** A store named by a folder's own config must be inside that folder, whatever links the folder contains. */
import { lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { isWithin } from './location.ts'

/** What SQLite keeps beside a store. */
const besideStore = ['', '-wal', '-shm', '-journal']

/** Why a store file may not be used there; null if it may. The caller has already checked `folder` itself. */
export function faultOfLocation(file: string, folder: string): string | null {
  if (file === folder || !isWithin(file, folder)) return `it lies outside ${folder}`
  for (let above = dirname(file); above !== folder; above = dirname(above))
    if (isLink(above)) return `${above} is a symbolic link`
  const link = besideStore.map((end) => `${file}${end}`).find(isLink)
  return link === undefined ? null : `${link} is a symbolic link`
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
}
