/** Text that can be stored and read again as it was: without NUL, which PostgreSQL cannot store, and whole characters. */

const unfit = /[\0\p{Surrogate}]/u
const everyUnfit = /[\0\p{Surrogate}]/gu

export function isText(text: string): boolean {
  return !unfit.test(text)
}

/** What a program says, made fit: cut where it is too long, and marked where a character could not be kept. */
export function fitText(text: string, maxLength: number): string {
  return text.slice(0, maxLength).replace(everyUnfit, '\ufffd')
}

/** The beginning of a text that is too long, with a mark where it ends: between two characters as people see them. */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  const characters = new Intl.Segmenter('en', { granularity: 'grapheme' })
  // Only as far as is needed to see where the character at the end begins.
  const beginning = characters.segment(text.slice(0, maxLength))
  return `${text.slice(0, beginning.containing(maxLength - 1)?.index)}…`
}

/**
 * One line of anybody's text, fit to be drawn: what cannot be seen, or changes how the rest reads, is written as an
 * escape such as `\u202e`. That is every control character (C0, DEL, C1), line breaks, everything that turns the
 * direction of writing, invisible fillers, zero-width and tag characters, and marks piled on one letter without end.
 * Emoji, and the joiners that Arabic, Persian, the scripts of India and their relatives are written with, stay as they
 * are where they do that work, and are escaped anywhere else. Not taken back by reading it: a backslash stays one.
 */
export function printable(text: string): string {
  // Nearly everything is.
  if (/^[ -~]*$/.test(text)) return text
  return text.replace(everyUnseen, (match, kept: string | undefined) => kept ?? escaped(match))
}

/** The same for text of several lines, such as a stack. */
export function printableLines(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** JSON on one line with all of these escaped, wherever they are: to a program that parses it, it is the same. */
export function jsonLine(value: unknown): string {
  return withEscapes(JSON.stringify(value))
}

/** The same for people to read. */
export function jsonLines(value: unknown): string {
  return withEscapes(JSON.stringify(value, null, 2))
}

function withEscapes(json: string): string {
  // By halves, as JSON has it.
  return json.replace(everyUnseenInJson, (match) => match.split('').map(escaped).join(''))
}

/** Control characters, what has no picture of its own, separators of lines, and notes between lines. */
const unseen = '\\p{Cc}\\p{Cs}\\p{Bidi_Control}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\ufff9-\\ufffb'
/** Joined pictures, with their colours and shapes. */
const look = '[\\p{Emoji_Modifier}\\ufe0e\\ufe0f]?'
const emoji = `\\p{Extended_Pictographic}${look}(?:\\u200d\\p{Extended_Pictographic}${look})*`
const keycap = '[0-9#*]\\ufe0f\\u20e3'
/** England, Scotland and Wales are written in tags, which anywhere else are a way to hide a text. */
const flag =
  '\\u{1f3f4}\\u{e0067}\\u{e0062}(?:\\u{e0065}\\u{e006e}\\u{e0067}|\\u{e0073}\\u{e0063}\\u{e0074}|\\u{e0077}\\u{e006c}\\u{e0073})\\u{e007f}'
/** Scripts whose letters change their shape by a joiner. */
const joined = [
  ...['Arabic', 'Syriac', 'Nko', 'Mongolian', 'Adlam'],
  ...['Devanagari', 'Bengali', 'Gurmukhi', 'Gujarati', 'Oriya', 'Tamil', 'Telugu', 'Kannada', 'Malayalam'],
  ...['Sinhala', 'Khmer', 'Myanmar', 'Tibetan', 'Balinese', 'Javanese'],
]
  .map((script) => `\\p{Script=${script}}`)
  .join('')
/** One, behind a letter that it can act on. */
const joiner = `(?<=[${joined}])[\\u200c\\u200d](?![${unseen}])|(?<=\\p{Script=Mongolian})[\\u180b-\\u180f]`
/** No language piles up so many marks; drawn, they would reach into the lines around. */
const piled = '(?<=\\p{M}{8})\\p{M}'

const everyUnseen = new RegExp(`(${flag}|${emoji}|${keycap}|${joiner})|[${unseen}]|${piled}`, 'gu')
/** The line breaks of JSON itself stay. */
const everyUnseenInJson = new RegExp(`(?!\\n)[${unseen}]`, 'gu')

const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function escaped(character: string): string {
  const code = (character.codePointAt(0) as number).toString(16)
  return shortEscapes[character] ?? (code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`)
}

/** Anything at all in a message: text in quotes and cut, anything else by what it is. Never throws. */
export function shown(value: unknown): string {
  if (typeof value === 'string')
    return printable(JSON.stringify(value.length > maxShown ? `${value.slice(0, maxShown)}…` : value))
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : printable(String(value))
}

const maxShown = 60

/** Null for bytes that are no UTF-8: each that cannot be read would silently become another letter. */
export function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
