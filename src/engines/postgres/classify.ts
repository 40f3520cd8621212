/** SQLSTATE codes, classified in one place; nothing is ever decided by message text. */
import { HoldfastError, InvalidError } from '../../errors.ts'
import { movedError } from '../marks.ts'
import { unsafeSchema, unsafeSchemaCode } from './ownership.ts'
import { Unconfirmed } from './standbys.ts'

/** Ours: a row has changed since it was read. Most rows are locked by then; conflicts over the others end here. */
const rowChanged = 'HF001'

/** Another transaction was in the way; the same commands may run again at once. */
export function isContention(error: unknown): boolean {
  const code = sqlState(error)
  return code === '40P01' || code === '40001' || code === '23505' || code === rowChanged
}

/** The connection was lost: what was under way may or may not have happened. */
export class Disconnected extends Error {
  constructor(cause: unknown) {
    super('the connection to the server was lost', { cause })
  }
}

/**
 * The primary is elsewhere by now. A standby answers a write with the first code and `begin … read write` with the
 * second; the third is ours, raised by a primary on another branch.
 */
const elsewhereCodes = new Set(['25006', '0A000', 'HF003'])

/**
 * The connection is lost, or the server says that it ends: shut down, killed, timed out inside a transaction. Or the
 * server became a standby.
 */
export function isDisconnect(error: unknown): boolean {
  const code = sqlState(error)
  if (code === null) return error instanceof Disconnected
  if (elsewhereCodes.has(code)) return true
  return code.startsWith('08') || code.startsWith('57P') || code === '25P03' || code === '25P04'
}

/** Another transaction held a row or a name: for too long, or where we do not wait. */
export function isLockedOut(error: unknown): boolean {
  return sqlState(error) === '55P03'
}

/** There is no such table, column or function. */
const missingCodes = new Set(['42P01', '42703', '42883'])

export function isMissing(error: unknown): boolean {
  return missingCodes.has(sqlState(error) ?? '')
}

/** Others could run code as our role. */
export function isUnsafeSchema(error: unknown): error is Error & { readonly detail?: string } {
  return sqlState(error) === unsafeSchemaCode
}

/** Only the server's errors have a severity; those of the driver or the system have codes of their own. */
function sqlState(error: unknown): string | null {
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}

const goesOn = 'this process keeps trying; call again'
/** Without a handle, nothing retries for the caller. */
export const openAgain = 'open it again when the server can be reached'

/** A typed error for what the server said; anything else passes through unchanged. */
export function classify(error: unknown, location: string, next = goesOn): unknown {
  if (error instanceof Disconnected) return unavailable(location, error.cause, next)
  if (error instanceof Unconfirmed) return behindUnconfirmed(location, error)
  if (isUntrusted(error)) return untrusted(location, error)
  if (isUnsafeSchema(error)) return unsafeSchema(location, error)
  const code = sqlState(error)
  if (code === null || error instanceof HoldfastError) return error
  const facts = { location, sqlState: code }
  const cause = error
  switch (code) {
    case '22021':
    case '22P05':
      return new InvalidError({
        what: 'the text contains a character that PostgreSQL cannot store (NUL)',
        next: 'leave the character out',
        facts,
        cause,
      })
    case 'HF002':
      return movedError(location, (error as Error).message, cause)
    case '55P03':
    case '40P01':
    case '40001':
      return new HoldfastError('BUSY', {
        what: `the store ${location} is busy: other transactions hold the same rows; nothing was changed`,
        next: 'try again',
        facts,
        cause,
      })
    case '53100':
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `the disk of ${location} is full; nothing was changed`,
        next: 'free space on the server, then call again',
        facts,
        cause,
      })
    case '53300':
      return new HoldfastError('STORE_UNAVAILABLE', {
        what: `${location} has no free connections; nothing was changed`,
        next: 'raise max_connections, or put PgBouncer in between',
        facts,
        cause,
      })
    case '26000':
    case '42P05':
      return poolerBetween(location, cause)
    case '28P01':
    case '28000':
      return new HoldfastError('STORE_UNFIT', {
        what: `${location} refused the credentials of this URL: ${(error as Error).message}`,
        next: 'check user, password and sslmode',
        facts,
        cause,
      })
    case '3D000':
      return new HoldfastError('STORE_UNFIT', {
        what: `there is no such database at ${location}`,
        next: 'create the database; Holdfast makes its own schema in it',
        facts,
        cause,
      })
    case '42501':
      return new HoldfastError('STORE_UNFIT', {
        what: `the role may not do this at ${location}: ${(error as Error).message}`,
        next: 'grant it the schema, or create the schema for it',
        facts,
        cause,
      })
    default:
      if (isDisconnect(error)) return unavailable(location, cause, next)
      return new HoldfastError('INTERNAL', {
        what: `the store ${location} refused a statement: ${(error as Error).message}`,
        next: 'please report this',
        facts,
        cause,
      })
  }
}

