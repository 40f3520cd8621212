/** Parses patterns of the dialect described in pattern.ts into sequences of steps that can be compared. */
import { InvalidError } from '../errors.ts'

type Range = readonly [low: number, high: number]
/** One character, or a set of ranges: sorted, disjoint, never empty, never including `/`. */
export type CharacterSet = number | readonly Range[]
/** Any number of characters in a segment, or any number of segments in an alternative. */
export const many = '*'
export type Segment = readonly (CharacterSet | typeof many)[]
/** One expansion of the braces. */
export type Alternative = readonly (Segment | typeof many)[]

const maxPatternLength = 512
export const maxPathLength = 4096
const maxSegments = 64
/** Total characters of all expansions. Comparing two patterns takes at most the product of their totals. */
const maxExpanded = 1024
/** Each level copies its content. */
const maxBracesDepth = 8

const manySegments = '**'
type Token = CharacterSet | typeof many | typeof manySegments

const fromSharedRoot = 'write the names from the root that everybody shares, as in src/a.ts'

const slash = 47
const dot = 46
const lastCharacter = 0x10ffff
/** Characters that no name can contain. */
const outsideNames: readonly Range[] = [
  [0, 0],
  [slash, slash],
]
const anyCharacter = complement(outsideNames)

/** Parses a literal path: characters that are special in a pattern stand for themselves. */
export function parsePath(path: string): Alternative {
  const refuse = refusalOf('path', path)
  assertText(path, maxPathLength, refuse)
  return splitSegments(Array.from(path, codeOf), refuse)
}

export function parsePattern(text: string): readonly Alternative[] {
  const refuse = refusalOf('pattern', text)
  assertText(text, maxPatternLength, refuse)
  return new PatternReader(text, refuse).readAll().map((tokens) => {
    const alternative = splitSegments(tokens, refuse)
    if (alternative.length <= maxSegments) return alternative
    throw refuse(`has more than ${maxSegments} segments`, 'use ** for some of them')
  })
}

function assertText(text: string, maxLength: number, refuse: Refusal): void {
  if (text.length > maxLength) throw refuse(`is longer than ${maxLength} characters`, 'use a shorter one')
  if (text.includes('\0')) throw refuse('contains a NUL character', 'leave it out')
  if (/^[a-z]:\//i.test(text)) throw refuse('is absolute', fromSharedRoot)
}

type Refusal = (why: string, next: string) => InvalidError

class PatternReader {
  readonly #characters: readonly string[]
  readonly #refuse: Refusal
  #at = 0
  #depth = 0

  constructor(text: string, refuse: Refusal) {
    this.#characters = Array.from(text)
    this.#refuse = refuse
  }

  readAll(): readonly Token[][] {
    const expansions = this.#readSequence(false)
    if (this.#next() !== undefined) throw this.#unbalanced('}', '[}]')
    return expansions
  }

  /** Reads up to the end of the text, or of an alternative in braces. */
  #readSequence(inBraces: boolean): Token[][] {
    let expansions: Token[][] = [[]]
    for (;;) {
      const character = this.#next()
      if (character === undefined || character === '}' || (inBraces && character === ',')) break
      if (character === '{') {
        expansions = this.#join(expansions, this.#readBraces())
      } else {
        const token = this.#readToken(character)
        for (const tokens of expansions) tokens.push(token)
      }
    }
    this.#assertSize(sizeOf(expansions))
    return expansions
  }

  #readBraces(): Token[][] {
    const options: Token[][] = []
    let alternatives = 0
    if (++this.#depth > maxBracesDepth) {
      throw this.#refuse(`nests braces more than ${maxBracesDepth} deep`, 'use several patterns')
    }
    do {
      this.#at++
      alternatives++
      options.push(...this.#readSequence(true))
    } while (this.#next() === ',')
    if (this.#next() !== '}') throw this.#unbalanced('{', '[{]')
    this.#at++
    this.#depth--
    if (alternatives > 1) return options
    throw this.#refuse('has braces without a comma', 'write {one,other}, or [{] and [}] for the characters')
  }

  #readToken(character: string): Token {
    if (character === '[') return this.#readClass()
    if (character === '*') return this.#readStars()
    if (character === ']') throw this.#unbalanced(']', '[]]')
    if (character === '\\') {
      throw this.#refuse(
        'contains a backslash',
        'write / between segments, and a special character in brackets: [*]',
      )
    }
    this.#at++
    return character === '?' ? anyCharacter : codeOf(character)
  }

  #readStars(): Token {
    const start = this.#at
    while (this.#next() === '*') this.#at++
    const stars = this.#at - start
    if (stars > 2) throw this.#refuse('contains more than two * in a row', 'write * or **')
    return stars === 2 ? manySegments : many
  }

  #readClass(): CharacterSet {
    this.#at++
    const isNegated = this.#next() === '!' || this.#next() === '^'
    if (isNegated) this.#at++
    const members: Range[] = []
    do members.push(this.#readMember())
    while (this.#next() !== ']')
    this.#at++
    const chosen = isNegated ? members : complement(members)
    return this.#simplest(complement([...chosen, ...outsideNames]))
  }

  /** One character, or two with a hyphen between them. A hyphen before the closing bracket stands for itself. */
  #readMember(): Range {
    const low = this.#readMemberCharacter()
    const isRange = this.#next() === '-' && this.#characters[this.#at + 1] !== ']'
    if (!isRange) return [low, low]
    this.#at++
    const high = this.#readMemberCharacter()
    if (low <= high) return [low, high]
    throw this.#refuse('has a range that ends before it begins', 'write the lower character first: [a-z]')
  }

  #readMemberCharacter(): number {
    const character = this.#next()
    if (character === undefined) throw this.#unbalanced('[', '[[]')
    if (character === '/') throw this.#refuse('has a / in brackets', 'use {left,right} for different folders')
    this.#at++
    return codeOf(character)
  }

  /** A class with one member becomes that character, so that `[.][.]` is recognized as `..`. */
  #simplest(ranges: readonly Range[]): CharacterSet {
    const [first] = ranges
    if (!first) throw this.#refuse('has brackets that match no character', 'leave them out')
    return ranges.length === 1 && first[0] === first[1] ? first[0] : ranges
  }

  #join(starts: readonly Token[][], ends: readonly Token[][]): Token[][] {
    // Checked before expanding: ten braces with ten alternatives each would not fit in memory.
    this.#assertSize(sizeOf(starts) * ends.length + (sizeOf(ends) - ends.length) * starts.length)
    return starts.flatMap((start) => ends.map((end) => [...start, ...end]))
  }

  #assertSize(size: number): void {
    if (size <= maxExpanded) return
    throw this.#refuse(
      `expands to more than ${maxExpanded} characters`,
      'use fewer alternatives, or several patterns',
    )
  }

  #next(): string | undefined {
    return this.#characters[this.#at]
  }

  #unbalanced(bracket: string, literal: string): InvalidError {
    return this.#refuse(`has an unmatched ${bracket}`, `close it, or write ${literal}`)
  }
}

