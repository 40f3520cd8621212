/**
 * The bells of a store: 64 small files in a folder beside it. Appending one byte to a file is a ring. (A watch on
 * SQLite's log would fire before the commit is visible, and for everybody.)
 */
import { constants, ftruncateSync, lstatSync, writeSync } from 'node:fs'
import { maxBells } from '../../domain/bell.ts'
import { bellEnd, HelperFile, makeBellFolder } from './helper-file.ts'

const maxBytes = 4096
const byte = Buffer.from('.')
const flags = constants.O_WRONLY | constants.O_APPEND

/** What changes with a ring. A recreated file counts as a different file. */
export interface BellState {
  readonly ino: bigint
  readonly size: bigint
  readonly mtimeNs: bigint
}

export class BellFiles {
  readonly #files: readonly HelperFile[]
  readonly #store: string

  constructor(store: string) {
    this.#store = store
    this.#files = Array.from({ length: maxBells }, (_, bell) => new HelperFile(store, bellEnd(bell), flags))
  }

  path(bell: number): string {
    return this.#of(bell).path
  }

  #of(bell: number): HelperFile {
    return this.#files[bell] as HelperFile
  }

  /**
   * Creates all of them at once if there are none yet, so that processes that may only read the store can listen too.
   */
  makeAll(): void {
    try {
      if (!makeBellFolder(this.#store)) return
      for (const file of this.#files) touch(file)
    } catch {
      // The disk is full, or the folder takes no files. Each file is tried again when it is needed.
    }
  }

  /**
   * Throws if the file is unavailable. Nothing is kept open: a process would otherwise hold up to 64 descriptors per
   * store and thread, and would not notice that a file was replaced.
   */
  ring(bell: number): void {
    const file = this.#of(bell)
    try {
      const descriptor = file.open()
      if (file.sizeAtOpen >= maxBytes) ftruncateSync(descriptor)
      writeSync(descriptor, byte)
    } finally {
      file.close()
    }
  }

  /** Creates the file if it is missing. Throws if it is unavailable. */
  find(bell: number): void {
    const file = this.#of(bell)
    if (this.look(bell) === null) touch(file)
    file.assertSound()
  }

  /** Null: it does not exist. */
  look(bell: number): BellState | null {
    try {
      const { ino, size, mtimeNs } = lstatSync(this.path(bell), { bigint: true })
      return { ino, size, mtimeNs }
    } catch {
      return null
    }
  }
}

function touch(file: HelperFile): void {
  try {
    file.open()
  } finally {
    file.close()
  }
}
