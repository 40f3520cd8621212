/** Text that can be stored. */
import { expect, test } from 'vitest'
import {
  cutText,
  decodeText,
  fitText,
  isText,
  jsonLine,
  jsonLines,
  printable,
  printableLines,
  shown,
} from '../../src/domain/text.ts'
import { dangersIn, friendlyTexts, hostileTexts } from '../support/hostile-text.ts'

test.each(['', 'plain', 'two\nlines', 'party 🎉', '\u202Egpj'])('%j can be stored', (text) => {
  expect(isText(text)).toBe(true)
  expect(fitText(text, 100)).toBe(text)
})

test.each([
  ['a\0b', 'a\ufffdb'],
  ['half \ud83c', 'half \ufffd'],
  ['\udf89 half', '\ufffd half'],
])('%j cannot, and is made valid', (text, fit) => {
  expect(isText(text)).toBe(false)
  expect(fitText(text, 100)).toBe(fit)
})

test('a text cut in the middle of a character is made valid', () => {
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

test('bytes are decoded exactly, or not at all', () => {
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

test.each(Object.entries(hostileTexts))('what %s is shown as what it is [S5d-11]', (_, text) => {
  const shownText = printable(text)
  const lines = printableLines(text)

  expect(dangersIn(shownText)).toEqual([])
  expect(shownText).not.toMatch(/[\n\t]/)
  // What is shown twice, by an error and by whoever prints it, is shown the same.
  expect(printable(shownText)).toBe(shownText)
  expect(dangersIn(lines.replaceAll('\n', ' '))).toEqual([])
  expect(dangersIn(jsonLine({ text, [text]: 1 }))).toEqual([])
  expect(JSON.parse(jsonLine({ text }))).toEqual({ text })
  expect(JSON.parse(jsonLines({ text }))).toEqual({ text })
  expect(dangersIn(shown(text))).toEqual([])
})

test('there are at least sixty of them', () => {
  expect(Object.keys(hostileTexts).length).toBeGreaterThanOrEqual(60)
})

test.each(friendlyTexts)('%s is shown as it is [S5d-11]', (text) => {
  expect(printable(text)).toBe(text)
})

test.each([
  ['a\u202eb', 'a\\u202eb'],
  ['a\u001b[2J\u009b', 'a\\u001b[2J\\u009b'],
  ['one\ntwo\r\n\tthree', 'one\\ntwo\\r\\n\\tthree'],
  ['\u{e0041}', '\\u{e0041}'],
  ['half \ud83c', 'half \\ud83c'],
  ['😀\u200dx', '😀\\u200dx'],
])('%j is written %s', (text, written) => {
  expect(printable(text)).toBe(written)
})

test('several lines stay lines, with their tabs [S5-4]', () => {
  expect(printableLines('a\u001bb\n\tc\r')).toBe('a\\u001bb\n\tc\\r')
})

test('marks that pile up on one letter are shown up to eight', () => {
  expect(printable(`a${'\u0301'.repeat(10)}`)).toBe(`a${'\u0301'.repeat(8)}\\u0301\\u0301`)
})

test('JSON escapes each half of a character beyond 16 bits', () => {
  expect(jsonLine('\u{e0041}\u007f👩\u200d🚀')).toBe(String.raw`"\udb40\udc41\u007f👩\u200d🚀"`)
  expect(jsonLines(['\u202e'])).toBe(`[\n  "${String.raw`\u202e`}"\n]`)
})

test('a long hostile text is escaped in linear time', () => {
  const text = `${'\u200d\u0300😀\ufe0f'.repeat(100_000)}`

  const before = process.cpuUsage()
  printable(text)

  expect(process.cpuUsage(before).user / 1000).toBeLessThan(2_000)
})
