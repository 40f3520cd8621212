/** Words as they are typed at a shell. */
import { expect, test } from 'vitest'
import { unquoted } from '../../src/cli/shell-word.ts'

test.each([
  ['plain', 'plain'],
  ['', ''],
  ['"two words"', 'two words'],
  ["'two words'", 'two words'],
  ['two\\ words', 'two words'],
  ['"a \\"b\\" \\$c \\d"', 'a "b" $c \\d'],
  [`'a "b" \\c'`, 'a "b" \\c'],
  [`a'b'"c"d`, 'abcd'],
  ['"still open', 'still open'],
  ["'still open", 'still open'],
  ['at the end\\', 'at the end\\'],
])('%s means %j [S5c-37]', (typed, meant) => {
  expect(unquoted(typed)).toBe(meant)
})
