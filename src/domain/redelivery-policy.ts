/**
 * How long to wait for an answer, how often to resend, and whom to notify if none comes: data, stored with the message.
 */
export interface RedeliveryPolicy {
  /** Waits between consecutive attempts. */
  readonly delaysMs: readonly number[]
  /** Wait between the last attempt and the escalation; 0 = escalates together with it. */
  readonly lastWaitMs: number
  /** Whom to notify, level by level; after the last level the message is a dead letter. */
  readonly ladder: readonly EscalationLevel[]
  /** Escalations beyond this many per minute, across the whole namespace, are put off; 0 = no limit. */
  readonly escalationsPerMinute: number
  /** It went to more than one recipient. */
  readonly broadcast?: true | undefined
}

/** One level of escalation: who is told, and how long they have. */
export interface EscalationLevel {
  /** Names, or every known agent, including the sender. */
  readonly to: readonly string[] | '*'
  /** How long this level has to answer. */
  readonly waitMs: number
}

/** Used for a message whose policy is damaged: nothing is resent and nobody is notified. */
export const noPolicy: RedeliveryPolicy = Object.freeze({
  delaysMs: Object.freeze([]),
  lastWaitMs: 0,
  ladder: Object.freeze([]),
  escalationsPerMinute: 0,
})

/** Whether a value read from a row is a policy; its numbers were checked when it was created. */
export function isPolicy(value: unknown): value is RedeliveryPolicy {
  const { delaysMs, lastWaitMs, ladder, escalationsPerMinute } = (value ?? {}) as Partial<RedeliveryPolicy>
  return (
    Array.isArray(delaysMs) &&
    Array.isArray(ladder) &&
    ladder.every((level) => level?.to === '*' || Array.isArray(level?.to)) &&
    typeof lastWaitMs === 'number' &&
    typeof escalationsPerMinute === 'number'
  )
}

const defaultDelaysMs: readonly number[] = Object.freeze([30_000, 60_000, 120_000])
const levelWaitMsDefault = 120_000
const escalationsPerMinuteDefault = 5

export interface PolicyRequest {
  readonly timeoutMs?: number | undefined
  readonly delaysMs?: readonly number[] | undefined
  readonly escalateImmediately?: boolean | undefined
  readonly ladder?: readonly EscalationLevel[] | undefined
  readonly escalationsPerMinute?: number | undefined
  readonly recipients?: number | undefined
}

/** The source's schedule by default; `timeoutMs` replaces its first wait. */
export function makePolicy(request: PolicyRequest): RedeliveryPolicy {
  const delays = request.delaysMs ?? defaultDelaysMs
  const delaysMs = request.timeoutMs === undefined ? delays : [request.timeoutMs, ...delays.slice(1)]
  const lastDelayMs = delaysMs.at(-1)
  return {
    delaysMs,
    // Without delays there is nothing to wait for: it is sent once and escalates.
    lastWaitMs: request.escalateImmediately ? 0 : (lastDelayMs ?? 0),
    ladder: request.ladder ?? [{ to: '*', waitMs: lastDelayMs ?? levelWaitMsDefault }],
    escalationsPerMinute: request.escalationsPerMinute ?? escalationsPerMinuteDefault,
    ...((request.recipients ?? 1) > 1 ? { broadcast: true } : {}),
  }
}

/** Whether several recipients are notified at once, by the message itself or by this escalation level. */
export function isBroadcast(policy: RedeliveryPolicy, level: number): boolean {
  if (level === 0) return policy.broadcast === true
  const to = policy.ladder[level - 1]?.to ?? []
  return to === '*' || to.length > 1
}

export interface Schedule {
  /** When to send again; null once every attempt has been made. */
  readonly nextDueAt: number | null
  /** When the wait for an answer ends, even if nobody could send in the meantime. */
  readonly givesUpAt: number
}

/** What comes after this many attempts, counted from a time on the lease clock. */
export function schedule(policy: RedeliveryPolicy, attempts: number, from: number): Schedule {
  const rest = policy.delaysMs.slice(Math.max(0, attempts - 1))
  const wait = attempts === 0 ? 0 : rest[0]
  const restMs = rest.reduce((total, delay) => total + delay, 0)
  return {
    nextDueAt: wait === undefined ? null : from + wait,
    givesUpAt: from + restMs + policy.lastWaitMs,
  }
}
