/**
 * Patterns of path reservations, and whether two of them can mean the same path.
 *
 * A path is relative: one or more names joined by `/`, none of them empty. Names are compared by code point,
 * so case and Unicode form count, and a name that begins with a dot is like any other. `.` and `..` are refused
 * where they are spelled out, since they mean another path than they say. The whole path has to match. The
 * dialect, complete:
 *
 * - `?` is one character of a name, `*` any number of them (also none);
 * - `**`, alone between slashes, is any number of names, also none: `src/**` covers `src` too, because who
 *   works below a folder minds what happens to the folder;
 * - `[abc]`, `[a-z]` is one of these characters, `[!abc]` or `[^abc]` one that is none of these; `]` first and
 *   `-` first or last mean themselves; `/` never belongs to a class;
 * - `{left,right}` is either, expanded before all else; alternatives may be empty, nested and hold `/`;
 * - everything else means itself. There is no escape character: `[*]`, `[[]`, `[]]` and `[{]` mean the
 *   character they hold.
 *
 * Not promised: that a pattern matches a file, that two spellings of one file (case, links) are seen as one.
 */
import {
  type Alternative,
  type CharacterSet,
  many,
  parsePath,
  parsePattern,
  type Segment,
} from './pattern-syntax.ts'

/** A pattern as it is compared. */
export interface Pattern {
  readonly alternatives: readonly Alternative[]
  /** Characters of its text and steps of its alternatives: what reading it costs. */
  readonly size: number
}

/** What was read is kept, so that a pattern is checked before a transaction and compared inside it, and read once. */
const known = new Map<string, Pattern>()
/** A step takes some ten bytes. */
const maxKnownSize = 1_000_000
let knownSize = 0

/** Refuses, with the way out, what is no pattern of this dialect or too large to be compared quickly. */
export function readPattern(text: string): Pattern {
  const read = known.get(text)
  if (read) return read
  const alternatives = parsePattern(text)
  const steps = alternatives.flat().reduce((sum, segment) => sum + segment.length, 0)
  const pattern = { alternatives, size: text.length + steps }
  if (knownSize + pattern.size > maxKnownSize) {
    known.clear()
    knownSize = 0
  }
  known.set(text, pattern)
  knownSize += pattern.size
  return pattern
}

/** Whether the path, taken literally, is one of those the pattern means. Both are checked first. */
export function matchesPattern(pattern: string, path: string): boolean {
  return haveCommonPath(readPattern(pattern).alternatives, [parsePath(path)])
}

/** Whether some path matches both: exact, not a guess, and bounded by the product of the two sizes. */
export function patternsOverlap(left: string, right: string): boolean {
  return haveCommonPath(readPattern(left).alternatives, readPattern(right).alternatives)
}

/** Takes the count of the steps a comparison takes, and may end it by throwing. */
export interface Effort {
  spend(steps: number): void
}

const unlimited: Effort = { spend() {} }

/** Whether one of the alternatives on the left and one on the right mean the same path. */
export function haveCommonPath(
  left: readonly Alternative[],
  right: readonly Alternative[],
  effort = unlimited,
): boolean {
  const haveCommonName = (one: Segment, other: Segment) =>
    intersects(one, other, (here, there) => haveCommonCharacter(here, there, effort), effort)
  return left.some((one) => right.some((other) => intersects(one, other, haveCommonName, effort)))
}

/** What a row costs besides its cells. */
const rowSteps = 8

/**
 * Runs two automata side by side. Each is a row of steps, some of them loops that take anything; a pair of
 * positions is reachable when some common beginning leads to it, and the two meet when the pair of both ends
 * is. Every step can be met by something, so a loop may always pass over one. The same walk serves segments
 * of a path and characters of a segment, and a literal path is only a pattern without loops.
 */
function intersects<Step>(
  left: readonly (Step | typeof many)[],
  right: readonly (Step | typeof many)[],
  meet: (left: Step, right: Step) => boolean,
  effort: Effort,
): boolean {
  let reachable = new Uint8Array(right.length + 1)
  reachable[0] = 1
  for (let i = 0; i <= left.length; i++) {
    effort.spend(right.length + rowSteps)
    const after = new Uint8Array(right.length + 1)
    for (let j = 0; j <= right.length; j++) {
      if (reachable[j] === 0) continue
      const one = left[i]
      const other = right[j]
      if (one === many || other === many) {
        if (i < left.length) after[j] = 1
        if (j < right.length) reachable[j + 1] = 1
      } else if (one !== undefined && other !== undefined && meet(one, other)) {
        after[j + 1] = 1
      }
    }
    if (i === left.length) break
    if (!after.includes(1)) return false
    reachable = after
  }
  return reachable[right.length] === 1
}

function haveCommonCharacter(left: CharacterSet, right: CharacterSet, effort: Effort): boolean {
  if (typeof left === 'number')
    return typeof right === 'number' ? left === right : isMember(right, left, effort)
  if (typeof right === 'number') return isMember(left, right, effort)
  effort.spend(left.length * right.length)
  return left.some(([low, high]) => right.some((range) => low <= range[1] && range[0] <= high))
}

function isMember(ranges: Exclude<CharacterSet, number>, character: number, effort: Effort): boolean {
  effort.spend(ranges.length)
  return ranges.some(([low, high]) => low <= character && character <= high)
}