/** The URL has to mention the pooler: whoever gets the session next would inherit what we set or prepare in it. */
export function poolerBetween(location: string, cause?: unknown): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `${location} goes through a pooler that shares its sessions; nothing was changed`,
    next: 'add wake=off&prepare=false to the URL (wake=off alone for PgBouncer 1.21 and newer), or wake=… with the URL of the server itself instead of off',
    facts: { location },
    cause,
  })
}

/** What TLS says about a certificate: who signed it, whether it is still valid, and whom it names. */
const certificateCode = /^(ERR_TLS_CERT|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_(GET|VERIFY)_)/

function isUntrusted(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && certificateCode.test(String(error.code))
}

function untrusted(location: string, cause: Error): HoldfastError {
  return new HoldfastError('STORE_UNFIT', {
    what: `the server at ${location} could not prove its identity: ${cause.message}`,
    next: 'check the host and sslmode; to trust your own authorities, name their file in NODE_EXTRA_CA_CERTS',
    facts: { location },
    cause,
  })
}

/** The error that refused a server says what to do better than we can. */
function nextAfter(cause: unknown): string {
  return cause instanceof HoldfastError && cause.code === 'STORE_UNAVAILABLE' ? cause.next : goesOn
}

export function unavailable(location: string, cause: unknown, next = nextAfter(cause)): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `${location} cannot be reached (${reasonOf(cause)}); nothing was changed`,
    next,
    facts: { location, inDoubt: false },
    cause,
  })
}

/** Put into the message, because a cause does not cross a thread. */
function reasonOf(cause: unknown): string {
  if (cause instanceof HoldfastError) return cause.what
  // If a name has several addresses, the combined error itself says nothing.
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(', ')
  return cause instanceof Error ? cause.message : 'no answer'
}

/** The server was gone when it should have answered a commit, and was not back in time to be asked. */
export function inDoubt(location: string, cause: unknown): HoldfastError {
  const isUnconfirmed = cause instanceof Unconfirmed
  const what = isUnconfirmed
    ? `the commit at ${location} waits for the synchronous standby ${cause.standbys}: whether the change will last is not known`
    : `${location} was lost during a commit: it is not known whether the change was made`
  return new HoldfastError('STORE_UNAVAILABLE', {
    what,
    next: 'check before you repeat it, or repeat it under the same idempotency key',
    facts: { location, inDoubt: true, ...(isUnconfirmed ? { synchronousStandbys: cause.standbys } : {}) },
    cause,
  })
}

/** Another commit keeps the rows locked until a standby has it or none is required any more. */
function behindUnconfirmed(location: string, cause: Unconfirmed): HoldfastError {
  const { standbys } = cause
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `a commit before this one at ${location} waits for the synchronous standby ${standbys}; nothing was changed`,
    next: 'bring a standby back or remove it from synchronous_standby_names, then call again',
    facts: { location, inDoubt: false, synchronousStandbys: standbys },
    cause,
  })
}
