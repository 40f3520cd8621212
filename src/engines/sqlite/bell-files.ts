/**
 * The bells of a store: 64 small files in a folder beside it. One byte more in a file is a ring. (A watch on the log of
 * SQLite would fire before the commit can be seen, and for everybody.)
 */
import { constants, ftruncateSync, lstatSync, writeSync } from 'node:fs'
import { maxBells } from '../../domain/bell.ts'
import { bellEnd, HelperFile, makeBellFolder } from './helper-file.ts'

const maxBytes = 4096
const byte = Buffer.from('.')
const flags = constants.O_WRONLY | constants.O_APPEND

/** What is different after a ring. A file that was made anew is another file. */
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

  /** All at once where there are none yet, so that those who may only read the store can listen as well. */
  makeAll(): void {
    try {
      if (!makeBellFolder(this.#store)) return
      for (const file of this.#files) touch(file)
    } catch {
      // A full disk, a folder that takes no files: each is tried again when it is needed.
    }
  }

  /**
   * Throws where the file is not to be had. Nothing is kept open: a process would otherwise hold up to 64 descriptors per
   * store and thread, and would not notice that a file was replaced.
   */
  ring(bell: number): void {
    const file = this.#of(bell)
    try {
      const descriptor = file.open()
      if (file.stats().size >= maxBytes) ftruncateSync(descriptor)
      writeSync(descriptor, byte)
    } finally {
      file.close()
    }
  }

  /** Made if it is not there. Throws where it is not to be had. */
  find(bell: number): void {
    const file = this.#of(bell)
    if (this.look(bell) === null) touch(file)
    file.assertSound()
  }

  /** Null: it is not there. */
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
