/**
 * Tells other processes what a commit affects, by ringing the bell of each affected thing after the commit. Only
 * processes waiting for such a thing watch its file, so a busy queue wakes nobody who waits for another one. All
 * watches of a process live in the thread that has waiters and share one inotify instance, because a user may have only
 * 128. Rings are a hint; waiters must still check the store.
 */
import { existsSync, type FSWatcher, watch } from 'node:fs'
import type { Environment } from '../../environment.ts'
import type { EngineOptions } from '../../port/engine.ts'
import { Hearing } from '../hearing.ts'
import { Listeners } from '../listeners.ts'
import { BellFiles, type BellState } from './bell-files.ts'

/** Minimum time between two rings of one process on one bell, and between two that one process hears. */
const coalesceMs = 10
/** How often a file without a watch is checked. */
const statEveryMs = 50
/** A removed file is not recreated at once: someone may be removing the whole folder. */
const findAgainMs = 250

/** A bell with listeners. */
interface Awaited {
  /** Null: there is no watch, so the file is polled. */
  watcher: FSWatcher | null
  /** Its state when its listeners were last called. */
  known: BellState | null
  /** The listeners were called within the last `coalesceMs`. */
  isQuiet: boolean
}

export class Bells {
  readonly #listeners = new Listeners<number>()
  readonly #environment: Environment
  readonly #log: EngineOptions['log']
  readonly #store: string
  /** Null for a private store, which no other process can open. */
  readonly #files: BellFiles | null
  readonly #hearing: Hearing
  readonly #awaited = new Map<number, Awaited>()
  readonly #rungAt = new Map<number, number>()
  /** Rings still owed in the current 10 ms window. */
  readonly #owed = new Set<number>()
  #cancelOwed: (() => void) | null = null
  #isStatting = false
  #isDegraded = false
  #closed = false

  /** `store`: null for a private one. */
  constructor(store: string | null, { environment, log }: Pick<EngineOptions, 'environment' | 'log'>) {
    this.#store = store ?? ''
    this.#files = store === null ? null : new BellFiles(store)
    this.#environment = environment
    this.#log = log
    this.#hearing = new Hearing(environment, () => this.#test())
  }

  /** Created with the store, and never replaced while it is open. */
  makeAll(): void {
    this.#files?.makeAll()
  }

  get areHeard(): boolean {
    return this.#files === null || this.#hearing.isProven
  }

  listen(bell: number, listener: () => void): () => void {
    if (this.#files !== null && !this.#closed) this.#await(bell, this.#files)
    return this.#listeners.add(bell, listener)
  }

  /** Called after a commit. Calls this thread's listeners at once and reaches everyone else through the files. */
  ring(bells: Iterable<number>): void {
    for (const bell of bells) {
      this.#listeners.call(bell)
      if (this.#files === null || this.#closed || this.#owed.has(bell)) continue
      const waitMs = this.#quietMs(bell)
      if (waitMs <= 0) this.#write(bell, this.#files)
      else {
        this.#owed.add(bell)
        this.#giveIn(waitMs)
      }
    }
  }

  /** How long until the bell may ring again. */
  #quietMs(bell: number): number {
    const rungAt = this.#rungAt.get(bell) ?? Number.NEGATIVE_INFINITY
    return rungAt + coalesceMs - this.#environment.monotonic()
  }

  /** The timer keeps the process alive, or others would never hear of its last change. */
  #giveIn(waitMs: number): void {
    if (this.#cancelOwed !== null) return
    ringAtExit.add(this)
    this.#cancelOwed = this.#environment.timer(Math.ceil(waitMs), () => this.#giveDue(), true)
  }

  #giveDue(): void {
    // A timer counts whole milliseconds and may fire a little early; another one for the rest would cost more.
    this.#giveSome((bell) => this.#quietMs(bell) < 1)
    const waits = [...this.#owed].map((bell) => this.#quietMs(bell))
    if (waits.length > 0) this.#giveIn(Math.min(...waits))
  }

  giveOwed(): void {
    this.#giveSome(() => true)
  }

  #giveSome(isMeant: (bell: number) => boolean): void {
    this.#cancelOwed?.()
    this.#cancelOwed = null
    ringAtExit.delete(this)
    for (const bell of [...this.#owed].filter(isMeant)) {
      this.#owed.delete(bell)
      this.#write(bell, this.#files as BellFiles)
    }
  }

  #write(bell: number, files: BellFiles): void {
    this.#rungAt.set(bell, this.#environment.monotonic())
    try {
      files.ring(bell)
      this.#passOverOwn(bell, files)
    } catch {
      // A lost hint (disk full, no such folder) costs others a poll, never correctness.
    }
  }

