/**
 * The error family. Normal outcomes (held, empty, paused) are returned as values. Only misuse and breakage are thrown,
 * always as a `HoldfastError` with a stable `code`, the facts as fields, and a safe next step. One table maps each code
 * to its CLI exit code and HTTP status.
 */
import { printable } from './domain/text.ts'
import { type ErrorCode, errorCodes } from './error-codes.ts'
import type { ErrorFacts, Facts, VersionFacts } from './error-facts.ts'

/** What an error is made of. */
export type ErrorParts<Code extends ErrorCode = ErrorCode> = {
  /** What happened, and to what. */
  readonly what: string
  /** The safe next step. */
  readonly next: string
  /** What else caused it. */
  readonly cause?: unknown
} & (Record<never, never> extends ErrorFacts[Code]
  ? { readonly facts?: ErrorFacts[Code] }
  : { readonly facts: ErrorFacts[Code] })

/**
 * An error of one code, with its facts typed; without a code, the union of all. Check the `code` of what
 * `isHoldfastError` accepts, and its facts are known.
 */
export type HoldfastErrorOf<Code extends ErrorCode = ErrorCode> = Code extends ErrorCode
  ? Omit<HoldfastError, 'code' | 'facts'> & { readonly code: Code; readonly facts: ErrorFacts[Code] }
  : never

/**
 * Base class of everything Holdfast throws. `message` is "what happened; what to do next". It is a single line,
 * whatever characters the names in it contain, because an uncaught error is printed. `facts` are left as they were
 * given.
 */
export class HoldfastError extends Error {
  /** Stable: decide by this, never by the message. */
  readonly code: ErrorCode
  /** What happened, and to what. */
  readonly what: string
  /** The safe next step. */
  readonly next: string
  /** Typed by code once `isHoldfastError` has accepted the error and its code is known. */
  readonly facts: Facts

  constructor(...[code, parts]: { [Code in ErrorCode]: [code: Code, parts: ErrorParts<Code>] }[ErrorCode]) {
    const [what, next] = [printable(parts.what), printable(parts.next)]
    super(`${what}; ${next}`, parts.cause === undefined ? undefined : { cause: parts.cause })
    this.name = classes[code]?.name ?? 'HoldfastError'
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
  declare readonly code: 'INVALID'
  declare readonly facts: ErrorFacts['INVALID']

  constructor(parts: ErrorParts<'INVALID'>) {
    super('INVALID', parts)
  }
}

/** What the call refers to does not exist. */
export class NotFoundError extends HoldfastError {
  declare readonly code: 'NOT_FOUND'
  declare readonly facts: ErrorFacts['NOT_FOUND']

  constructor(parts: ErrorParts<'NOT_FOUND'>) {
    super('NOT_FOUND', parts)
  }
}

/** Somebody else holds it. The facts say who, and until when. */
export class HeldError extends HoldfastError {
  declare readonly code: 'HELD'
  declare readonly facts: ErrorFacts['HELD']

  constructor(facts: ErrorFacts['HELD'], next?: string) {
    super('HELD', {
      what: `${facts.subject} is held by ${facts.holder}`,
      next: next ?? 'wait until it is released or its lease lapses',
      facts,
    })
  }
}

/** The key or dedupe key belongs to an open item. `facts.existing` is its id. */
export class DuplicateError extends HoldfastError {
  declare readonly code: 'DUPLICATE'
  declare readonly facts: ErrorFacts['DUPLICATE']

  constructor(facts: ErrorFacts['DUPLICATE'], next?: string) {
    super('DUPLICATE', {
      what: `${facts.field} "${facts.value}" belongs to the open item ${facts.existing}`,
      next: next ?? 'use that item, or wait until it is closed',
      facts,
    })
  }
}

/** The move is not allowed from the current state. The facts name both states. */
export class IllegalMoveError extends HoldfastError {
  declare readonly code: 'ILLEGAL_MOVE'
  declare readonly facts: ErrorFacts['ILLEGAL_MOVE']

  constructor(facts: ErrorFacts['ILLEGAL_MOVE'], next: string) {
    super('ILLEGAL_MOVE', {
      what: `${facts.subject} cannot go from ${facts.from} to ${facts.to}`,
      next,
      facts,
    })
  }
}

/** The item has failed as many times as it may. */
export class AttemptsExhaustedError extends HoldfastError {
  declare readonly code: 'ATTEMPTS_EXHAUSTED'
  declare readonly facts: ErrorFacts['ATTEMPTS_EXHAUSTED']