/** A class counts once per range and an empty expansion counts as one, because each of them costs work. */
function sizeOf(expansions: readonly Token[][]): number {
  let size = expansions.length
  for (const tokens of expansions) {
    for (const token of tokens) size += Array.isArray(token) ? token.length : 1
  }
  return size
}

function splitSegments(tokens: readonly Token[], refuse: Refusal): Alternative {
  const segments: Token[][] = [[]]
  for (const token of tokens) {
    if (token === slash) segments.push([])
    else segments.at(-1)?.push(token)
  }
  return segments.map((segment, index) => {
    assertSegment(segment, { refuse, isFirst: index === 0, isOnly: segments.length === 1 })
    return segment[0] === manySegments ? many : (segment as Segment)
  })
}

function assertSegment(
  segment: readonly Token[],
  { refuse, isFirst, isOnly }: { refuse: Refusal; isFirst: boolean; isOnly: boolean },
): void {
  if (segment.length === 0) {
    if (isOnly) throw refuse('is empty', 'name a path; ** means every one')
    if (isFirst) throw refuse('is absolute', fromSharedRoot)
    throw refuse('has an empty segment', 'write one / between names and none at the end')
  }
  if (segment.length <= 2 && segment.every((token) => token === dot)) {
    throw refuse('has a segment . or ..', fromSharedRoot)
  }
  if (segment.length > 1 && segment.includes(manySegments)) {
    throw refuse('has ** next to other characters', 'write * inside a name, ** alone between slashes')
  }
}

/** Every character outside the ranges, which may overlap and be in any order. */
function complement(ranges: readonly Range[]): readonly Range[] {
  const gaps: Range[] = []
  let from = 0
  for (const [low, high] of ranges.toSorted((left, right) => left[0] - right[0])) {
    if (low > from) gaps.push([from, low - 1])
    from = Math.max(from, high + 1)
  }
  if (from <= lastCharacter) gaps.push([from, lastCharacter])
  return gaps
}

function codeOf(character: string): number {
  return character.codePointAt(0) as number
}

function refusalOf(what: 'path' | 'pattern', text: string): Refusal {
  const shown = JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
  return (why, next) =>
    new InvalidError({ what: `the ${what} ${shown} ${why}`, next, facts: { [what]: text } })
}
