/**
 * Some patterns with which many others are compared. Two patterns that begin with different plain text, or end with
 * it, have no path in common; so most pairs are told apart without being read. What is left is compared exactly.
 *
 * The plain text before the first special character begins every path that the pattern means, once a `/` is added to
 * its end (`src/**` also means `src`); the text behind the last one ends it, once a `/` is put before it (as with
 * `**` + `/a`). So where two patterns have a path in common, one of their beginnings begins with the other, and the
 * same holds for their ends.
 */
import { InvalidError } from '../errors.ts'
import { type Effort, haveCommonPath, readPattern } from './pattern.ts'
import { type Alternative, parsePath } from './pattern-syntax.ts'

interface Entry {
  readonly start: string
  readonly end: string
  readonly alternatives: readonly Alternative[]
  /** The nearest one before it whose beginning begins its own. */
  readonly within: Entry | null
}

/** Finding two patterns to be compared, and reading a character of one, in steps of the comparison. */
const pairSteps = 20
const readSteps = 80

/** What an ordinary pattern has, in steps. */
const ordinarySteps = 64

/**
 * What these cost whoever asks next with an ordinary pattern that none of them can be told apart from by its beginning:
 * the most of all those that lie within each other, in steps of the comparison.
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
  /** By how they begin, in order: those that begin with some text lie together. */
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

  /** Of a path taken literally: what would be special in a pattern means itself. */
  static ofPath(path: string, maxSteps: number): PatternIndex {
    return new PatternIndex([{ start: path, end: path, alternatives: [parsePath(path)] }], maxSteps)
  }

  /** Whether some path matches the pattern and one of these. INVALID when all comparisons take too long. */
  overlaps(text: string): boolean {
    const start = startOf(text)
    const first = this.#firstNotBefore(start)
    let other: Candidate | null = null
    for (let at = first; this.#entries[at]?.start.startsWith(start); at++) {
      other ??= new Candidate(text, this.#effort)
      if (other.overlaps(this.#entries[at] as Entry)) return true
    }
    // Whatever lies between a text and a longer one that begins with it begins with it, too: so none is passed over.
    for (let entry = this.#entries[first - 1] ?? null; entry; entry = entry.within) {
      if (!start.startsWith(entry.start)) continue
      other ??= new Candidate(text, this.#effort)
      if (other.overlaps(entry)) return true
    }
    return false
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

/** A pattern whose beginning fits: read once, and only when its end fits too. */
class Candidate {
  readonly #text: string
  readonly #end: string
  readonly #effort: Effort
  #alternatives: readonly Alternative[] | null = null

  constructor(text: string, effort: Effort) {
    this.#text = text
    this.#end = endOf(text)
    this.#effort = effort
  }

  overlaps({ end, alternatives }: Entry): boolean {
    this.#effort.spend(pairSteps)
    if (!end.endsWith(this.#end) && !this.#end.endsWith(end)) return false
    this.#alternatives ??= this.#read()
    return haveCommonPath(alternatives, this.#alternatives, this.#effort)
  }

  /** Counted also where it is known already, so that the same request has the same answer everywhere. */
  #read(): readonly Alternative[] {
    const { alternatives, size } = readPattern(this.#text)
    this.#effort.spend(readSteps * size)
    return alternatives
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

/** What is behind the last special character is in no brackets: they would have to be closed behind it. */
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
