/** Limits a minute, counted in the store: what goes beyond one gets a later place, nothing is turned away here. */
export interface Allowance {
  readonly name: string
  /** Times of what was let through, oldest first, no more than the limit can ask for; some may lie ahead. */
  readonly marks: readonly number[]
  /** The newest of them. */
  readonly at: number
  readonly version: number
}

export const allowanceWindowMs = 60_000

export type Marks = readonly number[]

/** The earliest place under the limit (0 = no limit): now, or when the oldest of the last `limit` is a minute old. */
export function takePlace(marks: Marks, limit: number, now: number): { at: number; marks: Marks } {
  if (limit === 0) return { at: now, marks }
  const oldest = marks[marks.length - limit]
  const at = oldest === undefined ? now : Math.max(now, oldest + allowanceWindowMs)
  const all = [...marks, at]
  // Others may count by a larger limit, so what lies within the minute stays.
  const isNeeded = (mark: number, index: number) =>
    index >= all.length - limit || (mark > now - allowanceWindowMs && mark <= now)
  return { at, marks: all.filter(isNeeded) }
}

/** The row after its marks changed; null when there is nothing to write. */
export function keepMarks(name: string, before: Allowance | null, marks: Marks): Allowance | null {
  const at = marks.at(-1)
  if (at === undefined || marks === before?.marks) return null
  return { name, marks, at, version: (before?.version ?? 0) + 1 }
}
