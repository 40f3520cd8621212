/**
 * Which agents keep losing leases. A pattern is information for people and alerts; it takes nothing away from anyone.
 */
import { type EventKind, foldEvent, type StoredEvent } from './event.ts'

/**
 * Events that report a lost holder and name it. Takeovers by an operator do not count: a reclaim before the lease
 * lapses counts no crash, and force has its own event kind.
 */
export const lossKinds = [
  'item.reclaimed',
  'item.quarantined',
  'lock.expired',
  'lock.stolen',
  'lock.delayed',
  'delivery.reclaimed',
] as const satisfies readonly EventKind[]

/** Events with which a holder ended its grant normally. */
export const endKinds = [
  'item.completed',
  'item.merged',
  'item.failed',
  'item.released',
  'item.moved',
  'lock.released',
  'delivery.sent',
  'delivery.failed',
  'delivery.released',
] as const satisfies readonly EventKind[]

/** A lease that was reclaimed because its holder was lost. */
export interface Loss {
  readonly agent: string
  /** Wall time. */
  readonly at: number
  /** The item or lock it held. */
  readonly id: string
}

export interface GrantEnd {
  readonly agent: string
  readonly crashed: boolean
}

export interface CrashPattern {
  readonly agent: string
  readonly crashes: number
  readonly firstAt: number
  readonly lastAt: number
  readonly ids: readonly string[]
}

export const patternWindowMs = 60 * 60 * 1000
const patternCrashes = 3
/** This many lost grants in a row: the problem is the worker, not its work. */
const suspectGrants = 3

/** Agents with three or more crashes in the last hour, worst first. */
export function crashPatterns(losses: readonly Loss[], wall: number): CrashPattern[] {
  const byAgent = new Map<string, Loss[]>()
  for (const loss of losses) {
    if (loss.at < wall - patternWindowMs) continue
    byAgent.set(loss.agent, [...(byAgent.get(loss.agent) ?? []), loss])
  }
  return [...byAgent]
    .filter(([, lost]) => lost.length >= patternCrashes)
    .map(([agent, lost]) => ({
      agent,
      crashes: lost.length,
      firstAt: Math.min(...lost.map(({ at }) => at)),
      lastAt: Math.max(...lost.map(({ at }) => at)),
      ids: [...new Set(lost.map(({ id }) => id))],
    }))
    .sort((left, right) => right.crashes - left.crashes)
}

/** Agents whose last three claims all ended in a crash. `ends` is ordered newest first. */
export function suspectAgents(ends: readonly GrantEnd[]): string[] {
  const seen = new Map<string, { grants: number; crashes: number }>()
  for (const { agent, crashed } of ends) {
    const last = seen.get(agent) ?? { grants: 0, crashes: 0 }
    if (last.grants === suspectGrants) continue
    seen.set(agent, { grants: last.grants + 1, crashes: last.crashes + (crashed ? 1 : 0) })
  }
  return [...seen].filter(([, { crashes }]) => crashes === suspectGrants).map(([agent]) => agent)
}

/**
 * The event with which the holder itself ended a grant: it completed, failed, moved or released what it held under that
 * token. Null if the grant was taken away (a reclaim, a cancellation, force) or has not ended. A process whose helper
 * finished the work must not be told that it lost it.
 */
export function endByHolder(
  events: readonly StoredEvent[],
  { agent, token }: { readonly agent: string; readonly token: number },
): StoredEvent | null {
  const end = events.find((event) => event.token === token && foldEvent({ agent }, event)?.agent !== agent)
  if (end === undefined || end.agent !== agent) return null
  return (endKinds as readonly string[]).includes(end.kind) ? end : null
}
