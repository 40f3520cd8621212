/** Counts: in words, and by name. */

/** `1 item`, `2 items`. */
export function counted(count: number, noun: string): string {
  const several = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${count} ${count === 1 ? noun : several}`
}

/** A count that stopped at a bound: a look at a queue must not cost more the longer the queue is. */
export interface BoundedCount {
  readonly count: number
  /** There are others. */
  readonly more: boolean
}

/** `found`: counted up to one more than the limit, or several such counts together. */
export function bounded(found: number, limit: number): BoundedCount {
  return { count: Math.min(found, limit), more: found > limit }
}

export function boundedText({ count, more }: BoundedCount): string {
  return more ? `${count}+` : String(count)
}

/** The sum for each name. A name is somebody's own word: an ordinary object has something under `constructor` already. */
export function sumByName(counts: Iterable<readonly [name: string, count: number]>): Record<string, number> {
  const sums: Record<string, number> = Object.create(null)
  for (const [name, count] of counts) sums[name] = (sums[name] ?? 0) + count
  return sums
}
