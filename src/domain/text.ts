/** Text that can be stored and read back unchanged: no NUL, which PostgreSQL cannot store, and no broken characters. */

const unfit = /[\0\p{Surrogate}]/u
const everyUnfit = /[\0\p{Surrogate}]/gu

export function isText(text: string): boolean {
  return !unfit.test(text)
}

/** Makes a program's text storable: truncates it if it is too long and marks characters that could not be kept. */
export function fitText(text: string, maxLength: number): string {
  return text.slice(0, maxLength).replace(everyUnfit, '\ufffd')
}

/** Truncates a text that is too long, between two characters as people see them (graphemes), and marks the cut. */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  const characters = new Intl.Segmenter('en', { granularity: 'grapheme' })
  // Segments only as much as is needed to see where the last character begins.
  const beginning = characters.segment(text.slice(0, maxLength))
  return `${text.slice(0, beginning.containing(maxLength - 1)?.index)}…`
}

/**
 * Makes one line of untrusted text safe to display: anything that is invisible, or changes how the rest reads, is
 * written as an escape such as `\u202e`. That covers every control character (C0, DEL, C1), line breaks, everything
 * that changes the writing direction, invisible fillers, zero-width and tag characters, and endless marks piled on one
 * letter. Emoji, and the joiners used in Arabic, Persian, the scripts of India and their relatives, are kept where they
 * do their job and escaped anywhere else. Not reversible: a backslash stays a backslash.
 */
export function printable(text: string): string {
  // Nearly all text is printable ASCII.
  if (/^[ -~]*$/.test(text)) return text
  return text.replace(everyUnseen, (match, kept: string | undefined) => kept ?? escaped(match))
}

/** The same for multi-line text, such as a stack trace. */
export function printableLines(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** JSON on one line with all of these characters escaped everywhere. A program that parses it sees no difference. */
export function jsonLine(value: unknown): string {
  return withEscapes(JSON.stringify(value))
}

/** The same, indented for people to read. */
export function jsonLines(value: unknown): string {
  return withEscapes(JSON.stringify(value, null, 2))
}

function withEscapes(json: string): string {
  // By UTF-16 code unit, as JSON escapes work.
  return json.replace(everyUnseenInJson, (match) => match.split('').map(escaped).join(''))
}

/** Control characters, characters without a glyph, line separators and interlinear annotations. */
const unseen = '\\p{Cc}\\p{Cs}\\p{Bidi_Control}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\ufff9-\\ufffb'
/** Joined emoji, with their colours and presentation forms. */
const look = '[\\p{Emoji_Modifier}\\ufe0e\\ufe0f]?'
const emoji = `\\p{Extended_Pictographic}${look}(?:\\u200d\\p{Extended_Pictographic}${look})*`
const keycap = '[0-9#*]\\ufe0f\\u20e3'
/** The flags of England, Scotland and Wales use tag characters, which anywhere else are a way to hide text. */
const flag =
  '\\u{1f3f4}\\u{e0067}\\u{e0062}(?:\\u{e0065}\\u{e006e}\\u{e0067}|\\u{e0073}\\u{e0063}\\u{e0074}|\\u{e0077}\\u{e006c}\\u{e0073})\\u{e007f}'
/** Scripts in which a joiner changes the shape of letters. */
const joined = [
  ...['Arabic', 'Syriac', 'Nko', 'Mongolian', 'Adlam'],
  ...['Devanagari', 'Bengali', 'Gurmukhi', 'Gujarati', 'Oriya', 'Tamil', 'Telugu', 'Kannada', 'Malayalam'],
  ...['Sinhala', 'Khmer', 'Myanmar', 'Tibetan', 'Balinese', 'Javanese'],
]
  .map((script) => `\\p{Script=${script}}`)
  .join('')
/** A single joiner, after a letter it can act on. */
const joiner = `(?<=[${joined}])[\\u200c\\u200d](?![${unseen}])|(?<=\\p{Script=Mongolian})[\\u180b-\\u180f]`
/** No language piles up this many marks; drawn, they would reach into neighbouring lines. */
const piled = '(?<=\\p{M}{8})\\p{M}'

const everyUnseen = new RegExp(`(${flag}|${emoji}|${keycap}|${joiner})|[${unseen}]|${piled}`, 'gu')
/** JSON's own line breaks are kept. */
const everyUnseenInJson = new RegExp(`(?!\\n)[${unseen}]`, 'gu')

const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function escaped(character: string): string {
  const code = (character.codePointAt(0) as number).toString(16)
  return shortEscapes[character] ?? (code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`)
}

/** Describes any value in a message: strings quoted and truncated, anything else by its type. Never throws. */
export function shown(value: unknown): string {
  if (typeof value === 'string')
    return printable(JSON.stringify(value.length > maxShown ? `${value.slice(0, maxShown)}…` : value))
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : printable(String(value))
}

const maxShown = 60

/** Null for bytes that are not UTF-8: each invalid byte would silently become a different character. */
export function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
