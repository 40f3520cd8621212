/** Counts in words. */

/** `1 item`, `2 items`. */
export function counted(count: number, noun: string): string {
  const several = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${count} ${count === 1 ? noun : several}`
}
