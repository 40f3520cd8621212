import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readPattern } from '../../src/domain/pattern.ts'
import { matchesPattern, patternsOverlap } from './pattern-samples.ts'
import { refusalOf } from './samples.ts'

describe('a pattern', () => {
  test.each([
    ['src/a.ts', 'src/a.ts', 'SRC/a.ts', 'src/a.tsx', 'src', 'src/a.ts/b'],
    ['*.ts', 'a.ts', 'src/a.ts', 'a.js'],
    ['*.ts', '.ts', '.t'],
    ['*', '.hidden', 'a/b'],
    ['a?', 'ab', 'a', 'abc'],
    ['a?', 'a😀', 'a/b'],
    ['src/**', 'src/a/b/c.ts', 'source/a'],
    ['src/**', 'src', 'sr'],
    ['**/a', 'a', 'b'],
    ['**/a', 'x/y/a', 'x/y/ab'],
    ['a/**/b', 'a/b', 'ab'],
    ['a/**/b', 'a/x/y/b', 'a/x/y/bc'],
    ['**', 'anything/at/all'],
    ['**/**', 'a'],
    ['[a-c]x', 'bx', 'dx', 'x'],
    ['[!a-c]x', 'dx', 'bx', 'x'],
    ['[^a-c]', 'd', 'b'],
    ['[]a]', ']', 'b'],
    ['[!]a]', 'b', ']'],
    ['[a-]', '-', 'b'],
    ['[-a]', '-', 'b'],
    ['[a-b-d]', 'd', 'c'],
    ['[+-9]', '8', 'a'],
    ['[\\]', '\\', 'a'],
    ['app/[[]id[]]/page.tsx', 'app/[id]/page.tsx', 'app/i/page.tsx'],
    ['{a,b}/c', 'b/c', 'c/c'],
    ['{src/**,docs}/x', 'src/a/x', 'docs/a/x'],
    ['a{,.bak}', 'a', 'a.'],
    ['a{,.bak}', 'a.bak', 'abak'],
    ['{a,{b,c}d}', 'cd', 'c'],
    ['{[,],a}', ',', ']'],
    [`${'{a,'.repeat(8)}b${'}'.repeat(8)}{c,d}`, 'bc', 'b'],
    ['a,b', 'a,b', 'a'],
    ['[*]', '*', 'a'],
    ['.github/*', '.github/x', 'github/x'],
    ['...', '...', '..x'],
  ])('%s matches %s', (pattern, path, ...others) => {
    expect(matchesPattern(pattern, path)).toBe(true)
    for (const other of others) expect([other, matchesPattern(pattern, other)]).toEqual([other, false])
  })

  test.each([
    ['', 'is empty'],
    ['/', 'is absolute'],
    ['/etc/passwd', 'is absolute'],
    ['{a,}/b', 'is absolute'],
    ['C:/Users', 'is absolute'],
    ['a//b', 'has an empty segment'],
    ['src/', 'has an empty segment'],
    ['.', 'has a segment . or ..'],
    ['./src', 'has a segment . or ..'],
    ['../src', 'has a segment . or ..'],
    ['a/{..,b}/c', 'has a segment . or ..'],
    ['a/[.][.]/c', 'has a segment . or ..'],
    ['src/a**', 'has ** next to other characters'],
    ['{**,a}b', 'has ** next to other characters'],
    ['***', 'contains more than two * in a row'],
    ['src\\a.ts', 'contains a backslash'],
    ['a\0b', 'contains a NUL character'],
    ['a[b', 'has an unmatched ['],
    ['a[]', 'has an unmatched ['],
    ['a[b-', 'has an unmatched ['],
    ['a[!', 'has an unmatched ['],
    ['a]b', 'has an unmatched ]'],
    ['a{b,c', 'has an unmatched {'],
    ['a{b,{c', 'has an unmatched {'],
    ['a}b', 'has an unmatched }'],
    ['a{b}c', 'has braces without a comma'],
    [`${'{a,'.repeat(9)}b${'}'.repeat(9)}`, 'nests braces more than 8 deep'],
    ['[a/b]', 'has a / in brackets'],
    ['[z-a]', 'has a range that ends before it begins'],
    ['[!\u{1}-\u{10ffff}]', 'has brackets that match no character'],
    ['a'.repeat(513), 'is longer than 512 characters'],
    ['a/'.repeat(64).concat('a'), 'has more than 64 segments'],
    ['{a,b}'.repeat(10), 'expands to more than 1024 characters'],
    ['{,}'.repeat(100), 'expands to more than 1024 characters'],
    [`{${'x,'.repeat(40)}x}${'y'.repeat(100)}`, 'expands to more than 1024 characters'],
  ])('%j is refused: it %s', (text, why) => {
    const refusal = refusalOf(() => readPattern(text))

    expect(refusal).toMatchObject({ code: 'INVALID', facts: { pattern: text } })
    expect(refusal.what).toContain(why)
    expect(refusal.next).not.toBe('')
  })

  test.each(['', '/a', 'a/../b', 'a//b', 'a\0', 'D:/a', 'a'.repeat(4097)])(
    'a path %j is refused rather than called unreserved',
    (path) => {
      expect(refusalOf(() => matchesPattern('**', path))).toMatchObject({ code: 'INVALID', facts: { path } })
    },
  )

  test('means the same however many others were parsed since', () => {
    const before = matchesPattern('src/*.ts', 'src/a.ts')
    for (let number = 0; number < 3_000; number++) readPattern(`${number}/`.padEnd(500, 'x'))

    expect([before, matchesPattern('src/*.ts', 'src/a.ts')]).toEqual([true, true])
  })

  test('a path matches itself, whatever its characters mean in a pattern', () => {
    expect(matchesPattern('*', '[{*?}]\\')).toBe(true)
    expect(matchesPattern('ab', 'a?')).toBe(false)
  })
})