  /**
   * Ignores our own ring, because listeners here were already called at the commit. If another process rang in the
   * meantime, the file grew by more than one byte.
   */
  #passOverOwn(bell: number, files: BellFiles): void {
    const awaited = this.#awaited.get(bell)
    const found = awaited && files.look(bell)
    if (!awaited?.known || !found) return
    if (found.ino === awaited.known.ino && found.size === awaited.known.size + 1n) awaited.known = found
  }

  /**
   * No ring is missed from here on: the watch is set before the file is read, and the file is read before the store is.
   */
  #await(bell: number, files: BellFiles): void {
    if (this.#awaited.has(bell)) return
    const awaited: Awaited = { watcher: null, known: null, isQuiet: false }
    this.#awaited.set(bell, awaited)
    try {
      files.find(bell)
      awaited.watcher = watch(files.path(bell), { persistent: false }, () => {
        this.#hearing.heard()
        this.#look(bell, files)
      })
      awaited.watcher.on('error', (error) => this.#doWithout(awaited, error))
    } catch (error) {
      this.#doWithout(awaited, error)
    }
    awaited.known = files.look(bell)
  }

  /** The file cannot be watched (a host limit, or a file that is not ours). */
  #doWithout(awaited: Awaited, error: unknown): void {
    awaited.watcher?.close()
    awaited.watcher = null
    if (!this.#isDegraded) {
      this.#isDegraded = true
      const what = 'files cannot be watched here, so changes by other processes are noticed a little later'
      this.#log('warn', 'wake.degraded', { error: String(error), what })
    }
    this.#statLater()
  }

  #statLater(): void {
    if (this.#isStatting || this.#closed) return
    this.#isStatting = true
    this.#environment.timer(statEveryMs, () => {
      this.#isStatting = false
      const unwatched = [...this.#awaited].filter(([, { watcher }]) => watcher === null)
      for (const [bell] of unwatched) this.#look(bell, this.#files as BellFiles)
      if (unwatched.some(([bell]) => this.#awaited.has(bell))) this.#statLater()
    })
  }

  /** Notifies at once, then at most every 10 ms: a burst of fifty commits causes two looks, not fifty. */
  #look(bell: number, files: BellFiles): void {
    const awaited = this.#awaited.get(bell)
    if (!awaited || awaited.isQuiet || this.#closed) return
    // Dropped when it rings and nobody listens, not when the last listener leaves: most come back at once.
    if (!this.#listeners.has(bell)) {
      this.#forget(bell, awaited)
      return
    }
    const found = files.look(bell)
    if (isSame(found, awaited.known)) return
    if (found === null) {
      this.#findLater(bell, awaited, files)
      return
    }
    if (found.ino === awaited.known?.ino) awaited.known = found
    else {
      this.#forget(bell, awaited)
      this.#await(bell, files)
    }
    this.#tell(bell, files)
  }

  #tell(bell: number, files: BellFiles): void {
    const awaited = this.#awaited.get(bell) as Awaited
    awaited.isQuiet = true
    this.#listeners.call(bell)
    this.#environment.timer(coalesceMs, () => {
      awaited.isQuiet = false
      this.#look(bell, files)
    })
  }

  #forget(bell: number, awaited: Awaited): void {
    awaited.watcher?.close()
    this.#awaited.delete(bell)
  }

  /** The file was removed. Rings are missed until it is found again. */
  #findLater(bell: number, awaited: Awaited, files: BellFiles): void {
    this.#forget(bell, awaited)
    this.#environment.timer(findAgainMs, () => {
      if (this.#closed || !this.#listeners.has(bell) || !existsSync(this.#store)) return
      this.#await(bell, files)
      this.#listeners.call(bell)
    })
  }

  /** Rings a bell that this process listens to. */
  #test(): void {
    const watched = this.#listeners.awaited.find((bell) => this.#awaited.get(bell)?.watcher)
    if (watched !== undefined && this.#files !== null) this.#write(watched, this.#files)
  }

  close(): void {
    this.giveOwed()
    this.#closed = true
    for (const [bell, awaited] of this.#awaited) this.#forget(bell, awaited)
    this.#listeners.clear()
  }
}

function isSame(left: BellState | null, right: BellState | null): boolean {
  return left?.ino === right?.ino && left?.size === right?.size && left?.mtimeNs === right?.mtimeNs
}

/** Gives the owed rings at exit: `process.exit()` leaves no time for a timer. */
const ringAtExit = {
  owing: new Set<Bells>(),
  give: () => {
    for (const bells of ringAtExit.owing) bells.giveOwed()
  },
  add(bells: Bells): void {
    if (ringAtExit.owing.size === 0) process.on('exit', ringAtExit.give)
    ringAtExit.owing.add(bells)
  },
  delete(bells: Bells): void {
    if (ringAtExit.owing.delete(bells) && ringAtExit.owing.size === 0) process.off('exit', ringAtExit.give)
  },
}
