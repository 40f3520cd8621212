/** Counts: in words, and by name. */

/** `1 item`, `2 items`. */
export function counted(count: number, noun: string): string {
  const several = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${count} ${count === 1 ? noun : several}`
}

/** A count that stops at a bound, so that looking at a long queue costs no more than looking at a short one. */
export interface BoundedCount {
  readonly count: number
  /** There are more than that. */
  readonly more: boolean
}

/** `found`: a count that stops one above the limit, or a sum of such counts. */
export function bounded(found: number, limit: number): BoundedCount {
  return { count: Math.min(found, limit), more: found > limit }
}

export function boundedText({ count, more }: BoundedCount): string {
  return more ? `${count}+` : String(count)
}

/** The sum for each name. Names are arbitrary, and an ordinary object already has something under `constructor`. */
export function sumByName(counts: Iterable<readonly [name: string, count: number]>): Record<string, number> {
  const sums: Record<string, number> = Object.create(null)
  for (const [name, count] of counts) sums[name] = (sums[name] ?? 0) + count
  return sums
}
