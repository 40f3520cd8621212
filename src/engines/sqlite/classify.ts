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
  protocol: 15,
  tooLong: 18,
  constraint: 19,
  notADatabase: 26,
}

/** The log's index, a file beside the store, could not grow. */
const indexWithoutRoom = 10 | (19 << 8)

function extendedCode(error: unknown): number | null {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return null
  return error.errcode
}

function primaryCode(error: unknown): number | null {
  const code = extendedCode(error)
  if (code === indexWithoutRoom) return primary.full
  return code === null ? null : code & 0xff
}

/** Another process is writing, or recovering the log: wait and retry. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === primary.busy || code === primary.locked || code === primary.protocol
}

/** A value is longer than the connection allows. */
export function isTooLong(error: unknown): boolean {
  return primaryCode(error) === primary.tooLong
}

/** An error from SQLite itself whose code the driver left out. */
export function isUncoded(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR' && !('errcode' in error)
  )
}

/**
 * An error without a code that did not happen again. Whatever caused it has passed, as contention does, so it counts as
 * busy.
 */
export function passing(cause: unknown): Error {
  return Object.assign(new Error((cause as Error).message, { cause }), { errcode: primary.busy })
}

/**
 * An error from the COMMIT itself. When writing or flushing failed, the whole change may still be in the log: nobody
 * sees it there, but a process that recovers the log after a crash finds it.
 */
export function atCommit(error: unknown, location: string): unknown {
  if (primaryCode(error) !== primary.ioError) return error
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the disk of ${location} failed at the commit: it is not known whether the change was made`,
    next: 'check the disk; check before you repeat it, or repeat it under the same idempotency key',
    facts: { location, sqliteCode: primary.ioError, inDoubt: true },
    cause: error,
  })
}

/** The disk failed again before this call wrote anything. */
export function unsettled(location: string, cause: unknown): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the disk of ${location} still fails; this call changed nothing, and an earlier change is in doubt`,
    next: 'check the disk, then call again',
    facts: { location, sqliteCode: primary.ioError, inDoubt: false },
    cause,
  })
}

/** The file, or a file that SQLite needs beside it, is not writable. */
export function isUnwritable(error: unknown): boolean {
  const code = primaryCode(error)
  return code === primary.readOnly || code === primary.cantOpen
}

/** A typed error for an error from the store; anything else passes through unchanged. */
export function classify(error: unknown, location: string): unknown {
  const code = primaryCode(error)
  if (code === null) return error
  const facts = { location, sqliteCode: code }
  const cause = error
  switch (code) {
    case primary.busy:
    case primary.locked:
    case primary.protocol:
      return new HoldfastError('BUSY', {
        what: `the store ${location} is busy`,
        next: 'try again; if it persists, look for a stopped process that was writing',
        facts,
        cause,
      })
    case primary.full:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the disk of ${location} is full; nothing was changed`,
        next: 'free space, then call again',
        facts: { ...facts, inDoubt: false },
        cause,
      })
    case primary.ioError:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the disk of ${location} failed; nothing was changed`,
        next: 'check the disk, then call again',
        facts: { ...facts, inDoubt: false },
        cause,
      })
    case primary.readOnly:
    case primary.cantOpen:
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the store ${location} cannot be opened for writing`,
        next: 'check that the folder exists, and its permissions',
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
    case primary.tooLong:
      return new HoldfastError('STORE_UNFIT', {
        what: `${location} contains a value that is longer than any that Holdfast writes`,
        next: 'do not use this file unless you know who changed it; restore a backup; nothing was changed',
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
