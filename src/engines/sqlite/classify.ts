/** SQLite's result codes, classified in one place; nothing is ever decided by message text. */
import { HoldfastError } from '../../errors.ts'

const primary = {
  error: 1,
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cantOpen: 14,
  constraint: 19,
  notADatabase: 26,
}

function primaryCode(error: unknown): number | null {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return null
  return error.errcode & 0xff
}

/** Somebody else is writing: wait and try again. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === primary.busy || code === primary.locked
}

/** The file, or what SQLite needs beside it, may not be written. */
export function isUnwritable(error: unknown): boolean {
  const code = primaryCode(error)
  return code === primary.readOnly || code === primary.cantOpen
}

/** A typed error for what the store said; anything else passes through unchanged. */
export function classify(error: unknown, location: string): unknown {
  const code = primaryCode(error)
  if (code === null) return error
  const facts = { location, sqliteCode: code }
  const cause = error
  switch (code) {
    case primary.busy:
    case primary.locked:
      return new HoldfastError('BUSY', {
        what: `the store ${location} is busy`,
        next: 'try again; if it lasts, look for a stopped process that was writing',
        facts,
        cause,
      })
    case primary.full:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `no room left on the disk of ${location}; nothing was changed`,
        next: 'free space, then call again',
        facts,
        cause,
      })
    case primary.ioError:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the disk of ${location} failed; nothing was changed`,
        next: 'check the disk, then call again',
        facts,
        cause,
      })
    case primary.readOnly:
    case primary.cantOpen:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the store ${location} cannot be opened for writing`,
        next: 'check that the folder exists and its permissions',
        facts,
        cause,
      })
    case primary.corrupt:
    case primary.notADatabase:
      return new HoldfastError('STORE_UNFIT', {
        what: `${location} is not a healthy SQLite file`,
        next: 'restore a backup; the file was left as it is',
        facts,
        cause,
      })
    default:
      return new HoldfastError('INTERNAL', {
        what: `the store ${location} refused a statement: ${(error as Error).message}`,
        next: 'please report this',
        facts,
        cause,
      })
  }
}
