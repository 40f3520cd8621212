/**
 * The error family. Normal outcomes (held, empty, paused) are returned as values. Only misuse and breakage are thrown,
 * always as a `HoldfastError` with a stable `code`, the facts as fields, and a safe next step. One table maps each code
 * to its CLI exit code and HTTP status.
 */
import { printable } from './domain/text.ts'

/** What a code means, and how each interface reports it. */
interface ErrorKind {
  /** The exit code of the CLI. */
  readonly exit: number
  readonly http: number
  /** Whether the same call may succeed later without any change by the caller. */
  readonly retryable: boolean
  /** What went wrong. */
  readonly cause: string
  /** What to do about it. */
  readonly remedy: string
  /** The facts that most errors of this code carry, and what each one says. */
  readonly facts: Readonly<Record<string, string>>
}

const store = { location: 'The store, without its password.' }
const doubt = { inDoubt: 'True if the change may have been made. Absent or false: it was not.' }

/** Every error code. The reference page of errors is made from this table. */
export const errorCodes = {
  INVALID: {
    exit: 2,
    http: 400,
    retryable: false,
    cause: 'The input, an option, a setting or a file is not valid.',
    remedy: 'Fix what the message names. Until then, the same call will fail again.',
    facts: {
      operation: 'The operation that refused its input.',
      issues: 'Each problem in the input, with its `path` and `message`.',
      option: 'The option of `open()` that is wrong.',
    },
  },
  NOT_FOUND: {
    exit: 3,
    http: 404,
    retryable: false,
    cause: 'Nothing has that name or id: it never existed, or it was removed.',
    remedy: 'Check the name and the namespace. The message often suggests the nearest one.',
    facts: { nearest: 'A known name with almost the same spelling (CLI only).' },
  },
  UNKNOWN_RECIPIENT: {
    exit: 3,
    http: 404,
    retryable: false,
    cause: 'A message names a recipient that nobody has registered.',
    remedy: 'Check the spelling, or register the recipient first.',
    facts: { recipient: 'The unknown recipient.', nearest: 'Registered names that are close to it.' },
  },
  HELD: {
    exit: 4,
    http: 409,
    retryable: true,
    cause: 'Someone else holds it.',
    remedy: 'Wait until it is released or its lease lapses. If you are the holder, give your token.',
    facts: {
      subject: 'What is held.',
      holder: 'The agent that holds it.',
      expiresAt: 'When its lease lapses, on the lease clock, ms.',
    },
  },
  DUPLICATE: {
    exit: 4,
    http: 409,
    retryable: false,
    cause: 'An open item already has this key or dedupe key.',
    remedy: 'Use the existing item, or wait until it is closed.',
    facts: {
      field: '`key` or `dedupeKey`.',
      value: 'The value that is taken.',
      existing: 'The id of the item that has it.',
    },
  },
  ILLEGAL_MOVE: {
    exit: 4,
    http: 409,
    retryable: false,
    cause: 'The workflow does not allow this step from the current state.',
    remedy: 'Read the item again and decide by its current state.',
    facts: {
      subject: 'What was to be moved.',
      from: 'The state it is in.',
      to: 'The state that was asked for.',
    },
  },
  ATTEMPTS_EXHAUSTED: {
    exit: 4,
    http: 409,
    retryable: false,
    cause: 'The item has used up its attempts.',
    remedy: 'Fix the cause, then submit it again.',
    facts: {
      subject: 'The item.',
      failures: 'How many times it has failed.',
      maxAttempts: 'How many failures are allowed.',
    },
  },
  VERSION_MISMATCH: {
    exit: 4,
    http: 412,
    retryable: true,
    cause: 'Someone else changed it since you read it.',
    remedy: 'Read it again and redo your change on the new version.',
    facts: {
      subject: 'What was changed.',
      expected: 'The version you read.',
      current: 'The version it has now.',
    },
  },
  IDEMPOTENCY_MISMATCH: {
    exit: 4,
    http: 422,
    retryable: false,
    cause: 'The idempotency key was used before, for a different request or by a different agent.',
    remedy: 'Use a new key for each new request.',
    facts: { key: 'The key.', operation: 'The operation it was first used for.' },
  },
  LEASE_LOST: {
    exit: 5,
    http: 409,
    retryable: false,
    cause: 'Your lease is over: it was reclaimed, released, or granted to someone else.',
    remedy: 'Stop working on it, because someone else may have it. Claim again if you still want it.',
    facts: {
      subject: 'What you lost.',
      token: 'The token you gave, or null.',
      currentToken: 'The token it has now; null if it no longer exists.',
      holder: 'Who holds it now, or null.',
      reason: 'How you lost it.',
    },
  },
  BUSY: {
    exit: 7,
    http: 503,
    retryable: true,
    cause: 'Others kept the store busy for too long, or a limit is reached. Nothing was changed.',
    remedy:
      'Try again. If it persists, look for a process that is stuck in a transaction, or raise the limit.',
    facts: { ...store, quota: 'The option in `quotas` that sets the limit, if one was reached.' },
  },
  TIMEOUT: {
    exit: 7,
    http: 504,
    retryable: true,
    cause: 'A worker or a command was told to stop before it was done.',
    remedy: 'Return soon. Unfinished items have been given back; run it again to continue.',
    facts: {},
  },
  RATE_LIMITED: {
    exit: 7,
    http: 429,
    retryable: true,
    cause: 'An allowance is used up. The library returns the outcome `rate_limited` instead of throwing.',
    remedy: 'Wait until the time given in the answer.',
    facts: {},
  },
  STORE_UNAVAILABLE: {
    exit: 7,
    http: 503,
    retryable: true,
    cause: 'The store cannot be reached, its disk is full or failing, or this handle was closed.',
    remedy: 'Repair what the message names, then call again. If in doubt, use the same idempotency key.',
    facts: {
      ...store,
      ...doubt,
      closed: 'True if this process closed the handle.',
      synchronousStandbys: 'The standbys that did not confirm the commit (PostgreSQL).',
    },
  },
  TESTS_FAILED: {
    exit: 8,
    http: 409,
    retryable: false,
    cause: 'Reserved for the merge worker: the tests of a change failed. Nothing throws it yet.',
    remedy: 'Fix the change and submit it again.',
    facts: {},
  },
  CONFLICT_FILES: {
    exit: 8,
    http: 409,
    retryable: false,
    cause: 'Reserved for the merge worker: a change conflicts with its target. Nothing throws it yet.',
    remedy: 'Rebase the change and submit it again.',
    facts: {},
  },
  PAUSED: {
    exit: 9,
    http: 409,
    retryable: true,
    cause: 'The queue or run is paused. The library returns the outcome `paused` instead of throwing.',
    remedy: 'Resume it, or wait until someone does.',
    facts: {},
  },
  STORE_UNFIT: {
    exit: 10,
    http: 503,
    retryable: false,
    cause:
      'The store is not safe to use: wrong version, damaged, on a network file system, or not a Holdfast store.',
    remedy: 'Do what the message says. Holdfast has changed nothing in it.',
    facts: store,
  },
  FORBIDDEN: {
    exit: 1,
    http: 403,
    retryable: false,
    cause: 'You may not do this: a message for someone else, or files that another user could have planted.',
    remedy: 'Act as the right agent, or check the file that the message names and trust it.',
    facts: {},
  },
  INTERNAL: {
    exit: 1,
    http: 500,
    retryable: false,
    cause: 'A bug in Holdfast, or a database error that it does not know.',
    remedy: 'Please report it, with the message and its cause.',
    facts: {},
  },
} as const satisfies Record<string, ErrorKind>

