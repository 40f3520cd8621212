/**
 * A store that this process may read and not write: its permissions, or those of its folder, say so. What is read is
 * what others committed; every write is refused.
 */
import { existsSync, statSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { Environment } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import { isUnwritable } from './classify.ts'
import { knownOffset } from './clock.ts'
import { Connection } from './connection.ts'
import { assertUsableStore, readManualGrace } from './marks.ts'
import { isCurrent } from './migrate.ts'

export interface ReadableStore {
  readonly connection: Connection
  readonly offset: number
  readonly manualGraceMs: number
}

/** Null where there is nothing that could be read. */
export function openReadable(location: string, environment: Environment): ReadableStore | null {
  if (!existsSync(location)) return null
  const connection = openUnwritten(location)
  try {
    connection.run('begin')
    if (!isCurrent(connection, location)) throw tooOld(location)
    assertUsableStore(connection, location)
    const offset = knownOffset(connection, environment)
    const manualGraceMs = readManualGrace(connection)
    connection.run('commit')
    return { connection, offset, manualGraceMs }
  } catch (error) {
    connection.close()
    throw error
  }
}

/**
 * Beside a store that others have open lie its log and the memory they share; these are read too. Where both are gone,
 * nobody has it open, and the file alone is the whole store. SQLite would make them to look, and may not: it is told
 * that nothing changes. Should somebody begin to write in that moment, a look may see half of it and fail.
 */
function openUnwritten(location: string): Connection {
  const shared = new Connection(location, { readOnly: true })
  try {
    shared.get('select count(*) from sqlite_schema')
    return shared
  } catch (error) {
    shared.close()
    if (!isUnwritable(error) || hasLog(location)) throw error
    return new Connection(`${pathToFileURL(location).href}?immutable=1`, { readOnly: true })
  }
}

function hasLog(location: string): boolean {
  return (statSync(`${location}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
}

function tooOld(location: string): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} was made by an older Holdfast, and may only be read by this process`,
    next: 'open it once as a user who may write it',
    facts: { location },
  })
}

/** The refusal of every write. */
export function readOnlyError(location: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} may only be read by this process; nothing was changed`,
    next: 'check the permissions of the file and of its folder',
    facts: { location },
  })
}
