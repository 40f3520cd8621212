/**
 * Telling other processes that something became claimable: one byte appended to a file beside the store, after
 * the commit. (A watch on the WAL fires before the commit is visible.) A hint only; polling is the truth.
 */
import { constants, existsSync, type FSWatcher, ftruncateSync, watch, writeSync } from 'node:fs'
import type { Environment } from '../../environment.ts'
import { HelperFile } from './helper-file.ts'

const coalesceMs = 10
/** A file that was removed is not made again at once: somebody may be removing the whole folder. */
const findAgainMs = 250
const bytesMax = 64 * 1024
const byte = Buffer.from('.')

export class Wake {
  readonly #listeners = new Set<() => void>()
  readonly #commitListeners = new Set<() => void>()
  readonly #environment: Environment
  readonly #store: string
  /** Null for a private store: nobody else to tell. */
  readonly #file: HelperFile | null
  #watcher: FSWatcher | null = null
  #quiet = false
  #heardMore = false
  #written = 0
  /** When the file was last found to be the one that others know. */
  #foundAt = Number.NEGATIVE_INFINITY

  /** `store`: null for a private one. */
  constructor(store: string | null, environment: Environment) {
    const flags = constants.O_WRONLY | constants.O_APPEND
    this.#store = store ?? ''
    this.#file = store === null ? null : new HelperFile(store, 'wake', flags)
    this.#environment = environment
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    this.#startWatching()
    return () => {
      this.#listeners.delete(listener)
    }
  }

  listenToCommits(listener: () => void): () => void {
    this.#commitListeners.add(listener)
    this.#startWatching()
    return () => {
      this.#commitListeners.delete(listener)
    }
  }

  /** After any commit of this process. */
  committed(): void {
    for (const listener of this.#commitListeners) listener()
  }

  /** After a commit that concerns others: listeners of this process at once, other processes through the file. */
  ring(): void {
    for (const listener of this.#listeners) listener()
    if (this.#file === null) return
    const now = this.#environment.monotonic()
    if (now - this.#foundAt >= coalesceMs) this.#find(this.#file)
    this.#foundAt = now
    try {
      const descriptor = this.#file.open()
      writeSync(descriptor, byte)
      // A command rings once: each looks at what earlier ones have left.
      if (this.#written % 1024 === 0 && this.#file.stats().size > bytesMax) ftruncateSync(descriptor)
      this.#written++
    } catch {
      // A hint that could not be given (disk full, no such folder) costs others a poll, never correctness.
      this.#file.close()
    }
  }

  /** A file that was removed is made again, and watched again. */
  #find(file: HelperFile): void {
    if (file.isOpen && !file.isCurrent()) {
      this.#stopWatching()
      file.close()
    }
    if (this.#listeners.size + this.#commitListeners.size > 0) this.#startWatching()
  }

  #findLater(file: HelperFile): void {
    this.#stopWatching()
    file.close()
    this.#environment.timer(findAgainMs, () => {
      if (this.#listeners.size + this.#commitListeners.size === 0 || !existsSync(this.#store)) return
      this.#startWatching()
      // What was told meanwhile was not heard.
      for (const listener of this.#listeners) listener()
      this.committed()
    })
  }

  #startWatching(): void {
    if (this.#file === null || this.#watcher !== null) return
    try {
      this.#file.open()
      this.#watcher = watch(this.#file.path, { persistent: false }, () => this.#heard())
      this.#watcher.on('error', () => this.#stopWatching())
    } catch {
      // No watch to be had (limits of the host): the poll serves.
      this.#watcher = null
    }
  }

  /** At once, then at most every ten milliseconds: fifty commits in a burst make two looks, not fifty. */
  #heard(): void {
    if (this.#quiet) {
      this.#heardMore = true
      return
    }
    this.#quiet = true
    if (this.#file?.isOpen && !this.#file.isCurrent()) this.#findLater(this.#file)
    for (const listener of this.#listeners) listener()
    this.committed()
    this.#environment.timer(coalesceMs, () => {
      this.#quiet = false
      if (!this.#heardMore) return
      this.#heardMore = false
      this.#heard()
    })
  }

  #stopWatching(): void {
    this.#watcher?.close()
    this.#watcher = null
  }

  close(): void {
    this.#stopWatching()
    this.#listeners.clear()
    this.#commitListeners.clear()
    this.#file?.close()
  }
}
