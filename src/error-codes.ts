/**
 * Every error code: its CLI exit code and HTTP status, its cause and its remedy. The reference page of errors is made
 * from this table.
 */

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
