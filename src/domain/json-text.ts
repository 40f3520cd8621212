/**
 * Reading JSON that someone typed or another program wrote. A number with more digits than a JavaScript number can hold
 * would silently change: `12345678901234567890` would become `12345678901234567000`. Such a number is refused with its
 * path.
 */
import { type Json, JsonFault, type JsonPath } from './json.ts'

/** Throws `SyntaxError` if it is not JSON, and `JsonFault` if a number would change. */
export function parseJsonText(text: string): Json {
  const value = JSON.parse(text) as Json
  // Up to 15 digits always survive; an exponent may exceed every number.
  if (/[\d.]{16}|\d[eE]/.test(text)) assertNumbersHold(text)
  return value
}

/** The fields of an object that was written as JSON; none if the text is anything else. */
export function fieldsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

/** How deeply lists and objects are nested, judged from the text, which need not be valid JSON. */
export function depthOfJson(text: string): number {
  let depth = 0
  let deepest = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quoteCode) index = endOfWord(text, index)
    else if (code === openList || code === openObject) {
      depth += 1
      deepest = Math.max(deepest, depth)
    } else if (code === closeList || code === closeObject) depth -= 1
  }
  return deepest
}

const [quoteCode, openList, closeList, openObject, closeObject] = [0x22, 0x5b, 0x5d, 0x7b, 0x7d]

const numberHere = /-?\d[\d.eE+-]*/y

/** The text must be valid JSON. */
function assertNumbersHold(text: string): void {
  /** For each enclosing object or list: the name or index of its next element. */
  const path: (string | number)[] = []
  let word = ''
  for (let index = 0; index < text.length; index++) {
    const character = text.charAt(index)
    if (character === '{') path.push('')
    else if (character === '[') path.push(0)
    else if (character === '}' || character === ']') path.pop()
    else if (character === ':') path[path.length - 1] = JSON.parse(word) as string
    else if (character === ',') path[path.length - 1] = nextKey(path.at(-1))
    else if (character === '"') {
      const end = endOfWord(text, index)
      word = text.slice(index, end + 1)
      index = end
    } else if (/[-\d]/.test(character)) {
      numberHere.lastIndex = index
      const [token] = numberHere.exec(text) as unknown as [string]
      if (!holds(token)) throw lossy(path, token)
      index += token.length - 1
    }
  }
}

/** Index of the closing quote for the one that opens here. */
function endOfWord(text: string, start: number): number {
  let index = start + 1
  while (index < text.length && text.charAt(index) !== '"') index += text.charAt(index) === '\\' ? 2 : 1
  return index
}

function nextKey(key: string | number | undefined): string | number {
  return typeof key === 'number' ? key + 1 : ''
}

/** Whether the parsed number has the same digits and magnitude as the text. */
function holds(token: string): boolean {
  if (token.length > maxTokenLength) return false
  const written = digitsOf(token)
  const value = Number(token)
  if (!Number.isFinite(value)) return false
  if (written.digits === '') return true
  if (value === 0) return false
  const digitCount = written.digits.length
  // Its shortest form, or its exact digits: programs print either.
  const ways = digitCount > maxDigits ? [String(value)] : [String(value), value.toPrecision(digitCount)]
  return ways.some((way) => {
    const { digits, exponent } = digitsOf(way)
    return digits === written.digits && exponent === written.exponent
  })
}

/** Long enough for all digits of the smallest number. */
const maxTokenLength = 1100
/** The most that `toPrecision` accepts. */
const maxDigits = 100

/** A number as digits without leading or trailing zeros, times a power of ten. The sign is ignored. */
function digitsOf(token: string): { digits: string; exponent: number } {
  const [mantissa = '', power = '0'] = token.replace(/^-/, '').toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const all = `${whole}${fraction}`.replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  return { digits, exponent: Number(power) - fraction.length + all.length - digits.length }
}

function lossy(path: JsonPath, token: string): JsonFault {
  const shown = token.length > 40 ? `${token.slice(0, 40)}…` : token
  return new JsonFault(
    [...path],
    `${shown} would become ${String(Number(token))}: numbers keep only about 15 digits`,
    'give it as text, in quotes',
  )
}
