/**
 * Reading JSON that somebody typed or another program wrote. A number with more digits than a JavaScript number holds
 * would come out as another one: `12345678901234567890` as `12345678901234567000`. It is refused with its path.
 */
import type { Json } from './item.ts'
import { JsonFault, type JsonPath } from './json.ts'

/** Throws `SyntaxError` where it is no JSON, and `JsonFault` where a number cannot be kept. */
export function parseJsonText(text: string): Json {
  const value = JSON.parse(text) as Json
  // Up to 15 digits always come back as they were; an exponent may be beyond every number.
  if (/[\d.]{16}|\d[eE]/.test(text)) assertNumbersHold(text)
  return value
}

/** How deep lists and objects stand in one another, read off the text; it need not be JSON. */
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

/** The text is known to be JSON. */
function assertNumbersHold(text: string): void {
  /** For each object or list around the token: the name or place of what comes next in it. */
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

/** Where the quotes close that open here. */
function endOfWord(text: string, start: number): number {
  let index = start + 1
  while (index < text.length && text.charAt(index) !== '"') index += text.charAt(index) === '\\' ? 2 : 1
  return index
}

function nextKey(key: string | number | undefined): string | number {
  return typeof key === 'number' ? key + 1 : ''
}

/** Whether the number has the digits that were written, in as many places as were written. */
function holds(token: string): boolean {
  if (token.length > maxTokenLength) return false
  const written = digitsOf(token)
  const value = Number(token)
  if (!Number.isFinite(value)) return false
  if (written.digits === '') return true
  if (value === 0) return false
  const digitCount = written.digits.length
  // The shortest way to write it, or its exact digits: programs print either.
  const ways = digitCount > maxDigits ? [String(value)] : [String(value), value.toPrecision(digitCount)]
  return ways.some((way) => {
    const { digits, exponent } = digitsOf(way)
    return digits === written.digits && exponent === written.exponent
  })
}

/** All the digits of the smallest number fit. */
const maxTokenLength = 1100
/** What `toPrecision` takes at most. */
const maxDigits = 100

/** A number as its digits without zeros at either end, times a power of ten; its sign does not matter. */
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
    `${shown} would become ${String(Number(token))}: a number has about 15 digits`,
    'give it as text, in quotes',
  )
}
