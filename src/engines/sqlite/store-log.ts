/** SQLite's log beside the store file. The two belong together; here the log is only ever examined with `stat`. */
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
 * A new store would mistake the log of a deleted or renamed one for its own, and remove it. The log is checked first:
 * when someone is creating a store right now, its log appears after the file.
 */
export function assertNoStrayLog(location: string): void {
  if (!hasLog(location) || sizeOf(location) > 0n) return
  const log = logOf(location)
  throw new HoldfastError('STORE_UNFIT', {
    what: `there is no store at ${location}, only the log of one (${log}), which may contain acknowledged changes`,
    next: `put the store file back, or stop its processes and remove ${log} and ${location}-shm`,
    facts: { location, log },
  })
}

/** A store renamed without its log lacks the latest changes. */
export function assertNoLogAt(formerly: string, location: string): void {
  if (formerly === location || !isLogWithoutStore(formerly)) return
  const log = logOf(formerly)
  throw new HoldfastError('STORE_UNFIT', {
    what: `${location} was ${formerly} before, where its log still is (${log}), which may contain acknowledged changes`,
    next: `rename it back to ${formerly}, open and close it there once, and rename it again when no process has it open`,
    facts: { location, formerly, log },
  })
}

function isLogWithoutStore(location: string): boolean {
  try {
    return lookAt(location) === null && hasLog(location)
  } catch {
    // Unreachable for this user: a copy of someone else's store.
    return false
  }
}

/**
 * Called before the first write to an empty file, which has no log. A leftover index of a store that was deleted while
 * processes had it open would be shared with those processes. Others that start with the same file wait meanwhile, and
 * then find it written.
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
