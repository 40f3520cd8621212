/** Who loses leases again and again. A pattern is a fact for people and alerts; it takes nothing from anybody. */

import type { EventKind } from './event.ts'

/**
 * Events that tell of a holder that was lost; they name it. Not those of an operator, who takes what is held: a reclaim
 * before the lapse counts no crash, and force has a kind of its own.
 */
export const lossKinds = [
  'item.reclaimed',
  'item.quarantined',
  'lock.expired',
  'lock.stolen',
  'lock.delayed',
  'delivery.reclaimed',
] as const satisfies readonly EventKind[]

/** Events by which a holder ended its grant in good order. */
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

/** How a grant of an agent ended. */
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
/** So many grants in a row, all lost: then it is the worker, not its work. */
const suspectGrants = 3

/** Agents with three crashes or more in the last hour, the worst first. */
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

/** Agents whose last three claims all ended in a crash. `ends` comes newest first. */
export function suspectAgents(ends: readonly GrantEnd[]): string[] {
  const seen = new Map<string, { grants: number; crashes: number }>()
  for (const { agent, crashed } of ends) {
    const last = seen.get(agent) ?? { grants: 0, crashes: 0 }
    if (last.grants === suspectGrants) continue
    seen.set(agent, { grants: last.grants + 1, crashes: last.crashes + (crashed ? 1 : 0) })
  }
  return [...seen].filter(([, { crashes }]) => crashes === suspectGrants).map(([agent]) => agent)
}
