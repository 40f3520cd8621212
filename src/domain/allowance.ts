/**
 * Limits per minute, counted in the store. Whatever exceeds a limit gets a later time slot; nothing is rejected here.
 * Users of a shared allowance may have different limits; each limit holds in every minute that contains one of its
 * slots.
 *
 * A slot in the future is always one minute after another one, so slots form chains with one slot per minute, and the
 * last slot of each chain is all we need to store. There are never more chains than the largest limit.
 */
export interface Allowance {
  readonly name: string
  /** The last slot of each chain, oldest first; some may be in the future. */
  readonly marks: readonly number[]
  /** The newest of them. */
  readonly at: number
  readonly version: number
}

export const allowanceWindowMs = 60_000

export type Marks = readonly number[]

/** The earliest slot within the limit (0 = no limit): now, or in the first chain that leaves room for it. */
export function takeAllowance(marks: Marks, limit: number, now: number): { at: number; marks: Marks } {
  if (limit === 0) return { at: now, marks }
  const chains = marks.filter((mark) => mark > now - allowanceWindowMs)
  // After this chain ends, one fewer than the limit continue.
  const [ending] = chains.splice(Math.max(0, chains.length - limit), chains.length < limit ? 0 : 1)
  const at = ending === undefined ? now : ending + allowanceWindowMs
  return { at, marks: [...chains, at].sort((one, other) => one - other) }
}

/** The row with its new marks; null if there is nothing to write. */
export function keepMarks(name: string, before: Allowance | null, marks: Marks): Allowance | null {
  const at = marks.at(-1)
  if (at === undefined || marks === before?.marks) return null
  return { name, marks, at, version: (before?.version ?? 0) + 1 }
}
