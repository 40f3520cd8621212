/**
 * The whole error family. What is normal (held, empty, paused) is returned as a value; only misuse and
 * breakage are thrown, always as a `HoldfastError` with a stable `code`, the facts as fields and the safe
 * next step. One table gives the CLI exit code and the HTTP status of each code.
 */
import { printable } from './domain/text.ts'

export const errorCodes = {
  INVALID: { exit: 2, http: 400, retryable: false },
  NOT_FOUND: { exit: 3, http: 404, retryable: false },
  UNKNOWN_RECIPIENT: { exit: 3, http: 404, retryable: false },
  HELD: { exit: 4, http: 409, retryable: true },
  DUPLICATE: { exit: 4, http: 409, retryable: false },
  ILLEGAL_MOVE: { exit: 4, http: 409, retryable: false },
  ATTEMPTS_EXHAUSTED: { exit: 4, http: 409, retryable: false },
  VERSION_MISMATCH: { exit: 4, http: 412, retryable: true },
  IDEMPOTENCY_MISMATCH: { exit: 4, http: 422, retryable: false },
  LEASE_LOST: { exit: 5, http: 409, retryable: false },
  BUSY: { exit: 7, http: 503, retryable: true },
  TIMEOUT: { exit: 7, http: 504, retryable: true },
  RATE_LIMITED: { exit: 7, http: 429, retryable: true },
  STORE_UNAVAILABLE: { exit: 7, http: 503, retryable: true },
  TESTS_FAILED: { exit: 8, http: 409, retryable: false },
  CONFLICT_FILES: { exit: 8, http: 409, retryable: false },
  PAUSED: { exit: 9, http: 409, retryable: true },
  STORE_UNFIT: { exit: 10, http: 503, retryable: false },
  FORBIDDEN: { exit: 1, http: 403, retryable: false },
  INTERNAL: { exit: 1, http: 500, retryable: false },
} as const satisfies Record<string, { exit: number; http: number; retryable: boolean }>

export type ErrorCode = keyof typeof errorCodes
export type Facts = Readonly<Record<string, unknown>>

export interface ErrorParts {
  /** What happened, to which thing. */
  readonly what: string
  /** The safe next step. */
  readonly next: string
  readonly facts?: Facts
  readonly cause?: unknown
}

/** Written down: in the bundle the classes have other names. */
const names: Partial<Record<ErrorCode, string>> = {
  INVALID: 'InvalidError',
  NOT_FOUND: 'NotFoundError',
  HELD: 'HeldError',
  DUPLICATE: 'DuplicateError',
  ILLEGAL_MOVE: 'IllegalMoveError',
  ATTEMPTS_EXHAUSTED: 'AttemptsExhaustedError',
  VERSION_MISMATCH: 'VersionMismatchError',
  LEASE_LOST: 'LeaseLostError',
}

/**
 * Base of everything Holdfast throws. `message` is "what happened; what to do next": one line, whatever the names in it
 * contain, because whoever does not catch it prints it. The facts are as they were given.
 */
export class HoldfastError extends Error {
  readonly code: ErrorCode
  readonly what: string
  readonly next: string
  readonly facts: Facts

  constructor(code: ErrorCode, parts: ErrorParts) {
    const [what, next] = [printable(parts.what), printable(parts.next)]
    super(`${what}; ${next}`, parts.cause === undefined ? undefined : { cause: parts.cause })
    this.name = names[code] ?? 'HoldfastError'
    this.code = code
    this.what = what
    this.next = next
    this.facts = parts.facts ?? {}
  }

  /** Whether the same call may succeed later without any change by the caller. */
  get retryable(): boolean {
    return errorCodes[this.code].retryable
  }

  get exitCode(): number {
    return errorCodes[this.code].exit
  }

  toJSON(): { code: ErrorCode; what: string; next: string; facts: Facts } {
    return { code: this.code, what: this.what, next: this.next, facts: this.facts }
  }
}

export class InvalidError extends HoldfastError {
  constructor(parts: ErrorParts) {
    super('INVALID', parts)
  }
}

export class NotFoundError extends HoldfastError {
  constructor(parts: ErrorParts) {
    super('NOT_FOUND', parts)
  }
}

export class HeldError extends HoldfastError {
  constructor(facts: { subject: string; holder: string; expiresAt: number | null }, next?: string) {
    super('HELD', {
      what: `${facts.subject} is held by ${facts.holder}`,
      next: next ?? 'wait until it is released or its lease lapses',
      facts,
    })
  }
}

