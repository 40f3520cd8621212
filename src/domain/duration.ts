/** Durations as people write them: `30s`, `1h30m`, `500ms`. */

/** Largest first. */
export const durationUnits = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
] as const

/** The two largest units, which say enough; milliseconds only for less than a second. */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  if (whole < 1000) return `${whole}ms`
  let rest = whole - (whole % 1000)
  const parts: string[] = []
  for (const [unit, size] of durationUnits) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0 || parts.length > 0) parts.push(count > 0 ? `${count}${unit}` : '')
    if (parts.length === 2) break
  }
  return parts.join('')
}
