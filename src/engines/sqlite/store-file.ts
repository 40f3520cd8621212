/**
 * The file of a store, identified by device and inode. SQLite keeps writing to a file that was deleted, renamed or
 * replaced, while a process that opens the path gets another store and is granted the same locks. So the path is
 * checked again and again. An existing file is never opened here: closing any descriptor of it would drop all locks
 * that SQLite holds on it in this process.
 */
import { type BigIntStats, closeSync, fchmodSync, fstatSync, openSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { HoldfastError } from '../../errors.ts'
import { fileModeIn } from '../../host/access.ts'
import { giveFileToCaller } from '../../host/hand-over.ts'
import type { EngineOptions, StoreWarning } from '../../port/engine.ts'
import { noStoreAt } from '../migration.ts'
import { Connection } from './connection.ts'
import { idOf, lookAt } from './file-stats.ts'
import { helperWarnings } from './helper-file.ts'
import { accessWarnings, assertLocal, fileSystemWarnings } from './store-location.ts'
import { assertNoStrayLog } from './store-log.ts'
import { checkLinks } from './store-name.ts'
import type { Turn } from './turn.ts'

/** One check takes about 5 µs. */
const lookEveryMs = 1

/** What happened to a lost file. */
export const gone = 'deleted or renamed'
const replaced = 'replaced by another file'

/**
 * Finds the store file, or creates it, and reports what is wrong with it. Its identity is recorded before it is opened
 * and checked again after the first write, so it is the file that was opened.
 */
export async function findStoreFile(
  location: string,
  turn: Turn,
  {
    environment,
    mustExist,
    file: expected,
  }: Pick<EngineOptions, 'environment'> & Partial<Pick<EngineOptions, 'mustExist' | 'file'>>,
): Promise<{ file: StoreFile; warnings: readonly StoreWarning[] }> {
  assertLocal(location, environment)
  const found = lookAt(location)
  // A thread that starts late must neither create a store nor open a different one.
  if (expected !== undefined && (found === null || idOf(found) !== expected))
    throw lostError(location, found === null ? gone : replaced)
  assertNoStrayLog(location)
  if (found === null && mustExist) throw noStoreAt(location)
  if (found === null) await makeStoreFile(location, turn)
  const stats = found ?? lookAt(location)
  if (stats === null) throw lostError(location, gone)
  const warnings = [
    ...checkLinks(location, stats.nlink),
    ...fileSystemWarnings(location, environment),
    ...accessWarnings(location, Number(stats.mode)),
    ...helperWarnings(location),
  ]
  await assertOneName(location, stats)
  return { file: new StoreFile(location, stats), warnings }
}

/**
 * Creates the file closed to others from the start, whatever the umask says; SQLite gives its log the same mode and
 * owner. This is the only descriptor of a store ever opened here, and only for a file that nobody can have opened
 * before.
 */
async function makeStoreFile(location: string, turn: Turn): Promise<void> {
  try {
    const mode = fileModeIn(dirname(location))
    const descriptor = openSync(location, 'wx', mode)
    try {
      fchmodSync(descriptor, mode)
      giveFileToCaller(descriptor, dirname(location))
    } finally {
      closeSync(descriptor)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return
    // SQLite's own error says more.
    await turn.take(() => new Connection(location).close())
  }
}

export class StoreFile {
  readonly #location: string
  readonly #stats: Pick<BigIntStats, 'dev' | 'ino'>
  readonly #listeners = new Set<(how: string) => void>()
  #lookedAt = Number.NEGATIVE_INFINITY
  /** What happened to it. */
  #lost: string | null = null

  constructor(location: string, stats: BigIntStats) {
    this.#location = location
    this.#stats = stats
  }

  get id(): string {
    return idOf(this.#stats)
  }

  get isLost(): boolean {
    return this.#lost !== null
  }

  /** Calls back once, when the file is found to be lost. */
  onLost(listener: (how: string) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Throws unless the path leads to this file. Once it does not, the file is lost for good, whatever appears there
   * later.
   */
  assertThere(now: number): void {
    if (this.#lost === null && now - this.#lookedAt >= lookEveryMs) this.#look(now)
    if (this.#lost !== null) throw lostError(this.#location, this.#lost)
  }

  /** The error for a caller whose change was committed to a lost file; null while the file is there. */
  refusalAfterCommit(now: number): HoldfastError | null {
    return this.isThere(now) ? null : doubtError(this.#location, this.#lost ?? '')
  }

  /** False only when the loss is certain: a file that is briefly unreachable is not lost. */
  isThere(now: number): boolean {
    try {
      this.assertThere(now)
      return true
    } catch {
      return this.#lost === null
    }
  }

  lose(how: string): void {
    if (this.#lost !== null) return
    this.#lost = how
    for (const listener of this.#listeners) listener(how)
  }

  #look(now: number): void {
    const found = lookAt(this.#location)
    if (found === null) this.lose(gone)
    else if (found.ino !== this.#stats.ino || found.dev !== this.#stats.dev) this.lose(replaced)
    else this.#lookedAt = now
  }
}

/** The path by which this thread last opened each file, by device and inode. */
const openedAt = new Map<string, string>()
const maxOpened = 1000

/**
 * Within one process, SQLite keeps one log index per file, named after the path by which the file was first opened. A
 * file renamed since then would be used with an index that other processes do not know.
 */
async function assertOneName(location: string, stats: BigIntStats): Promise<void> {
  const id = idOf(stats)
  const before = openedAt.get(id) ?? location
  if (before !== location && isOpenHere(id)) await collectClosed()
  if (before === location || !isOpenHere(id)) {
    openedAt.set(id, location)
    const [oldest] = openedAt.keys()
    if (openedAt.size > maxOpened) openedAt.delete(oldest as string)
    return
  }
  throw new HoldfastError('STORE_UNAVAILABLE', {
    what: `${location} was ${before} when this process opened it, and is still open here by that name`,
    next: 'close every handle to it, or open it by its new name in another process',
    facts: { location, before },
  })
}

/** The package's driver keeps a file open until the statements of a closed connection are garbage-collected. */
async function collectClosed(): Promise<void> {
  setFlagsFromString('--expose-gc')
  runInNewContext("if (typeof gc === 'function') gc()")
  await new Promise((done) => setImmediate(done))
}

/** Inode numbers are reused, so the open descriptors decide. */
function isOpenHere(id: string): boolean {
  try {
    return readdirSync('/dev/fd').some((descriptor) => isSameFile(Number(descriptor), id))
  } catch {
    return true
  }
}

function isSameFile(descriptor: number, id: string): boolean {
  try {
    return idOf(fstatSync(descriptor, { bigint: true })) === id
  } catch {
    // The descriptor that listed the folder is closed by now.
    return false
  }
}

/** `how`: what happened to the file. */
export function lostError(location: string, how: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} was ${how} while it was open; nothing was changed`,
    next: 'close this handle and open the store again; every lease of this handle is lost',
    facts: { location, lost: how, inDoubt: false },
  })
}

function doubtError(location: string, how: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} was ${how} during this change, which is only in the former file`,
    next: 'close this handle, open the store again and check before you repeat it',
    facts: { location, lost: how, inDoubt: true },
  })
}
