/** Answers kept under an idempotency key. */

/** The answer to a mutation that carried an idempotency key. */
export interface Answer {
  readonly key: string
  readonly operation: string
  /** The only agent that may have it; null if another agent that repeats the request gets it too. */
  readonly agent: string | null
  readonly requestHash: string
  /** JSON text. */
  readonly answer: string
  /** The grants it handed out. The answer is repeated only while they are current. */
  readonly grants: readonly Grant[]
  readonly at: number
}

/** What identifies a lease. */
export interface Grant {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
}

export interface AnswerSelectors {
  answer: [{ key: string }, Answer | null]
  answersBefore: [{ before: number; limit: number }, readonly Answer[]]
}
