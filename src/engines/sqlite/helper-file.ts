/**
 * A small file of ours beside the store, which everybody who uses the store writes to. Whoever may write to the folder
 * may have put something else there: a link is not followed, and what is no plain file is not written to.
 */
import { closeSync, constants, fstatSync, openSync, type Stats, statSync } from 'node:fs'

export class HelperFile {
  readonly path: string
  readonly #flags: number
  #opened: { readonly descriptor: number; readonly dev: number; readonly ino: number } | null = null

  constructor(path: string, flags: number) {
    this.path = path
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
    const { O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
    // To open a pipe would wait for somebody at its other end.
    const descriptor = openSync(this.path, this.#flags | O_CREAT | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0))
    const found = fstatSync(descriptor)
    if (found.isFile()) return { descriptor, dev: found.dev, ino: found.ino }
    closeSync(descriptor)
    throw new Error(`${this.path} is not a plain file`)
  }
}
