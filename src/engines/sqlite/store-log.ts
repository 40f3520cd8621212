/** SQLite's log beside the store file: the two belong together, and only `stat` ever looks at it here. */
import { rmSync } from 'node:fs'
import { HoldfastError } from '../../errors.ts'
import type { Connection } from './connection.ts'
import { lookAt, sizeOf } from './file-stats.ts'

export function hasLog(location: string): boolean {
  return sizeOf(logOf(location)) > 0n
}

function logOf(location: string): string {
  return `${location}-wal`
}

/**
 * A new store would take the log of one that was deleted or renamed for its own, and remove it. The log is asked for
 * first: beside a store that somebody makes at this moment it comes second.
 */
export function assertNoStrayLog(location: string): void {
  if (!hasLog(location) || sizeOf(location) > 0n) return
  const log = logOf(location)
  throw new HoldfastError('STORE_UNFIT', {
    what: `there is no store at ${location}, but the log of one (${log}), which may hold acknowledged changes`,
    next: `put the store file back, or stop its processes and remove ${log} and ${location}-shm`,
    facts: { location, log },
  })
}

/** A store that was renamed without its log lacks the last changes. */
export function assertNoLogAt(formerly: string, location: string): void {
  if (formerly === location || !isLogWithoutStore(formerly)) return
  const log = logOf(formerly)
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} was ${formerly} before, where its log still is (${log}), which may hold acknowledged changes`,
    next: `rename it back to ${formerly}, open and close it there once, and rename it again when no process has it open`,
    facts: { location, formerly, log },
  })
}

function isLogWithoutStore(location: string): boolean {
  try {
    return lookAt(location) === null && hasLog(location)
  } catch {
    // Out of reach for this user: a copy of somebody else's store.
    return false
  }
}

/**
 * Before the first write to an empty file, which has no log: the index of another one's, deleted while processes had it
 * open, would be shared with them. Others that begin with the same file wait meanwhile, and find it written.
 */
export function removeStrayIndex(connection: Connection, location: string): void {
  if (sizeOf(location) > 0n) return
  connection.exec('begin exclusive')
  try {
    if (sizeOf(location) === 0n) rmSync(`${location}-shm`, { force: true })
  } finally {
    connection.exec('rollback')
  }
}