describe('L15: two patterns overlap exactly if some path matches both', () => {
  test.each([
    ['src/**', 'src/a.ts', true],
    ['src/**', 'src', true],
    ['src/**', '**/a.ts', true],
    ['src/**', 'test/**', false],
    ['*.ts', 'src/*.ts', false],
    ['**/*.ts', 'src/*.ts', true],
    ['a?', 'ab', true],
    ['a?', 'a', false],
    ['a*', '*b', true],
    ['*a', '*b', false],
    ['a*c', 'ab*', true],
    ['[a-m]*', '[n-z]*', false],
    ['[a-m]*', '[m-z]*', true],
    ['[!a]', '[!b]', true],
    ['[!a]', 'a', false],
    ['[ad]', '[bce]', false],
    ['[ad]', '[be-zd]', true],
    ['{src,test}/**', 'test/x', true],
    ['{src,test}/**', 'docs/x', false],
    ['a/**/z', 'a/b/**', true],
    ['a/*/z', 'a/z', false],
    ['**/a/**/b/**', '**/b/**/a/**', true],
    ['src/*.test.ts', 'src/lock.*', true],
    ['src/*.ts', 'src/*.md', false],
  ])('%s and %s: %s', (left, right, expected) => {
    expect(patternsOverlap(left, right)).toBe(expected)
    expect(patternsOverlap(right, left)).toBe(expected)
  })

  // Enough letters that a class and its opposite both have members and strangers.
  const letters = ['a', 'b', 'c']
  const aCharacter = fc.constantFrom('a', 'b', 'c', '?', '[ab]', '[!a]', '[!b]', '[b-c]')
  const aToken = fc.oneof({ weight: 3, arbitrary: aCharacter }, { weight: 2, arbitrary: fc.constant('*') })
  const aName = (maxLength: number) =>
    fc.array(aToken, { minLength: 1, maxLength: maxLength }).map((tokens) =>
      // Two stars of one name would be read as `**`.
      tokens.filter((token, at) => token !== '*' || tokens[at - 1] !== '*').join(''),
    )
  const aPattern = (maxNames: number, maxLength: number) =>
    fc
      .array(fc.oneof({ weight: 3, arbitrary: aName(maxLength) }, fc.constant('**')), {
        minLength: 1,
        maxLength: maxNames,
      })
      .map((names) => names.join('/'))

  /** The same meaning told to another machine: names end in a slash, so that `**` is a plain repetition. */
  function meaningOf(pattern: string): (path: string) => boolean {
    const names = pattern.split('/').map((name) => {
      if (name === '**') return '(?:[^/]+/)*'
      return `(?!/)${name.replaceAll('[!', '[^/').replaceAll('*', '[^/]*').replaceAll('?', '[^/]')}/`
    })
    const expression = new RegExp(`^${names.join('')}$`)
    return (path) => expression.test(`${path}/`)
  }

  function enumerate(parts: readonly string[], maxLength: number, separator: string): string[] {
    const all: string[] = []
    let longest = ['']
    for (let length = 1; length <= maxLength; length++) {
      longest = longest.flatMap((start) =>
        parts.map((part) => (length === 1 ? part : start + separator + part)),
      )
      all.push(...longest)
    }
    return all
  }

  function expectExact(left: string, right: string, paths: readonly string[]) {
    const [isLeft, isRight] = [meaningOf(left), meaningOf(right)]
    const common = paths.find((path) => isLeft(path) && isRight(path))

    expect([left, right, common, patternsOverlap(left, right)]).toEqual([
      left,
      right,
      common,
      common !== undefined,
    ])
    expect(patternsOverlap(right, left)).toBe(common !== undefined)
    if (common === undefined) return
    expect(matchesPattern(left, common) && matchesPattern(right, common)).toBe(true)
  }

  // A shortest common path is no longer than the fixed characters of both patterns together.
  test('of names, by enumeration of every name of up to eight letters', () => {
    const names = enumerate(letters, 8, '')

    fc.assert(
      fc.property(aName(4), aName(4), (left, right) => expectExact(left, right, names)),
      { numRuns: 500 },
    )
  })

  test('of folders, by enumeration of every path of up to eight one-letter names', () => {
    const paths = enumerate(letters, 8, '/')

    fc.assert(
      fc.property(aPattern(4, 1), aPattern(4, 1), (left, right) => expectExact(left, right, paths)),
      { numRuns: 500 },
    )
  })

  test('of paths, by enumeration of every path of up to four names of up to two letters', () => {
    const paths = enumerate(enumerate(letters, 2, ''), 4, '/')

    fc.assert(
      fc.property(aPattern(2, 1), aPattern(2, 2), (left, right) => expectExact(left, right, paths)),
      { numRuns: 300 },
    )
  })

  test('a pattern matches exactly the paths that its meaning names', () => {
    const paths = enumerate(enumerate(letters, 2, ''), 3, '/')

    fc.assert(
      fc.property(aPattern(3, 3), fc.constantFrom(...paths), (pattern, path) => {
        expect(matchesPattern(pattern, path)).toBe(meaningOf(pattern)(path))
      }),
      { numRuns: 2000 },
    )
  })

  test('every pattern overlaps itself', () => {
    fc.assert(fc.property(aPattern(5, 5), (pattern) => patternsOverlap(pattern, pattern)))
  })

  test('braces overlap what one of their alternatives overlaps', () => {
    fc.assert(
      fc.property(aPattern(3, 3), aPattern(3, 3), aPattern(3, 3), (one, other, third) => {
        const either = patternsOverlap(one, third) || patternsOverlap(other, third)

        expect(patternsOverlap(`{${one},${other}}`, third)).toBe(either)
        expect(patternsOverlap(third, `{${one},${other}}`)).toBe(either)
      }),
    )
  })

  test('the largest patterns are compared in bounded time', () => {
    const tall = `{${'*a*b,'.repeat(20)}x}${'*?[a-y]'.repeat(9)}`

    expect(patternsOverlap(`${tall}x`, `${tall}y`)).toBe(false)
  })
})
