/** What the facts of each error code say. */

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
    readonly headSha?: unknown
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
