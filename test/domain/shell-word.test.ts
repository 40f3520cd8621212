/** Words as they are typed at a shell. */
import { expect, test } from 'vitest'
import { quotedWord, unquoted } from '../../src/domain/shell-word.ts'

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

test.each([
  ['plain-1.2/x:y@z+a=b,c#d~', 'plain-1.2/x:y@z+a=b,c#d~'],
  ['', "''"],
  ['two words', "'two words'"],
  ['deploy$(touch pwned)', "'deploy$(touch pwned)'"],
  ["it's", `'it'\\''s'`],
  ['~root', "'~root'"],
  ['#comment', "'#comment'"],
  ['=ls', "'=ls'"],
])('%j is typed as %s [S5d-11]', (text, typed) => {
  expect(quotedWord(text)).toBe(typed)
  expect(unquoted(typed)).toBe(text)
})
