/** Durations and times as people type and read them: `30s`, `1h30m`, `500ms`; ISO times in UTC. */
import { durationUnits, formatDuration } from '../domain/duration.ts'
import { InvalidError } from '../errors.ts'

export { formatDuration }

const pattern =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?$/

/** Refuses a bare number other than 0, because it has no unit. */
export function parseDuration(text: string): number {
  if (text === '0') return 0
  const parts = text === '' ? null : pattern.exec(text)
  const ms = Math.round(
    (parts ?? [])
      .slice(1)
      .reduce((sum, part, index) => sum + Number(part ?? 0) * (durationUnits[index]?.[1] ?? 0), 0),
  )
  if (parts !== null && Number.isSafeInteger(ms)) return ms
  throw new InvalidError({
    what: `"${text}" is not a duration`,
    next: 'write it with its unit: 500ms, 30s, 5m, 1h30m or 1d',
    facts: { duration: text },
  })
}

/** An ISO time, or a duration from now with a plus: `2026-11-16T08:00:00Z`, `+10m`. */
export function parseTime(text: string, now: number): number {
  if (text.startsWith('+')) return now + parseDuration(text.slice(1))
  // Without a time zone it would mean a different time on a different machine.
  const isWhole = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)
  const time = isWhole && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(time)) return time
  throw new InvalidError({
    what: `"${text}" is not a time`,
    next: 'write 2026-11-16T08:00:00Z, 2026-11-16 for midnight UTC on that day, or +10m for ten minutes from now',
    facts: { time: text },
  })
}

/** Rejects 30 February, which `Date.parse` would turn into 2 March. */
function isDay(text: string): boolean {
  const time = Date.parse(text)
  return !Number.isNaN(time) && formatTime(time).startsWith(text)
}

/** `2026-11-16T08:00:00Z`. */
export function formatTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}
