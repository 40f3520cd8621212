/** Text that can be stored and read again as it was: without NUL, which PostgreSQL cannot store, and whole characters. */

const unfit = /[\0\p{Surrogate}]/u
const everyUnfit = /[\0\p{Surrogate}]/gu

export function isText(text: string): boolean {
  return !unfit.test(text)
}

/** What a program says, made fit: cut where it is too long, and marked where a character could not be kept. */
export function fitText(text: string, lengthMax: number): string {
  return text.slice(0, lengthMax).replace(everyUnfit, '\ufffd')
}

/** The beginning of a text that is too long, with a mark where it ends: between two characters as people see them. */
export function cutText(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text
  const characters = new Intl.Segmenter('en', { granularity: 'grapheme' })
  // Only as far as is needed to see where the character at the end begins.
  const beginning = characters.segment(text.slice(0, lengthMax))
  return `${text.slice(0, beginning.containing(lengthMax - 1)?.index)}…`
}

/**
 * Terminal control characters in stored text would let one agent draw on another's screen. Those that turn the
 * direction of writing let it show other words than there are, and the separators begin a new line on some screens.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, '\u00b7')
}

/** The same for text of several lines, such as a stack. */
export function printableLines(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** Anything at all in a message: text in quotes and cut, anything else by what it is. Never throws. */
export function shown(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > shownMax ? `${value.slice(0, shownMax)}…` : value)
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

const shownMax = 60

/** Null for bytes that are no UTF-8: each that cannot be read would silently become another letter. */
export function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