export class DuplicateError extends HoldfastError {
  constructor(facts: { field: 'key' | 'dedupeKey'; value: string; existing: string }, next?: string) {
    super('DUPLICATE', {
      what: `${facts.field} "${facts.value}" belongs to the open item ${facts.existing}`,
      next: next ?? 'use that item, or wait until it is closed',
      facts,
    })
  }
}

export class IllegalMoveError extends HoldfastError {
  constructor(facts: { subject: string; from: string; to: string }, next: string) {
    super('ILLEGAL_MOVE', {
      what: `${facts.subject} cannot go from ${facts.from} to ${facts.to}`,
      next,
      facts,
    })
  }
}

export class AttemptsExhaustedError extends HoldfastError {
  constructor(facts: { subject: string; failures: number; maxAttempts: number }) {
    super('ATTEMPTS_EXHAUSTED', {
      what: `${facts.subject} failed ${facts.failures} times, its limit is ${facts.maxAttempts}`,
      next: 'submit it again when the cause is fixed',
      facts,
    })
  }
}

export class VersionMismatchError extends HoldfastError {
  constructor(
    facts: { subject: string; expected: number; current: number; attempts?: number },
    next = 'read it again and repeat the change on what you read',
  ) {
    super('VERSION_MISMATCH', {
      what: `${facts.subject} is at version ${facts.current}, not ${facts.expected}`,
      next,
      facts,
    })
  }
}

/** True for VERSION_MISMATCH, also as the cause of another error. */
export function isVersionMismatchError(error: unknown): error is VersionMismatchError {
  return withCauses(error).some((each) => each.code === 'VERSION_MISMATCH')
}

export class LeaseLostError extends HoldfastError {
  constructor(facts: {
    subject: string
    token: number | null
    /** Null where there is nothing any more that has one. */
    currentToken: number | null
    reason: string
    holder: string | null
    currentVersion?: number
    /** The grants themselves, where a claim was repeated. */
    lost?: readonly { kind: 'item' | 'lock'; id: string; token: number }[]
  }) {
    super('LEASE_LOST', {
      what: `${facts.subject} is no longer yours (${facts.reason}): your token ${facts.token ?? 'none'}, current token ${facts.currentToken ?? 'none'}`,
      next: 'stop working on it; claim again if you still want it',
      facts,
    })
  }
}

/** A call on a handle that was closed. */
export function closedError(location: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} was closed by this process`,
    next: 'open it again',
    facts: { closed: true },
  })
}

/** True for a call on a closed handle, also as the cause of another error. */
export function isClosedError(error: unknown): boolean {
  // A program may use codes of ours for errors of its own, which have no facts.
  return withCauses(error).some((each) => each.code === 'STORE_UNAVAILABLE' && each.facts?.closed === true)
}

/** Errors of this family among an error and its causes. Causes may form a circle, and reading one may throw. */
function withCauses(error: unknown): Partial<HoldfastError>[] {
  const seen = new Set<unknown>()
  try {
    for (let each = error; each instanceof Error && !seen.has(each); each = each.cause) seen.add(each)
  } catch {
    // What was read before still counts.
  }
  return [...seen].filter(isHoldfastError)
}

/** A claim for a process that has left the fleet, or was taken for dead. A handle joins again and repeats it. */
export function endedError(instance: string | null): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `instance ${instance} has ended, so nothing was granted to it`,
    next: 'join under a new id and ask again',
    facts: { endedInstance: instance },
  })
}

/** What is logged of an error: one of ours says everything in its message. */
export function messageOf(error: unknown): string {
  return error instanceof HoldfastError ? error.message : String(error)
}

/** True for any error of this family, also one that crossed a module copy. Never throws: false for what cannot be read. */
export function isHoldfastError(error: unknown): error is HoldfastError {
  try {
    if (!(error instanceof Error) || !('code' in error)) return false
    const { code } = error
    return typeof code === 'string' && Object.hasOwn(errorCodes, code)
  } catch {
    return false
  }
}

const classes: Partial<Record<ErrorCode, { readonly prototype: HoldfastError }>> = {
  INVALID: InvalidError,
  NOT_FOUND: NotFoundError,
  HELD: HeldError,
  DUPLICATE: DuplicateError,
  ILLEGAL_MOVE: IllegalMoveError,
  ATTEMPTS_EXHAUSTED: AttemptsExhaustedError,
  VERSION_MISMATCH: VersionMismatchError,
  LEASE_LOST: LeaseLostError,
}

/** An error that crossed a thread or a wire as its JSON, as what it was. */
export function revive({
  code,
  ...parts
}: ReturnType<HoldfastError['toJSON']> & { readonly cause?: unknown }): HoldfastError {
  const error = new HoldfastError(code, parts)
  const original = classes[code]
  return original ? Object.setPrototypeOf(error, original.prototype) : error
}
