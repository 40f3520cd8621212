/** Names people type: queues, locks, agents, keys. Restricted so that they are safe in logs, paths and URLs. */
import { InvalidError } from '../errors.ts'
import { shown } from './text.ts'

export const maxNameLength = 200
const namePattern = /^[\p{L}\p{N}_][\p{L}\p{N}_.:/@+#=,~ -]*$/u
/** Some letters are invisible, such as the Hangul fillers: a name containing one could impersonate another. */
const unseen = /\p{Default_Ignorable_Code_Point}/u

export function isName(text: unknown): text is string {
  if (typeof text !== 'string') return false
  if (text.length > maxNameLength || !namePattern.test(text) || unseen.test(text)) return false
  return !text.includes('..') && !text.endsWith(' ')
}

export function assertName(what: string, given: unknown): void {
  if (isName(given)) return
  const text = shown(given)
  throw new InvalidError({
    what: `${text} is not a usable ${what}`,
    next: `use 1 to ${maxNameLength} letters, digits or _ . : / @ + # = , ~ - and inner spaces, beginning with a letter, digit or _ and without ".."`,
    facts: { [what]: typeof given === 'string' ? given : text },
  })
}

/**
 * The known name nearest to a mistyped one, or null if none is close enough to suggest. A prefix stands for the
 * shortest name that starts with it, because `prio` is far from `priority` by edit distance.
 */
export function nearestName(text: string, known: readonly string[]): string | null {
  const begun = text.length < begunLengthMin ? [] : known.filter((name) => begins(name, text))
  if (begun.length > 0) return begun.reduce((best, name) => (name.length < best.length ? name : best))
  let best: string | null = null
  let bestDistance = Math.max(2, Math.floor(text.length / 3)) + 1
  for (const candidate of ofLikeLength(text, known)) {
    const distance = editDistance(text.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** Shorter prefixes match too many names. */
const begunLengthMin = 3

function begins(name: string, text: string): boolean {
  return name.toLowerCase().startsWith(text.toLowerCase())
}

/** A mistyped name must not keep others waiting: only this many names are compared, and only up to this length. */
const maxCompared = 500
const maxComparedLength = 64

/** The known names nearest to an unknown one, nearest first; if there are very many, only those of similar length. */
export function nearestNames(text: string, known: readonly string[], count: number): string[] {
  const wanted = text.toLowerCase()
  return ofLikeLength(text, known)
    .map((name) => ({ name, distance: editDistance(wanted, name.toLowerCase()) }))
    .sort((left, right) => left.distance - right.distance || (left.name < right.name ? -1 : 1))
    .slice(0, count)
    .map(({ name }) => name)
}

function ofLikeLength(text: string, known: readonly string[]): readonly string[] {
  if (known.length <= maxCompared) return known
  const farness = (name: string) => Math.abs(name.length - text.length)
  return [...known].sort((left, right) => farness(left) - farness(right)).slice(0, maxCompared)
}

function editDistance(first: string, second: string): number {
  const from = first.slice(0, maxComparedLength)
  const to = second.slice(0, maxComparedLength)
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const substitution = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[to.length] as number
}
