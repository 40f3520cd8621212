/** Makes `.holdfast/`: ignored by git as a whole, with a file of settings that says nothing yet. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { configName, type Home } from './location.ts'
import { configText } from './settings.ts'

/** True when it was not there. */
export function makeHome({ folder }: Pick<Home, 'folder'>): boolean {
  const isNew = !existsSync(folder)
  mkdirSync(folder, { recursive: true })
  writeOnce(join(folder, '.gitignore'), '*\n')
  writeOnce(join(folder, configName), configText)
  return isNew
}

/** Another command may be making it at the same moment. */
function writeOnce(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** The file behind a store's URL; null for a store that is no file. */
export function storeFile(store: string): string | null {
  const path = store.startsWith('sqlite:') ? store.slice('sqlite:'.length) : store
  return path === ':memory:' || /^[a-z][a-z0-9+.-]+:\/\//.test(path) ? null : path
}

/** The folder a store is made in; `.holdfast` itself is made whole. */
export function makeFolderFor(store: string, home: Home): boolean {
  const file = storeFile(store)
  if (file === null) return false
  if (dirname(file) === home.folder) return makeHome(home)
  mkdirSync(dirname(file), { recursive: true })
  return false
}
