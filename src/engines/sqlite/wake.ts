/**
 * Telling other processes that something became claimable: one byte appended to a file beside the store, after
 * the commit. (A watch on the WAL fires before the commit is visible.) A hint only; polling is the truth.
 */
import { closeSync, type FSWatcher, fstatSync, ftruncateSync, openSync, watch, writeSync } from 'node:fs'
import type { Environment } from '../../environment.ts'

const coalesceMs = 10
const bytesMax = 64 * 1024
const byte = Buffer.from('.')

export class Wake {
  readonly #listeners = new Set<() => void>()
  readonly #commitListeners = new Set<() => void>()
  readonly #environment: Environment
  readonly #path: string | null
  #file: number | null = null
  #watcher: FSWatcher | null = null
  #quiet = false
  #heardMore = false
  #written = 0

  /** `path` null: a private store, nobody else to tell. */
  constructor(path: string | null, environment: Environment) {
    this.#path = path
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
    if (this.#path === null) return
    try {
      this.#file ??= openSync(this.#path, 'a')
      writeSync(this.#file, byte)
      this.#written++
      if (this.#written % 1024 === 0 && fstatSync(this.#file).size > bytesMax) ftruncateSync(this.#file)
    } catch {
      // A hint that could not be given (disk full, file removed) costs others a poll, never correctness.
      this.#file = null
    }
  }

  #startWatching(): void {
    if (this.#path === null || this.#watcher !== null) return
    try {
      this.#file ??= openSync(this.#path, 'a')
      this.#watcher = watch(this.#path, { persistent: false }, () => this.#heard())
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
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }
}
