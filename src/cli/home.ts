/** Creates `.holdfast/`, ignored by git as a whole, with a config file that sets nothing yet. */
import { chmodSync, closeSync, existsSync, lstatSync, openSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { serverScheme } from '../domain/store-url.ts'
import { HoldfastError } from '../errors.ts'
import { fileModeIn } from '../host/access.ts'
import { giveFileToCaller, giveFolderToCaller } from '../host/hand-over.ts'
import { configText } from './config-file.ts'
import { makeFolder } from './folder.ts'
import type { Io } from './io.ts'
import { configName, type Home } from './location.ts'

/**
 * Returns true if the folder is new. It is closed to other users, and files created in it follow its mode. Under sudo,
 * the user who called it must be able to use it.
 */
export function makeHome({ folder }: Pick<Home, 'folder'>, { env }: Pick<Io, 'env'>): boolean {
  const isNew = !existsSync(folder)
  making(folder, () => makeFolder(folder, { own: 0o700, made: (each) => giveFolderToCaller(each, env) }))
  writeOnce(join(folder, '.gitignore'), '*\n', env)
  writeOnce(join(folder, configName), configText, env)
  return isNew
}

/**
 * Opens the folder to its group. Files created in it from then on belong to that group and are group-writable, whatever
 * the umask of their creator. Existing files are opened too, by name and without following links; before the folder,
 * because its group could put a link in their place.
 */
export function shareHome(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isFile()) making(folder, () => chmodSync(path, 0o660))
    // Every user of the store rings its bells, but the folder of tokens belongs to one user.
    else if (entry.isDirectory() && entry.name.endsWith('-bells')) shareHome(path)
  }
  making(folder, () => chmodSync(folder, 0o2770))
}

/**
 * Another command may be creating it at the same time, so EEXIST is fine. Any other failure is for the user to fix: the
 * location, or its permissions.
 */
function making(path: string, make: () => unknown): void {
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

function writeOnce(path: string, text: string, env: Io['env']): void {
  making(path, () => {
    const descriptor = openSync(path, 'wx', fileModeIn(dirname(path)))
    try {
      writeFileSync(descriptor, text)
      giveFileToCaller(descriptor, dirname(path), env)
    } finally {
      closeSync(descriptor)
    }
  })
}

/** The file behind a store's URL; null for a store that is not a file. */
export function storeFile(store: string): string | null {
  const path = store.startsWith('sqlite:') ? store.slice('sqlite:'.length) : store
  return path === ':memory:' || serverScheme(store) !== null ? null : path
}

/** Creates the folder for a new store. `.holdfast` itself also gets its other files; true if it is new. */
export function makeFolderFor(store: string, home: Home, io: Pick<Io, 'env'>): boolean {
  const file = storeFile(store)
  if (file === null) return false
  // Through a symbolic link, our config file would end up in a folder that is not ours.
  const isLink = lstatSync(home.folder, { throwIfNoEntry: false })?.isSymbolicLink() === true
  if (dirname(file) === home.folder && !isLink) return makeHome(home, io)
  const folder = dirname(file)
  making(folder, () => makeFolder(folder, { made: (each) => giveFolderToCaller(each, io.env) }))
  return false
}
