/**
 * The error family. Normal outcomes (held, empty, paused) are returned as values. Only misuse and breakage are thrown,
 * always as a `HoldfastError` with a stable `code`, the facts as fields, and a safe next step. One table maps each code
 * to its CLI exit code and HTTP status.
 */
import { printable } from './domain/text.ts'

/** Every error code, with its CLI exit code, its HTTP status and whether a retry may succeed. */
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

/** A stable error code: decide by this, never by the message. */
export type ErrorCode = keyof typeof errorCodes
/** The facts of an error, by name. */
export type Facts = Readonly<Record<string, unknown>>

/** What an error is made of. */
export interface ErrorParts {
  /** What happened, and to what. */
  readonly what: string
  /** The safe next step. */
  readonly next: string
  readonly facts?: Facts
  readonly cause?: unknown
}

/** Spelled out, because the bundler renames the classes. */
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
 * Base class of everything Holdfast throws. `message` is "what happened; what to do next". It is a single line,
 * whatever characters the names in it contain, because an uncaught error is printed. `facts` are left as they were
 * given.
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

  /** The exit code of the CLI for this error. */
  get exitCode(): number {
    return errorCodes[this.code].exit
  }

  /** What crosses a thread or a wire; `revive` turns it back into an error. */
  toJSON(): { code: ErrorCode; what: string; next: string; facts: Facts } {
    return { code: this.code, what: this.what, next: this.next, facts: this.facts }
  }
}

/** The input, an option or a file is not valid. The message says what to correct. */
export class InvalidError extends HoldfastError {
  constructor(parts: ErrorParts) {
    super('INVALID', parts)
  }
}

/** What the call refers to does not exist. */
export class NotFoundError extends HoldfastError {
  constructor(parts: ErrorParts) {
    super('NOT_FOUND', parts)
  }
}

/** Somebody else holds it. The facts say who, and until when. */
export class HeldError extends HoldfastError {
  constructor(facts: { subject: string; holder: string; expiresAt: number | null }, next?: string) {
    super('HELD', {
      what: `${facts.subject} is held by ${facts.holder}`,
      next: next ?? 'wait until it is released or its lease lapses',
      facts,
    })
  }
}

/** The key or dedupe key belongs to an open item. `facts.existing` is its id. */
export class DuplicateError extends HoldfastError {
  constructor(facts: { field: 'key' | 'dedupeKey'; value: string; existing: string }, next?: string) {
    super('DUPLICATE', {
      what: `${facts.field} "${facts.value}" belongs to the open item ${facts.existing}`,
      next: next ?? 'use that item, or wait until it is closed',
      facts,
    })
  }
}

/** The move is not allowed from the current state. The facts name both states. */
export class IllegalMoveError extends HoldfastError {
  constructor(facts: { subject: string; from: string; to: string }, next: string) {
    super('ILLEGAL_MOVE', {
      what: `${facts.subject} cannot go from ${facts.from} to ${facts.to}`,
      next,
      facts,
    })
  }
}

/** The item has failed as many times as it may. */
export class AttemptsExhaustedError extends HoldfastError {
  constructor(facts: { subject: string; failures: number; maxAttempts: number }) {
    super('ATTEMPTS_EXHAUSTED', {
      what: `${facts.subject} failed ${facts.failures} times, its limit is ${facts.maxAttempts}`,
      next: 'submit it again when the cause is fixed',
      facts,
    })
  }
}

/** Somebody else changed it since the version you read. Read it again and repeat the change. */
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

/** True for VERSION_MISMATCH, even as the cause of another error. */
export function isVersionMismatchError(error: unknown): error is VersionMismatchError {
  return withCauses(error).some((each) => each.code === 'VERSION_MISMATCH')
}

/** The lease is no longer yours. Stop working on it: somebody else may have it. */
export class LeaseLostError extends HoldfastError {
  constructor(facts: {
    subject: string
    token: number | null
    /** Null when the thing that had a token no longer exists. */
    currentToken: number | null
    reason: string
    holder: string | null
    currentVersion?: number
    /** The lost grants, when a claim was repeated. */
    lost?: readonly { kind: 'item' | 'lock'; id: string; token: number }[]
  }) {
    super('LEASE_LOST', {
      what: `${facts.subject} is no longer yours (${facts.reason}): your token ${facts.token ?? 'none'}, current token ${facts.currentToken ?? 'none'}`,
      next: 'stop working on it; claim again if you still want it',
      facts,
    })
  }
}

/** For a call on a handle that was closed. */
export function closedError(location: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the store ${location} was closed by this process`,
    next: 'open it again',
    facts: { closed: true },
  })
}

/** True for a call on a closed handle, even as the cause of another error. */
export function isClosedError(error: unknown): boolean {
  // A program may use our codes for its own errors, which have no facts.
  return withCauses(error).some((each) => each.code === 'STORE_UNAVAILABLE' && each.facts?.closed === true)
}

/** The errors of this family among an error and its causes. Causes may be circular, and reading one may throw. */
function withCauses(error: unknown): Partial<HoldfastError>[] {
  const seen = new Set<unknown>()
  try {
    for (let each = error; each instanceof Error && !seen.has(each); each = each.cause) seen.add(each)
  } catch {
    // The ones read so far still count.
  }
  return [...seen].filter(isHoldfastError)
}

/** For a claim by a process that has left the fleet or was judged dead. A handle joins again and repeats the claim. */
export function endedError(instance: string | null): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `instance ${instance} has ended, so nothing was granted to it`,
    next: 'join under a new id and ask again',
    facts: { endedInstance: instance },
  })
}

/** The text to log for an error. The message of one of ours already says everything. */
export function messageOf(error: unknown): string {
  return error instanceof HoldfastError ? error.message : String(error)
}

/**
 * True for any error of this family, even from another copy of this module. Never throws: false for what cannot be
 * read.
 */
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

/** Restores an error, with its class, from the JSON that crossed a thread or a wire. */
export function revive({
  code,
  ...parts
}: ReturnType<HoldfastError['toJSON']> & { readonly cause?: unknown }): HoldfastError {
  const error = new HoldfastError(code, parts)
  const original = classes[code]
  return original ? Object.setPrototypeOf(error, original.prototype) : error
}
