/** Whether patterns match, without the index that the product uses. */
import { haveCommonPath, readPattern } from '../../src/domain/pattern.ts'
import { parsePath } from '../../src/domain/pattern-syntax.ts'

/** Whether the pattern matches the path, taken literally. Both are validated first. */
export function matchesPattern(pattern: string, path: string): boolean {
  return haveCommonPath(readPattern(pattern).alternatives, [parsePath(path)])
}

/** Whether some path matches both. Exact, not a guess, and bounded by the product of the two sizes. */
export function patternsOverlap(left: string, right: string): boolean {
  return haveCommonPath(readPattern(left).alternatives, readPattern(right).alternatives)
}
