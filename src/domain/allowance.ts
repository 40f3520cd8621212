/**
 * Limits per minute, counted in the store: what goes beyond one gets a later place, nothing is turned away here. Those
 * who share an allowance may have different limits; each is kept in every minute that one of its places lies in.
 *
 * A place that lies ahead is always a minute after another one, so places form chains with one place in each minute,
 * and the last place of each chain says it all. There are no more chains than the largest limit.
 */
export interface Allowance {
  readonly name: string
  /** The last place of each chain, oldest first; some may lie ahead. */
  readonly marks: readonly number[]
  /** The newest of them. */
  readonly at: number
  readonly version: number
}

export const allowanceWindowMs = 60_000

export type Marks = readonly number[]

/** The earliest place under the limit (0 = no limit): now, or in the chain that is the first to leave room for it. */
export function takeAllowance(marks: Marks, limit: number, now: number): { at: number; marks: Marks } {
  if (limit === 0) return { at: now, marks }
  const chains = marks.filter((mark) => mark > now - allowanceWindowMs)
  // So many others go on after this chain has ended, one fewer than the limit.
  const [ending] = chains.splice(Math.max(0, chains.length - limit), chains.length < limit ? 0 : 1)
  const at = ending === undefined ? now : ending + allowanceWindowMs
  return { at, marks: [...chains, at].sort((one, other) => one - other) }
}

/** The row after its marks changed; null when there is nothing to write. */
export function keepMarks(name: string, before: Allowance | null, marks: Marks): Allowance | null {
  const at = marks.at(-1)
  if (at === undefined || marks === before?.marks) return null
  return { name, marks, at, version: (before?.version ?? 0) + 1 }
}
