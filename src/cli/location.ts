/**
 * Where the store of a folder lies: the nearest `.holdfast/` upward; else that of the main work tree of the git
 * repository, so that agents in separate work trees share one store; else `.holdfast/` right here.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'

export const folderName = '.holdfast'
export const storeName = 'store.db'
export const configName = 'config.toml'

export interface Home {
  /** The `.holdfast` folder, whether it is there or not. */
  readonly folder: string
  readonly because: string
}

export function findHome(cwd: string): Home {
  const nearest = upward(cwd, (folder) => isFolder(join(folder, folderName)))
  if (nearest !== null) return { folder: join(nearest, folderName), because: 'the nearest upward' }
  const tree = mainWorkTree(cwd)
  if (tree !== null)
    return { folder: join(tree, folderName), because: 'the main work tree of this repository' }
  return { folder: join(cwd, folderName), because: 'the current folder' }
}

function upward(from: string, isIt: (folder: string) => boolean): string | null {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (isIt(folder)) return folder
    if (folder === dirname(folder)) return null
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** Read off the files, without starting git; null outside a repository, and in a bare one, which has no work tree. */
function mainWorkTree(cwd: string): string | null {
  const tree = upward(cwd, (folder) => existsSync(join(folder, '.git')))
  if (tree === null) return null
  const mark = join(tree, '.git')
  if (isFolder(mark)) return tree
  const [, link] = /^gitdir: (.+)$/m.exec(readText(mark)) ?? []
  if (link === undefined) return tree
  const gitFolder = resolve(tree, link)
  const common = resolve(gitFolder, readText(join(gitFolder, 'commondir')).trim() || '.')
  // A submodule's folder is inside its parent's: it has no `commondir` and is a work tree of its own.
  return basename(common) === '.git' ? dirname(common) : tree
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