  constructor(facts: ErrorFacts['ATTEMPTS_EXHAUSTED']) {
    super('ATTEMPTS_EXHAUSTED', {
      what: `${facts.subject} failed ${facts.failures} times, its limit is ${facts.maxAttempts}`,
      next: 'fix the cause, then submit it again',
      facts,
    })
  }
}

/** Somebody else changed it since the version you read. Read it again and repeat the change. */
export class VersionMismatchError extends HoldfastError {
  declare readonly code: 'VERSION_MISMATCH'
  declare readonly facts: VersionFacts

  constructor(facts: VersionFacts, next = 'read it again and redo the change on the new version') {
    super('VERSION_MISMATCH', {
      what: `${facts.subject} is at version ${facts.current}, not ${facts.expected}`,
      next,
      facts,
    })
  }
}

/**
 * True for a VERSION_MISMATCH of an item, task or document. False for an error that was merely caused by one: what
 * failed then is something else.
 */
export function isVersionMismatchError(error: unknown): error is VersionMismatchError {
  return isHoldfastError(error) && error.code === 'VERSION_MISMATCH' && 'subject' in error.facts
}

/** The lease is no longer yours. Stop working on it: somebody else may have it. */
export class LeaseLostError extends HoldfastError {
  declare readonly code: 'LEASE_LOST'
  declare readonly facts: ErrorFacts['LEASE_LOST']

  constructor(facts: ErrorFacts['LEASE_LOST']) {
    const { subject, reason, token, currentToken } = facts
    // Two equal tokens say nothing: it was given back or reclaimed, and nobody has claimed it since.
    const tokens =
      token === currentToken ? '' : `: your token ${token}, current token ${currentToken ?? 'none'}`
    // Without a token, the caller may never have held it.
    super('LEASE_LOST', {
      what:
        token === null
          ? `${subject} is not yours (${reason}), and no token was given`
          : `${subject} is no longer yours (${reason})${tokens}`,
      next:
        token === null
          ? 'claim it first; if you had claimed it, stop working on it'
          : 'stop working on it; claim again if you still want it',
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
  return withCauses(error).some((each) => each.code === 'STORE_UNAVAILABLE' && each.facts.closed === true)
}

/** The errors of this family among an error and its causes. Causes may be circular, and reading one may throw. */
function withCauses(error: unknown): HoldfastErrorOf[] {
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
    what: `the process behind this claim has ended (instance ${instance}), so nothing was granted to it`,
    next: 'register the process that is there now, and ask again',
    facts: { endedInstance: instance },
  })
}

/** The text to log for an error. The message of one of ours already says everything. */
export function messageOf(error: unknown): string {
  return error instanceof HoldfastError ? error.message : String(error)
}

/**
 * True for any error of this family, even from another copy of this module. Once its `code` is known, its `facts` are
 * typed. Never throws: false for what cannot be read, and for errors of a program that merely uses one of our codes.
 */
export function isHoldfastError(error: unknown): error is HoldfastErrorOf {
  try {
    if (!(error instanceof Error) || !('code' in error) || !('facts' in error)) return false
    const { code, facts } = error
    return typeof code === 'string' && Object.hasOwn(errorCodes, code) && Object(facts) === facts
  } catch {
    return false
  }
}

/** The names are spelled out, because the bundler renames the classes. */
const classes: Partial<Record<ErrorCode, { readonly name: string; readonly prototype: HoldfastError }>> = {
  INVALID: { name: 'InvalidError', prototype: InvalidError.prototype },
  NOT_FOUND: { name: 'NotFoundError', prototype: NotFoundError.prototype },
  HELD: { name: 'HeldError', prototype: HeldError.prototype },
  DUPLICATE: { name: 'DuplicateError', prototype: DuplicateError.prototype },
  ILLEGAL_MOVE: { name: 'IllegalMoveError', prototype: IllegalMoveError.prototype },
  ATTEMPTS_EXHAUSTED: { name: 'AttemptsExhaustedError', prototype: AttemptsExhaustedError.prototype },
  VERSION_MISMATCH: { name: 'VersionMismatchError', prototype: VersionMismatchError.prototype },
  LEASE_LOST: { name: 'LeaseLostError', prototype: LeaseLostError.prototype },
}

/** Restores an error, with its class, from the JSON that crossed a thread or a wire. */
export function revive({
  code,
  ...parts
}: ReturnType<HoldfastError['toJSON']> & { readonly cause?: unknown }): HoldfastError {
  // The facts are those of the same code: nothing else makes such an error.
  const error = new HoldfastError(code as 'INTERNAL', parts)
  const original = classes[code]
  return original ? Object.setPrototypeOf(error, original.prototype) : error
}
