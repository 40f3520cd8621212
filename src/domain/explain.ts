/**
 * Why something is in its current state: what keeps it there, the evidence, what will happen when, and what can safely
 * be done. It only presents loaded facts and decides nothing.
 */
import { formatDuration } from './duration.ts'
import { type Holding, isLost, isOrphaned } from './holding.ts'

/** `stuck`: nothing will happen on its own. */
export type ExplainVerdict = 'ready' | 'held' | 'waiting' | 'stuck' | 'free' | 'closed' | 'gone'

/** An operation that changes nothing anybody else relies on. */
export interface SafeAct {
  readonly operation: string
  readonly input: Readonly<Record<string, string | number | boolean>>
  readonly because: string
}

export interface Explanation {
  readonly verdict: ExplainVerdict
  /** One sentence. */
  readonly why: string
  readonly holder: Holding | null
  readonly evidence: readonly string[]
  /** What happens on its own, and how soon; null if unknown. */
  readonly next: readonly { readonly what: string; readonly inMs: number | null }[]
  readonly can: readonly SafeAct[]
}

export function explanation(
  verdict: ExplainVerdict,
  why: string,
  rest: Partial<Omit<Explanation, 'verdict' | 'why'>> = {},
): Explanation {
  return { verdict, why, holder: null, evidence: [], next: [], can: [], ...rest }
}

export const healNow: SafeAct = {
  operation: 'recovery.run',
  input: {},
  because: 'reclaims what has lapsed and what dead holders held',
}

/** What happens to an item that is due. */
export const nextInLine = { what: 'the next claim or recovery puts it in line', inMs: 0 } as const

/** Explains something that is held: its holder is working, silent or lost. `sparedMs`: how long a lapsed lease still is. */
export function explainHeld(
  holder: Holding,
  subject: string,
  evidence: readonly string[],
  sparedMs: number,
): Explanation {
  const name = holder.agent ?? 'an unknown agent'
  const facts = { holder, evidence }
  if (isOrphaned(holder)) {
    return explanation('stuck', `${name} held it and is dead: ${holder.evidence}`, {
      ...facts,
      next: [{ what: `the next recovery frees ${subject}`, inMs: 0 }],
      can: [healNow],
    })
  }
  if (isLost(holder)) {
    return explanation('stuck', `the lease of ${name} lapsed ${formatDuration(-holder.remainingMs)} ago`, {
      ...facts,
      next: [{ what: `the next claim or recovery frees ${subject}`, inMs: sparedMs }],
      // Nothing reclaims it before.
      can: sparedMs > 0 ? [] : [healNow],
    })
  }
  return explanation('held', `${name} holds it`, {
    ...facts,
    next: [{ what: 'its lease lapses, unless it is renewed', inMs: holder.remainingMs }],
    can: holder.agent === null ? [] : [askHolder(holder.agent)],
  })
}

function askHolder(agent: string): SafeAct {
  return {
    operation: 'messages.sendWithAck',
    input: { to: agent },
    because: 'asks its holder, and is sent again until answered',
  }
}
