/** Text that can be stored. */
import { expect, test } from 'vitest'
import {
  cutText,
  decodeText,
  fitText,
  isText,
  printable,
  printableLines,
  shown,
} from '../../src/domain/text.ts'

test.each(['', 'plain', 'two\nlines', 'party 🎉', '\u202Egpj'])('%j can be stored', (text) => {
  expect(isText(text)).toBe(true)
  expect(fitText(text, 100)).toBe(text)
})

test.each([
  ['a\0b', 'a\ufffdb'],
  ['half \ud83c', 'half \ufffd'],
  ['\udf89 half', '\ufffd half'],
])('%j cannot, and is made fit', (text, fit) => {
  expect(isText(text)).toBe(false)
  expect(fitText(text, 100)).toBe(fit)
})

test('what is cut in the middle of a character is made fit', () => {
  expect(fitText('ab🎉', 3)).toBe('ab\ufffd')
})

test.each([
  ['as long as it may be', 'abcde', 'abcde'],
  ['too long', 'abcdef', 'abcd…'],
  ['with a character of two halves at the end', 'abcd🎉ef', 'abcd…'],
  ['with a character of two halves across the end', 'abc🎉ef', 'abc…'],
  ['with a family across the end', 'ab👩‍👩‍👧 and more', 'ab…'],
  ['with an accent of its own across the end', 'abcde\u0301f', 'abcd…'],
])('a text %s is cut between two characters [S5c-32]', (_, text, cut) => {
  expect(cutText(text, 5)).toBe(cut)
})

test('bytes are read as they are, or not at all', () => {
  expect(decodeText(new TextEncoder().encode('\ufeffgrün 🦊'))).toBe('\ufeffgrün 🦊')
  expect(decodeText(Uint8Array.of(0x67, 0x72, 0xfc, 0x6e))).toBeNull()
})

test.each([
  ['plain', '"plain"'],
  ['x'.repeat(100), `"${'x'.repeat(60)}…"`],
  [[1], 'a list'],
  [Object.create(null), 'an object'],
  [null, 'null'],
  [() => 1, 'a function'],
  [Symbol('s'), 'Symbol(s)'],
  [5n, '5'],
  [undefined, 'undefined'],
])('anything at all can be shown in a message [S5-35]', (value, words) => {
  expect(shown(value)).toBe(words)
})

test.each(['\u001b', '\u009b', '\u007f', '\u202e', '\u2066', '\u200f', '\u061c', '\u2028', '\u2029'])(
  '%j neither draws nor turns what is shown after it [S5-4]',
  (character) => {
    expect(printable(`a${character}b`)).toBe('a\u00b7b')
    expect(printableLines(`a${character}b\n\tc\r`)).toBe('a\u00b7b\n\tc\u00b7')
  },
)

test('letters of every script and joined pictures are shown as they are', () => {
  expect(printable('grün שלום 👩‍🚀')).toBe('grün שלום 👩‍🚀')
})
