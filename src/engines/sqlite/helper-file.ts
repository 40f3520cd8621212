/**
 * A small file of ours beside the store, which everybody who uses the store writes to. Whoever may write to the folder,
 * or wrote the repository it came with, may have put something else there: a link is not followed, and only a plain file
 * of somebody who is trusted with the store is written to. Where it does not pass, it is done without.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { isOwn, isShared } from '../../host/access.ts'
import type { StoreWarning } from '../engine.ts'

const ends = { wake: '-wake', turn: '-turn' } as const

export class HelperFile {
  readonly path: string
  readonly #store: string
  readonly #flags: number
  #opened: { readonly descriptor: number; readonly dev: number; readonly ino: number } | null = null

  constructor(store: string, kind: keyof typeof ends, flags: number) {
    this.path = store + ends[kind]
    this.#store = store
    this.#flags = flags
  }

  /** Its descriptor. Throws where there is no such file and none can be made. */
  open(): number {
    this.#opened ??= this.#open()
    return this.#opened.descriptor
  }

  get isOpen(): boolean {
    return this.#opened !== null
  }

  stats(): Stats {
    return fstatSync(this.open())
  }

  /** Whether the name still leads to the file that is open: it may have been removed, and made anew by others. */
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

  #open(): { descriptor: number; dev: number; ino: number } {
    const descriptor = this.#openExisting() ?? this.#make() ?? this.#openExisting()
    if (descriptor === null) throw new Error(`${this.path} cannot be had`)
    const found = fstatSync(descriptor)
    const fault = faultOf(found, this.#store)
    if (fault === null) return { descriptor, dev: found.dev, ino: found.ino }
    closeSync(descriptor)
    throw new Error(`${this.path} is not used: ${fault}`)
  }

  #openExisting(): number | null {
    // To open a pipe would wait for somebody at its other end.
    return openUnless('ENOENT', this.path, this.#flags)
  }

  /** With the mode and, for root, the owner of the store, as SQLite makes its log: whoever may use the one may use the other. */
  #make(): number | null {
    const { O_CREAT, O_EXCL } = constants
    const descriptor = openUnless('EEXIST', this.path, this.#flags | O_CREAT | O_EXCL)
    if (descriptor === null || process.getuid === undefined) return descriptor
    const { mode, uid, gid } = statSync(this.#store)
    if (process.getuid() === 0) fchownSync(descriptor, uid, gid)
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

/** Why a file beside the store is not used; null where it is. */
function faultOf(found: Stats, store: string): string | null {
  if (found.isSymbolicLink()) return 'it is a symbolic link'
  if (!found.isFile()) return 'it is not a plain file'
  if (found.nlink > 1) return 'it has other names (hard links)'
  if (isOwn(found) || found.uid === 0 || found.uid === statSync(store).uid) return null
  const folder = statSync(dirname(store))
  return isShared(folder) && found.gid === folder.gid ? null : `it belongs to another user (uid ${found.uid})`
}

/** What lies in the place of our files and is not used. */
export function helperWarnings(store: string): StoreWarning[] {
  return Object.values(ends).flatMap((end) => {
    const path = store + end
    const found = lstatSync(path, { throwIfNoEntry: false })
    const fault = found ? faultOf(found, store) : null
    if (fault === null) return []
    const what = `${path} is not used: ${fault}; processes notice each other's changes later without it`
    return [{ check: 'files', what, remedy: `look at what it is, and remove it` }]
  })
}
