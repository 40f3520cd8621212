/** How long to wait for an answer, how often to send again, and whom to tell when none comes: data, kept with the message. */
export interface RedeliveryPolicy {
  /** Waits between one attempt and the next. */
  readonly delaysMs: readonly number[]
  /** After the last attempt, until the message escalates; 0 = with it. */
  readonly lastWaitMs: number
  /** Whom to tell, level by level; after the last the message is a dead letter. */
  readonly ladder: readonly EscalationLevel[]
  /** Escalations beyond so many a minute, of the whole namespace, are put off; 0 = no limit. */
  readonly escalationsPerMinute: number
  /** It went to more than one. */
  readonly broadcast?: true
}

export interface EscalationLevel {
  /** Names, or everybody who is known, the sender included. */
  readonly to: readonly string[] | '*'
  /** How long this level has to answer. */
  readonly waitMs: number
}

/** What a message has whose policy was damaged: nothing is sent again and nobody is told. */
export const noPolicy: RedeliveryPolicy = Object.freeze({
  delaysMs: Object.freeze([]),
  lastWaitMs: 0,
  ladder: Object.freeze([]),
  escalationsPerMinute: 0,
})

/** Whether this is a policy, whatever the row says; its numbers were checked when it was made. */
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

/** The source's schedule unless told otherwise; `timeoutMs` replaces its first wait. */
export function makePolicy(request: PolicyRequest): RedeliveryPolicy {
  const delays = request.delaysMs ?? defaultDelaysMs
  const delaysMs = request.timeoutMs === undefined ? delays : [request.timeoutMs, ...delays.slice(1)]
  const lastDelayMs = delaysMs.at(-1)
  return {
    delaysMs,
    // Without any delay there is nothing to wait for: it is sent once and escalates.
    lastWaitMs: request.escalateImmediately ? 0 : (lastDelayMs ?? 0),
    ladder: request.ladder ?? [{ to: '*', waitMs: lastDelayMs ?? levelWaitMsDefault }],
    escalationsPerMinute: request.escalationsPerMinute ?? escalationsPerMinuteDefault,
    ...((request.recipients ?? 1) > 1 ? { broadcast: true } : {}),
  }
}

/** Whether several are told at once: by the message itself, or by this level of escalation. */
export function isBroadcast(policy: RedeliveryPolicy, level: number): boolean {
  if (level === 0) return policy.broadcast === true
  const to = policy.ladder[level - 1]?.to ?? []
  return to === '*' || to.length > 1
}

export interface Schedule {
  /** When to send again; null when every attempt was made. */
  readonly nextDueAt: number | null
  /** When the wait for an answer ends, also when nobody could send meanwhile. */
  readonly givesUpAt: number
}

/** What follows after so many attempts, counted from a moment of the lease clock. */
export function schedule(policy: RedeliveryPolicy, attempts: number, from: number): Schedule {
  const rest = policy.delaysMs.slice(Math.max(0, attempts - 1))
  const wait = attempts === 0 ? 0 : rest[0]
  const restMs = rest.reduce((total, delay) => total + delay, 0)
  return {
    nextDueAt: wait === undefined ? null : from + wait,
    givesUpAt: from + restMs + policy.lastWaitMs,
  }
}
