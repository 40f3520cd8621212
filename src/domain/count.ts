/** Counts in words. */

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
