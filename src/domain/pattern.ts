/**
 * Patterns of path reservations, and whether two of them can match the same path.
 *
 * A path is relative: one or more non-empty names joined by `/`. Names are compared by code point, so case and Unicode
 * normalization matter, and a leading dot is not special. `.` and `..` are refused where they are spelled out, because
 * they refer to a different path than they say. The whole path has to match. The complete dialect:
 *
 * - `?` matches one character of a name, `*` any number of them, including none;
 * - `**`, alone between slashes, matches any number of names, including none: `src/**` covers `src` too, because
 *   anyone working below a folder cares what happens to the folder;
 * - `[abc]`, `[a-z]` matches one of these characters, `[!abc]` or `[^abc]` one that is not among them; a leading `]`
 *   and a leading or trailing `-` stand for themselves; `/` never belongs to a class;
 * - `{left,right}` matches either, expanded before everything else; alternatives may be empty, be nested and contain
 *   `/`;
 * - everything else stands for itself. There is no escape character: `[*]`, `[[]`, `[]]` and `[{]` match the
 *   character they contain.
 *
 * Not promised: that a pattern matches a file, or that two spellings of one file (case, links) are seen as one.
 */
import { type Alternative, type CharacterSet, many, parsePattern, type Segment } from './pattern-syntax.ts'

/** A parsed pattern, ready to be compared. */
export interface Pattern {
  readonly alternatives: readonly Alternative[]
  /** Characters of its text plus steps of its alternatives: what parsing it costs. */
  readonly size: number
}

/** Cache of parsed patterns. A pattern is checked before a transaction and compared inside it, but parsed only once. */
const known = new Map<string, Pattern>()
/** A step takes about ten bytes. */
const maxKnownSize = 1_000_000
let knownSize = 0

/**
 * Parses a pattern. Refuses text that is not in this dialect or is too large to compare quickly, and says what to do.
 */
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

/** Counts the steps of a comparison; may abort it by throwing. */
export interface Effort {
  spend(steps: number): void
}

const unlimited: Effort = { spend() {} }

/** Whether an alternative on the left and one on the right match the same path. */
export function haveCommonPath(
  left: readonly Alternative[],
  right: readonly Alternative[],
  effort = unlimited,
): boolean {
  const haveCommonName = (one: Segment, other: Segment) =>
    intersects(one, other, (here, there) => haveCommonCharacter(here, there, effort), effort)
  return left.some((one) => right.some((other) => intersects(one, other, haveCommonName, effort)))
}

/** The fixed cost of a row, in addition to its cells. */
const rowSteps = 8

/**
 * Runs two automata side by side. Each is a sequence of steps, some of which are loops that accept anything. A pair of
 * positions is reachable if some common prefix leads to it; the two intersect if the pair of both ends is reachable.
 * Every step accepts something, so a loop can always skip over one. The same walk serves the segments of a path and the
 * characters of a segment; a literal path is just a pattern without loops.
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
