/**
 * A set of patterns that many others are compared with. Two patterns whose literal prefixes or suffixes are
 * incompatible have no path in common, so most pairs are ruled out without being parsed. The rest are compared exactly.
 *
 * The literal text before the first special character is a prefix of every path the pattern matches, once a `/` is
 * appended to the path (`src/**` also matches `src`). The text after the last special character is a suffix, once a `/`
 * is prepended (as with `**` + `/a`). So if two patterns have a path in common, one of their prefixes starts with the
 * other, and likewise one of their suffixes ends with the other.
 */
import { InvalidError } from '../errors.ts'
import { type Effort, haveCommonPath, readPattern } from './pattern.ts'
import { type Alternative, parsePath } from './pattern-syntax.ts'

interface Entry {
  readonly start: string
  readonly end: string
  readonly alternatives: readonly Alternative[]
  /** The nearest preceding entry whose prefix is also a prefix of this one. */
  readonly within: Entry | null
}

/** The cost of finding a pair to compare, and of parsing one character of a pattern, in comparison steps. */
const pairSteps = 20
const readSteps = 80

/** The size of an ordinary pattern, in steps. */
const ordinarySteps = 64

/**
 * What these patterns cost the next caller, in comparison steps, if it asks with an ordinary pattern whose prefix rules
 * none of them out: the highest total over any chain of nested prefixes.
 */
export function costToNext(texts: readonly string[]): number {
  const sorted = texts.toSorted((left, right) => byStart({ start: startOf(left) }, { start: startOf(right) }))
  const entries = nested(sorted.map((text) => ({ start: startOf(text), end: '', alternatives: [] })))
  const sums = new Map<Entry | null, number>([[null, 0]])
  for (const [at, entry] of entries.entries()) {
    const cost = pairSteps + (readSteps + ordinarySteps) * readPattern(sorted[at] as string).size
    sums.set(entry, cost + (sums.get(entry.within) as number))
  }
  return Math.max(...sums.values())
}

export class PatternIndex {
  /** Sorted by prefix, so that entries that start with the same text are adjacent. */
  readonly #entries: readonly Entry[]
  readonly #effort: Effort

  private constructor(entries: readonly Omit<Entry, 'within'>[], maxSteps: number) {
    this.#entries = nested(entries.toSorted(byStart))
    this.#effort = limitedEffort(maxSteps)
  }

  /** A million steps take about 10 ms. */
  static ofPatterns(texts: readonly string[], maxSteps: number): PatternIndex {
    const entries = texts.map((text) => {
      const { alternatives } = readPattern(text)
      return { start: startOf(text), end: endOf(text), alternatives }
    })
    return new PatternIndex(entries, maxSteps)
  }

  /** For a literal path: characters that are special in a pattern stand for themselves. */
  static ofPath(path: string, maxSteps: number): PatternIndex {
    return new PatternIndex([{ start: path, end: path, alternatives: [parsePath(path)] }], maxSteps)
  }

  /** Whether some path matches both the pattern and one of these. INVALID if all comparisons together take too long. */
  overlaps(text: string): boolean {
    const start = startOf(text)
    const first = this.#firstNotBefore(start)
    const overlaps = this.#comparedTo(text)
    for (let at = first; this.#entries[at]?.start.startsWith(start); at++) {
      if (overlaps(this.#entries[at] as Entry)) return true
    }
    // Every entry sorted between a prefix and a longer one that starts with it also starts with it, so none is skipped.
    for (let entry = this.#entries[first - 1] ?? null; entry; entry = entry.within) {
      if (start.startsWith(entry.start) && overlaps(entry)) return true
    }
    return false
  }

  /** For entries whose prefix fits. Parses the pattern at most once, and only if its suffix fits too. */
  #comparedTo(text: string): (entry: Entry) => boolean {
    let ownEnd: string | null = null
    let own: readonly Alternative[] | null = null
    return ({ end, alternatives }) => {
      this.#effort.spend(pairSteps)
      ownEnd ??= endOf(text)
      if (!end.endsWith(ownEnd) && !ownEnd.endsWith(end)) return false
      own ??= this.#read(text)
      return haveCommonPath(alternatives, own, this.#effort)
    }
  }

  /** Charged even if the pattern is already cached, so that the same request gets the same answer everywhere. */
  #read(text: string): readonly Alternative[] {
    const { alternatives, size } = readPattern(text)
    this.#effort.spend(readSteps * size)
    return alternatives
  }

  #firstNotBefore(start: string): number {
    let [low, high] = [0, this.#entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle] as Entry).start < start) low = middle + 1
      else high = middle
    }
    return low
  }
}

function byStart(left: Pick<Entry, 'start'>, right: Pick<Entry, 'start'>): number {
  if (left.start === right.start) return 0
  return left.start < right.start ? -1 : 1
}

function nested(sorted: readonly Omit<Entry, 'within'>[]): Entry[] {
  const entries: Entry[] = []
  for (const each of sorted) {
    let within = entries.at(-1) ?? null
    while (within && !each.start.startsWith(within.start)) within = within.within
    entries.push({ ...each, within })
  }
  return entries
}

function startOf(text: string): string {
  const special = text.search(/[*?[{]/)
  return special === -1 ? text : text.slice(0, special)
}

/** Text after the last special character is never inside brackets: their closing bracket would have to follow it. */
function endOf(text: string): string {
  let at = text.length
  while (at > 0 && !'*?]}'.includes(text[at - 1] as string)) at--
  return text.slice(at)
}

function limitedEffort(maxSteps: number): Effort {
  let left = maxSteps
  return {
    spend(steps) {
      left -= steps
      if (left >= 0) return
      throw new InvalidError({
        what: `comparing with the patterns that are reserved takes more than ${maxSteps} steps`,
        next: 'start patterns with folder names, or use fewer at once',
        facts: { maxSteps },
      })
    },
  }
}
