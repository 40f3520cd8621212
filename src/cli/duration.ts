/** Durations as people type them: `30s`, `5m`, `500ms`. A bare number other than 0 is refused: of what? */
import { InvalidError } from '../errors.ts'

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

export function parseDuration(text: string): number {
  if (text === '0') return 0
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? []
  const ms = Number(amount) * (unitMs[unit ?? ''] ?? Number.NaN)
  if (Number.isSafeInteger(Math.round(ms))) return Math.round(ms)
  throw new InvalidError({
    what: `"${text}" is not a duration`,
    next: 'write it with its unit: 500ms, 30s, 5m, 2h or 1d',
    facts: { duration: text },
  })
}
