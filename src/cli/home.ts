/** Makes `.holdfast/`: ignored by git as a whole, with a file of settings that says nothing yet. */
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { serverScheme } from '../domain/store-url.ts'
import { HoldfastError } from '../errors.ts'
import { fileModeIn } from '../host/access.ts'
import { configText } from './config-file.ts'
import { configName, type Home } from './location.ts'

/** True when it was not there. Closed to others; what is made in it follows the folder. */
export function makeHome({ folder }: Pick<Home, 'folder'>): boolean {
  const isNew = !existsSync(folder)
  makeFolder(folder, 0o700)
  writeOnce(join(folder, '.gitignore'), '*\n')
  writeOnce(join(folder, configName), configText)
  return isNew
}

/**
 * Opens it to its group: what is made in it from then on belongs to that group and may be written by it, whatever the
 * umask of whoever makes it. What is there already is opened too, by its name and without following links.
 */
export function shareHome(folder: string): void {
  making(folder, () => chmodSync(folder, 0o2770))
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isFile()) making(folder, () => chmodSync(path, 0o660))
    // All who use the store ring its bells; the folder of tokens is its user's own.
    else if (entry.isDirectory() && entry.name.endsWith('-bells')) shareHome(path)
  }
}

/** With its parents. By hand: where nothing can be created, as in /proc, Node's own `recursive` never returns. */
function makeFolder(folder: string, mode?: number): void {
  if (existsSync(folder) && statSync(folder).isDirectory()) return
  const above = dirname(folder)
  if (above !== folder && !existsSync(above)) makeFolder(above)
  making(folder, () => mkdirSync(folder, mode))
}

/** Another command may be making it at the same moment. What cannot be created is the user's to change: the place, or its permissions. */
function making(path: string, make: () => void): void {
  try {
    make()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'EEXIST' && existsSync(path)) return
    throw new HoldfastError('STORE_UNAVAILABLE', {
      what: `${path} cannot be created (${code ?? String(cause)})`,
      next: "check the folder's permissions, or put the store elsewhere with --store or HOLDFAST_URL",
      facts: { path, code },
      cause,
    })
  }
}

function writeOnce(path: string, text: string): void {
  making(path, () => writeFileSync(path, text, { flag: 'wx', mode: fileModeIn(dirname(path)) }))
}

/** The file behind a store's URL; null for a store that is no file. */
export function storeFile(store: string): string | null {
  const path = store.startsWith('sqlite:') ? store.slice('sqlite:'.length) : store
  return path === ':memory:' || serverScheme(store) !== null ? null : path
}

/** The folder a store is made in; `.holdfast` itself is made whole. */
export function makeFolderFor(store: string, home: Home): boolean {
  const file = storeFile(store)
  if (file === null) return false
  // Through a link, our settings would end up in a folder that is none of ours.
  const isLink = lstatSync(home.folder, { throwIfNoEntry: false })?.isSymbolicLink() === true
  if (dirname(file) === home.folder && !isLink) return makeHome(home)
  makeFolder(dirname(file))
  return false
}
