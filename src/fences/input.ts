/** Checks what callers pass in; these functions are also called from plain JavaScript. */
import { nearestName } from '../domain/name.ts'
import type { Facts } from '../error-facts.ts'
import { InvalidError } from '../errors.ts'

export function invalid(what: string, next: string, facts: Facts = {}): InvalidError {
  return new InvalidError({ what, next, facts })
}

/** Without this check, a mistyped option would be silently ignored. */
export function assertOptions(options: unknown, known: readonly string[]): void {
  if (!isObject(options))
    throw invalid('the options are not an object', `give an object with ${known.join(', ')}`)
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown === undefined) return
  const nearest = nearestName(unknown, known)
  throw invalid(
    `unknown option "${unknown}"`,
    nearest ? `did you mean "${nearest}"?` : `known options: ${known.join(', ')}`,
    { unknown: [unknown] },
  )
}

export function assertDuration(name: string, ms: unknown): void {
  if (typeof ms === 'number' && ms >= 0 && ms <= maxDurationMs) return
  throw invalid(`${name} is ${String(ms)}`, `give milliseconds from 0 to ${maxDurationMs}`, { [name]: ms })
}

export function assertText(name: string, value: unknown): void {
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return
  throw invalid(`${name} is ${JSON.stringify(value)}`, 'give a non-empty string', { [name]: value })
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Timers take at most about 25 days; nobody waits an hour for a file. */
const maxDurationMs = 60 * 60 * 1000
