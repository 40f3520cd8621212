/**
 * A store that this process may read but not write, because of the permissions of the file or its folder. It reads what
 * others committed; every write is refused.
 */
import { accessSync, constants, existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { HoldfastError } from '../../errors.ts'
import type { EngineOptions } from '../../port/engine.ts'
import { noStoreAt } from '../migration.ts'
import { isUnwritable } from './classify.ts'
import { knownOffset } from './clock.ts'
import { Connection } from './connection.ts'
import { lookAt } from './file-stats.ts'
import { assertUsableAtOpen, readManualGrace } from './marks.ts'
import { isCurrent, isMade } from './migrate.ts'
import { hasLog } from './store-log.ts'
import { assertLogCame } from './store-name.ts'

export interface ReadableStore {
  readonly connection: Connection
  readonly offset: number
  readonly manualGraceMs: number
  /** False once someone has changed the file in a way that this connection cannot see; it must then be reopened. */
  isCurrent(): boolean
}

/**
 * Whether this process may not write to the file. Checked before SQLite opens it: while others have the store open,
 * SQLite treats a read-only file as writable until the first write.
 */
export function isReadOnly(location: string): boolean {
  try {
    accessSync(location, constants.W_OK)
    return false
  } catch (error) {
    return ['EACCES', 'EPERM', 'EROFS'].includes(String((error as NodeJS.ErrnoException).code))
  }
}

type ReadingOptions = Pick<EngineOptions, 'environment' | 'mustExist' | 'maxReadBytes'>

/** Null if there is nothing to read. */
export function openReadable(
  location: string,
  { environment, mustExist, maxReadBytes }: ReadingOptions,
): ReadableStore | null {
  if (!existsSync(location)) return null
  const { connection, isCurrent: isFileCurrent } = openUnwritten(location, maxReadBytes)
  try {
    connection.exec('begin')
    if (!isMade(connection, location)) throw mustExist ? noStoreAt(location) : unmade(location)
    if (!isCurrent(connection, location)) throw tooOld(location)
    assertUsableAtOpen(connection, location)
    assertLogCame(connection, location)
    const offset = knownOffset(connection, environment)
    const manualGraceMs = readManualGrace(connection)
    connection.exec('commit')
    return { connection, offset, manualGraceMs, isCurrent: isFileCurrent }
  } catch (error) {
    connection.close()
    throw error
  }
}

/**
 * While others have a store open, its log and their shared memory lie beside it, and these are read too. If both are
 * gone, nobody has it open, and the file alone is the whole store. SQLite would have to create them to read, which it
 * may not, so it is told that the file is immutable; it would then not notice a change.
 */
function openUnwritten(
  location: string,
  maxReadBytes: number | undefined,
): Pick<ReadableStore, 'connection' | 'isCurrent'> {
  const stamp = stampOf(location)
  const shared = new Connection(location, { readOnly: true, maxReadBytes })
  try {
    shared.exec('select count(*) from sqlite_schema')
    return { connection: shared, isCurrent: () => true }
  } catch (error) {
    shared.close()
    if (!isUnwritable(error) || hasLog(location)) throw error
    const connection = new Connection(`${pathToFileURL(location).href}?immutable=1`, {
      readOnly: true,
      maxReadBytes,
    })
    return { connection, isCurrent: () => stampOf(location) === stamp }
  }
}

/** Changes when someone has written to the file or started a log beside it. */
function stampOf(location: string): string {
  const { size, mtimeNs } = lookAt(location) ?? {}
  return `${size} ${mtimeNs} ${hasLog(location)}`
}

function unmade(location: string): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} is no store yet, and is read-only for this process`,
    next: 'create the store as a user who can write to the file',
    facts: { location },
  })
}

function tooOld(location: string): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} was made by an older Holdfast, and is read-only for this process`,
    next: 'open it once as a user who can write to it',
    facts: { location },
  })
}

/** The error when others wrote to the store during every attempt to read it. */
export function changingError(location: string): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `the store ${location} changed during every attempt to read it`,
    next: 'try again',
    facts: { location },
  })
}

/** The error for every write. */
export function readOnlyError(location: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} is read-only for this process; nothing was changed`,
    next: 'check the permissions of the file and its folder; a program that only reads can open it with background: false',
    facts: { location },
  })
}