/** A stable error code: decide by this, never by the message. */
export type ErrorCode = keyof typeof errorCodes
/** The facts of an error, by name. */
export type Facts = Readonly<Record<string, unknown>>

/**
 * What the facts of each code say. Codes that are thrown for many reasons (INVALID, NOT_FOUND, BUSY, …) may have more
 * facts than the ones named here, and need not have these.
 */
export interface ErrorFacts {
  /** The input, an option or a file is not valid. `issues` lists every problem, `unknown` the options that do not exist. */
  INVALID: Facts & {
    readonly operation?: string
    readonly option?: string
    readonly unknown?: readonly string[]
    readonly issues?: readonly { readonly path: string; readonly message: string }[]
  }
  /** What is missing. `checkpoint`: the last event that retention has removed. */
  NOT_FOUND: Facts & {
    readonly queue?: string
    readonly ref?: string
    readonly name?: string
    readonly checkpoint?: number
  }
  /** Nobody is called `recipient`; `nearest` are names that are known. */
  UNKNOWN_RECIPIENT: { readonly recipient: string; readonly nearest: readonly string[] }
  /**
   * Who holds it, and until when: ms since 1970, null if nobody can tell. `running`: the processes that keep a store
   * from being copied.
   */
  HELD: {
    readonly subject: string
    readonly holder: string
    readonly expiresAt: number | null
    readonly location?: string
    readonly running?: readonly { readonly agent: string; readonly pid: number; readonly host: string }[]
  }
  /** Which value is taken, and the id of what has it. */
  DUPLICATE: {
    readonly field: 'key' | 'dedupeKey' | 'id'
    readonly value: string
    readonly existing: string
  }
  /** Both states. `waiting`: ids of items that wait for the one to be removed. The commits are those of a merge. */
  ILLEGAL_MOVE: {
    readonly subject: string
    readonly from: string
    readonly to: string
    readonly waiting?: readonly string[]
    readonly mainSha?: string
    readonly testedAgainstSha?: unknown
  }
  /** How many times it failed, and how many it may. */
  ATTEMPTS_EXHAUSTED: { readonly subject: string; readonly failures: number; readonly maxAttempts: number }
  /** The version you gave and the one it is at: numbers, or commits where a git fence was refused. */
  VERSION_MISMATCH: VersionFacts | CommitFacts
  /** The key, and the request it was first used for. */
  IDEMPOTENCY_MISMATCH: { readonly key: string; readonly operation: string; readonly agent?: string }
  /** Whose it is now, and why it is no longer yours. */
  LEASE_LOST: {
    readonly subject: string
    readonly token: number | null
    /** Null when the thing that had a token no longer exists. */
    readonly currentToken: number | null
    readonly reason: string
    readonly holder: string | null
    readonly currentVersion?: number
    /** The lost grants, when a claim was repeated. */
    readonly lost?: readonly { readonly kind: 'item' | 'lock'; readonly id: string; readonly token: number }[]
  }
  /** What was busy, or which quota was reached. */
  BUSY: Facts & { readonly location?: string; readonly timeoutMs?: number }
  /** What took too long. */
  TIMEOUT: Facts
  /** Which limit was reached. */
  RATE_LIMITED: Facts
  /** `inDoubt`: whether the change may have been made. `closed`: by this process. `lost`: what became of the file. */
  STORE_UNAVAILABLE: Facts & {
    readonly location?: string
    readonly inDoubt?: boolean
    readonly closed?: true
    readonly lost?: string
  }
  /** What the tests said. */
  TESTS_FAILED: Facts
  /** What could not be merged. */
  CONFLICT_FILES: Facts
  /** What is paused. */
  PAUSED: Facts
  /** What is wrong with the store. */
  STORE_UNFIT: Facts & { readonly location?: string }
  /** What may not be done. */
  FORBIDDEN: Facts
  /** Where a defect showed. */
  INTERNAL: Facts
}

/** The version you gave, and the one it is at. */
export type VersionFacts = {
  readonly subject: string
  readonly expected: number
  readonly current: number
  /** How many times an update was attempted. */
  readonly attempts?: number
}

/** The commit you gave, and the one the ref is at. */
export type CommitFacts = {
  readonly ref: string
  readonly expected: string | null
  readonly current: string | null
}

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
  // The facts are those of the same code: nothing else makes such an error.
  const error = new HoldfastError(code as 'INTERNAL', parts)
  const original = classes[code]
  return original ? Object.setPrototypeOf(error, original.prototype) : error
}
