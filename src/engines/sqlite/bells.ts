/**
 * Telling other processes what a commit concerns: a ring on the bell of each thing, after the commit. Only processes that
 * wait for such a thing watch its file, so a busy queue wakes nobody who waits for another. All watches of a process are
 * in the thread that has waiters, and share one inotify instance: a user may have 128 of those. Rings are a hint; looking
 * is the truth.
 */
import { existsSync, type FSWatcher, watch } from 'node:fs'
import type { Environment } from '../../environment.ts'
import { BellListeners } from '../bell-listeners.ts'
import type { EngineOptions } from '../engine.ts'
import { Hearing } from '../hearing.ts'
import { BellFiles, type BellState } from './bell-files.ts'

/** Between two rings of one process on one bell, and between two that one process hears. */
const coalesceMs = 10
/** Without a watch. */
const statEveryMs = 50
/** A file that was removed is not made again at once: somebody may be removing the whole folder. */
const findAgainMs = 250

/** A bell that is listened to. */
interface Awaited {
  /** Null: there is no watch, and its file is looked at from time to time. */
  watcher: FSWatcher | null
  /** As it was when its listeners were last told. */
  known: BellState | null
  /** They were told a moment ago. */
  isQuiet: boolean
}

export class Bells {
  readonly #listeners = new BellListeners()
  readonly #environment: Environment
  readonly #log: EngineOptions['log']
  readonly #store: string
  /** Null for a private store: nobody else to tell. */
  readonly #files: BellFiles | null
  readonly #hearing: Hearing
  readonly #awaited = new Map<number, Awaited>()
  readonly #rungAt = new Map<number, number>()
  /** Rings that are still to be given, in this turn of ten milliseconds. */
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

  /** Made with the store, and never replaced while it is open. */
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

  /** After a commit: listeners of this thread at once, everybody else through the files. */
  ring(bells: Iterable<number>): void {
    for (const bell of bells) {
      this.#listeners.call(bell)
      if (this.#files === null || this.#closed) continue
      const waitMs = this.#quietMs(bell)
      if (waitMs <= 0) this.#write(bell, this.#files)
      else {
        this.#owed.add(bell)
        this.#giveIn(waitMs)
      }
    }
  }

  /** How long until it may ring again. */
  #quietMs(bell: number): number {
    const rungAt = this.#rungAt.get(bell) ?? Number.NEGATIVE_INFINITY
    return rungAt + coalesceMs - this.#environment.monotonic()
  }

  /** The process stays alive for so long, or others would not hear of what it did last. */
  #giveIn(waitMs: number): void {
    if (this.#cancelOwed !== null) return
    ringAtExit.add(this)
    this.#cancelOwed = this.#environment.timer(Math.ceil(waitMs), () => this.#giveDue(), true)
  }

  #giveDue(): void {
    this.#giveSome((bell) => this.#quietMs(bell) <= 0)
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
      // A hint that could not be given (disk full, no such folder) costs others a poll, never correctness.
    }
  }

  /** Listeners here were called when it was committed. Where another has rung meanwhile, the file grew by more. */
  #passOverOwn(bell: number, files: BellFiles): void {
    const awaited = this.#awaited.get(bell)
    const found = awaited && files.look(bell)
    if (!awaited?.known || !found) return
    if (found.ino === awaited.known.ino && found.size === awaited.known.size + 1n) awaited.known = found
  }

  /** From here on it is heard: the watch is set before the file is looked at, and that before the store is. */
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

  /** No watch to be had (a limit of the host, a file that is not ours). */
  #doWithout(awaited: Awaited, error: unknown): void {
    awaited.watcher?.close()
    awaited.watcher = null
    if (!this.#isDegraded) {
      this.#isDegraded = true
      const what = 'files cannot be watched here, so changes of other processes are noticed a little later'
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

  /** At once, then at most every ten milliseconds: fifty commits in a burst make two looks, not fifty. */
  #look(bell: number, files: BellFiles): void {
    const awaited = this.#awaited.get(bell)
    if (!awaited || awaited.isQuiet || this.#closed) return
    // Forgotten when it rings and nobody listens, not when the last one leaves: most come back at once.
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

  /** Somebody removed it. What is told meanwhile is not heard. */
  #findLater(bell: number, awaited: Awaited, files: BellFiles): void {
    this.#forget(bell, awaited)
    this.#environment.timer(findAgainMs, () => {
      if (this.#closed || !this.#listeners.has(bell) || !existsSync(this.#store)) return
      this.#await(bell, files)
      this.#listeners.call(bell)
    })
  }

  /** On a bell that this process listens to. */
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

/** A program that calls `process.exit()` leaves no time for a timer. */
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
