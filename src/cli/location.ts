/**
 * Finds the store of a folder: the nearest `.holdfast/` upward, as far as the user's home, a mount point or the root;
 * otherwise that of the git repository's main work tree, so that agents in separate work trees share one store;
 * otherwise `.holdfast/` in the current folder.
 *
 * The author of a folder controls its contents. So a `.holdfast` that is a link, belongs to another user or is
 * world-writable is never used: inside the user's work tree it is an error, above it is skipped.
 */
import { lstatSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { HoldfastError } from '../errors.ts'
import { unlessRefused } from '../host/unless-refused.ts'
import { trustedOwners } from '../host/user.ts'
import type { Io } from './io.ts'
import { readPlainFile } from './plain-file.ts'

export const folderName = '.holdfast'
export const storeName = 'store.db'
export const configName = 'config.toml'

/** Room for more than the longest path that a system allows; each of the git files read here contains one path. */
const gitFileBytes = 8192

export interface Home {
  /** The `.holdfast` folder, whether or not it exists. */
  readonly folder: string
  readonly because: string
  /** Folders found on the way but not used, each with the reason. */
  readonly passedOver: readonly string[]
}

export function findHome({ cwd, env }: Pick<Io, 'cwd' | 'env'>): Home {
  const tree = upward(cwd).find((folder) => lstatSync(join(folder, '.git'), { throwIfNoEntry: false }))
  const passedOver: string[] = []
  for (const above of upward(cwd)) {
    const folder = join(above, folderName)
    const found = look(folder, env)
    if (found === 'usable') return { folder, because: 'the nearest in this folder or above', passedOver }
    if (found === 'absent') continue
    if (tree !== undefined && isWithin(above, tree)) throw unusable(folder, found)
    passedOver.push(`${folder} is not used: ${found}`)
  }
  const main = tree === undefined ? null : mainWorkTree(tree)
  const folder = join(main ?? cwd, folderName)
  assertUsableHome(folder, env)
  const because = main === null ? 'the current folder' : 'the main work tree of this repository'
  return { folder, because, passedOver }
}

/** The home in this folder, without a search. */
export function homeHere(cwd: string): Home {
  return { folder: join(cwd, folderName), because: 'the current folder', passedOver: [] }
}

/** Throws if the folder must not be used. It need not exist yet. */
export function assertUsableHome(folder: string, env: Io['env']): void {
  const found = look(folder, env)
  if (found !== 'usable' && found !== 'absent') throw unusable(folder, found)
}

/** `usable`, `absent`, or the reason why it is not used. */
function look(folder: string, env: Io['env']): string {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (found?.isSymbolicLink()) return 'it is a symbolic link'
  if (!found?.isDirectory()) return 'absent'
  const owners = trustedOwners(env)
  if (owners === null) return 'usable'
  if (!owners.has(found.uid)) return `it belongs to another user (uid ${found.uid})`
  return (found.mode & 0o002) === 0 ? 'usable' : 'everyone can write to it'
}

function unusable(folder: string, why: string): HoldfastError {
  return new HoldfastError('FORBIDDEN', {
    what: `${folder} is not used: ${why}`,
    next: 'name the store you mean with --store or HOLDFAST_URL, or take the folder over (chown, chmod o-w)',
    facts: { folder },
  })
}

/** The folder and those above it, up to the user's home, the top of its file system or the root. */
function upward(from: string): string[] {
  const home = realPath(homedir())
  const folders = [resolve(from)]
  for (let folder = folders[0] as string; folder !== home; folder = dirname(folder)) {
    const above = dirname(folder)
    if (above === folder || deviceOf(above) !== deviceOf(folder)) break
    folders.push(above)
  }
  return folders
}

function deviceOf(folder: string): number | undefined {
  return statSync(folder, { throwIfNoEntry: false })?.dev
}

function realPath(path: string): string {
  return unlessRefused(() => realpathSync(path)) ?? path
}

export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)
}

/** Reads git's files instead of running git. Returns the tree itself unless it is a linked work tree. */
function mainWorkTree(tree: string): string {
  const mark = join(tree, '.git')
  const [, link] = /^gitdir: (.+)$/m.exec(readLine(mark)) ?? []
  if (link === undefined) return tree
  const gitFolder = resolve(tree, link)
  // Follow the link only if the repository knows this work tree: anyone can write a `.git` file.
  const known = readLine(join(gitFolder, 'gitdir'))
  if (known === '' || realPath(resolve(gitFolder, known)) !== realPath(mark)) return tree
  // A submodule's folder has no `commondir`: it is a separate work tree.
  const common = resolve(gitFolder, readLine(join(gitFolder, 'commondir')) || '.')
  // Nor may the folder name its own repository: it must be in that repository's list of work trees.
  const isListed = realPath(dirname(gitFolder)) === realPath(join(common, 'worktrees'))
  return isListed && basename(common) === '.git' ? dirname(common) : tree
}

/** Empty if it is not a plain file. */
function readLine(path: string): string {
  const found = readPlainFile(path, gitFileBytes)
  return found !== null && 'text' in found ? found.text.trim() : ''
}
