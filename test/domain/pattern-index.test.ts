import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readPattern } from '../../src/domain/pattern.ts'
import { PatternIndex } from '../../src/domain/pattern-index.ts'
import { patternsOverlap } from './pattern-samples.ts'

describe('an index of patterns', () => {
  const aName = fc
    .array(fc.constantFrom('a', 'b', 'ab', '?', '[ab]', '{a,b}', '{,b}'), { minLength: 1, maxLength: 3 })
    .map((parts) => parts.join(''))
  const aStar = fc
    .tuple(fc.constantFrom('', 'a', 'ab'), fc.constantFrom('', 'b', 'ba'))
    .map((ends) => ends.join('*'))
  const aPattern = fc
    .array(fc.oneof({ weight: 4, arbitrary: aName }, { weight: 2, arbitrary: aStar }, fc.constant('**')), {
      minLength: 1,
      maxLength: 4,
    })
    .map((names) => names.join('/'))
    .filter(isPattern)

  test('finds an overlap exactly where comparing every pair would [L15]', () => {
    fc.assert(
      fc.property(
        fc.array(aPattern, { minLength: 1, maxLength: 8 }),
        fc.array(aPattern, { minLength: 1, maxLength: 8 }),
        (mine, theirs) => {
          const index = PatternIndex.ofPatterns(mine, Number.POSITIVE_INFINITY)

          for (const pattern of theirs) {
            const pairwise = mine.some((each) => patternsOverlap(each, pattern))
            expect([mine, pattern, index.overlaps(pattern)]).toEqual([mine, pattern, pairwise])
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test.each([
    [['src/**'], 'src'],
    [['src'], 'src/**'],
    [['**/a'], 'a'],
    [['a'], '**/a'],
    [['src/a', 'src/**', 'src/a/b'], 'src/a/c'],
    [['a', 'a/b', 'a/b/c', 'a*'], 'a/b'],
    [['{a,b}/c'], 'b/c'],
    [['b', 'a*', 'aa*', 'ac'], 'abc'],
  ])('%j overlaps %s, although their texts begin or end differently', (mine, pattern) => {
    expect(PatternIndex.ofPatterns(mine, Number.POSITIVE_INFINITY).overlaps(pattern)).toBe(true)
  })
})

/** Empty alternatives may make an empty name, and many braces a pattern that is too large. */
function isPattern(text: string): boolean {
  try {
    readPattern(text)
    return true
  } catch {
    return false
  }
}
