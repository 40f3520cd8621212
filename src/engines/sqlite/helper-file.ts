/**
 * A small file of ours beside the store that every user of the store writes to. Anyone who may write to the folder, or
 * who wrote the repository it came with, may have put something else there. So links are not followed, and only a plain
 * file owned by someone trusted with the store is written to. If it fails these checks, we do without it.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { maxBells } from '../../domain/bell.ts'
import { isOwn, isShared, noFollowFlags } from '../../host/access.ts'
import { pathOf } from '../../host/hand-over.ts'
import type { StoreWarning } from '../../port/engine.ts'

export const turnEnd = '-turn'
const bellFolderEnd = '-bells'
const setGroup = 0o2000

/** The suffix that turns the path of a store into the path of one of its bells. */
export function bellEnd(bell: number): string {
  return `${bellFolderEnd}/${String(bell).padStart(2, '0')}`
}

interface OpenedFile {
  readonly descriptor: number
  readonly dev: number
  readonly ino: number
  readonly size: number
}

export class HelperFile {
  readonly path: string
  /** Its folder; null if that is the store's own. */
  readonly #folder: string | null
  readonly #store: string
  readonly #flags: number
  #opened: OpenedFile | null = null

  constructor(store: string, end: string, flags: number) {
    this.path = store + end
    const folder = dirname(this.path)
    this.#folder = folder === dirname(store) ? null : folder
    this.#store = store
    this.#flags = flags
  }

  /** Returns its descriptor. Throws if the file does not exist and cannot be created. */
  open(): number {
    this.#opened ??= this.#open()
    return this.#opened.descriptor
  }

  get isOpen(): boolean {
    return this.#opened !== null
  }

  /** How large it was when it was opened. */
  get sizeAtOpen(): number {
    return this.#opened?.size ?? 0
  }

  /** Throws if what is there must not be used. Does not open it. */
  assertSound(): void {
    this.#assertFolder()
    const fault = faultOf(lstatSync(this.path), this.#store)
    if (fault !== null) throw unused(this.path, fault)
  }

  /** Whether the path still leads to the open file: others may have removed and recreated it. */
  isCurrent(): boolean {
    try {
      const { dev, ino } = statSync(this.path)
      return ino === this.#opened?.ino && dev === this.#opened?.dev
    } catch {
      return false
    }
  }

  close(): void {
    if (this.#opened !== null) closeSync(this.#opened.descriptor)
    this.#opened = null
  }

  #open(): OpenedFile {
    this.#assertFolder()
    const descriptor = this.#openExisting() ?? this.#make() ?? this.#openExisting()
    if (descriptor === null) throw new Error(`${this.path} can be neither opened nor created`)
    const found = fstatSync(descriptor)
    const fault = faultOf(found, this.#store)
    if (fault === null) return { descriptor, dev: found.dev, ino: found.ino, size: found.size }
    closeSync(descriptor)
    throw unused(this.path, fault)
  }

  /** Creates our folder if it is missing. Symbolic links to it are not followed either. */
  #assertFolder(): void {
    const folder = this.#folder
    if (folder === null) return
    const found = lstatSync(folder, { throwIfNoEntry: false })
    const fault = folderFault(found, this.#store)
    if (fault !== null) throw unused(folder, fault)
    if (found === undefined) makeBellFolder(this.#store)
  }

  #openExisting(): number | null {
    // Never blocks: opening a pipe would otherwise wait for its other end.
    return openUnless('ENOENT', this.path, this.#flags)
  }

  /**
   * Gets the store's mode and, for root, its owner, as SQLite does for its log: anyone who may use the store may use
   * this file. But not if a link that somebody put in our folder's place has led it elsewhere.
   */
  #make(): number | null {
    const { O_CREAT, O_EXCL } = constants
    const descriptor = openUnless('EEXIST', this.path, this.#flags | O_CREAT | O_EXCL)
    if (descriptor === null || process.getuid === undefined) return descriptor
    const { mode, uid, gid } = statSync(this.#store)
    const isHere = (pathOf(descriptor) ?? this.path) === this.path
    if (process.getuid() === 0 && isHere) fchownSync(descriptor, uid, gid)
    fchmodSync(descriptor, mode & 0o666)
    return descriptor
  }
}

function openUnless(code: string, path: string, flags: number): number | null {
  const { O_NOFOLLOW, O_NONBLOCK } = constants
  try {
    return openSync(path, flags | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0), 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === code) return null
    throw error
  }
}

/** Gets the store's permissions, like the files in it. Returns false if something by that name exists. */
export function makeBellFolder(store: string): boolean {
  const folder = store + bellFolderEnd
  try {
    mkdirSync(folder, 0o700)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  if (process.getuid === undefined) return true
  const { mode, uid, gid } = statSync(store)
  // Anyone who may read a file in it may enter it; in a shared folder, what a group creates stays with that group.
  const inherited = statSync(dirname(store)).mode & setGroup
  // Somebody else may have put a link in its place by now.
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | noFollowFlags)
  try {
    if (process.getuid() === 0) fchownSync(descriptor, uid, gid)
    fchmodSync(descriptor, (mode & 0o666) | ((mode & 0o444) >> 2) | inherited)
  } finally {
    closeSync(descriptor)
  }
  return true
}

function unused(path: string, fault: string): Error {
  return new Error(`${path} is not used: ${fault}`)
}

/** Why a folder beside the store is not used; null if it is, or can be created. */
function folderFault(found: Stats | undefined, store: string): string | null {
  if (found === undefined) return null
  if (found.isSymbolicLink()) return 'it is a symbolic link'
  if (!found.isDirectory()) return 'it is not a folder'
  return ownerFault(found, store)
}

/** Why a file beside the store is not used; null if it is. */
function faultOf(found: Stats, store: string): string | null {
  if (found.isSymbolicLink()) return 'it is a symbolic link'
  if (!found.isFile()) return 'it is not a plain file'
  if (found.nlink > 1) return 'it has other names (hard links)'
  return ownerFault(found, store)
}

function ownerFault(found: Stats, store: string): string | null {
  if (isOwn(found) || found.uid === 0 || found.uid === statSync(store).uid) return null
  const folder = statSync(dirname(store))
  return isShared(folder) && found.gid === folder.gid ? null : `it belongs to another user (uid ${found.uid})`
}

/** Warns about things in place of our files that we do not use. */
export function helperWarnings(store: string): StoreWarning[] {
  const folder = store + bellFolderEnd
  const found = lstatSync(folder, { throwIfNoEntry: false })
  const fault = folderFault(found, store)
  if (fault !== null) return [warning(folder, fault), ...fileWarnings(store, [turnEnd])]
  const bells = found === undefined ? [] : Array.from({ length: maxBells }, (_, bell) => bellEnd(bell))
  // One warning is enough to make someone look at the folder.
  return [...fileWarnings(store, [turnEnd]), ...fileWarnings(store, bells).slice(0, 1)]
}

function fileWarnings(store: string, ends: readonly string[]): StoreWarning[] {
  return ends.flatMap((end) => {
    const found = statsIfSeen(store + end)
    const fault = found ? faultOf(found, store) : null
    return fault === null ? [] : [warning(store + end, fault)]
  })
}

/** A process that may only read the store may not be allowed to look into the folder beside it. */
function statsIfSeen(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

function warning(path: string, fault: string): StoreWarning {
  const what = `${path} is not used: ${fault}; processes notice each other's changes later without it`
  return { check: 'files', what, remedy: `find out what it is, then remove it` }
}
