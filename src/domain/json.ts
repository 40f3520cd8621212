/**
 * JSON at the edge: a value is turned into text once, and anything JSON cannot represent is refused with its path.
 * `JSON.stringify` would silently turn a Map into `{}` and NaN into null and drop functions, and later readers could
 * not tell.
 */
import { messageOf } from './failure.ts'

/** Any JSON value. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

/** Deeper than anyone needs, and well within what every engine can read. */
export const maxDepth = 200
/** The largest payload, document, result or set of facts. */
export const maxPayloadBytes = 256 * 1024

export type JsonPath = readonly (string | number)[]

/** Why a value cannot be represented as JSON, and where in it. */
export class JsonFault extends Error {
  readonly path: JsonPath
  readonly next: string
  readonly facts: Readonly<Record<string, unknown>>

  constructor(path: JsonPath, message: string, next: string, facts: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.path = path
    this.next = next
    this.facts = facts
  }
}

/**
 * The JSON text of a value, at most `maxBytes` long. Throws `JsonFault`. Undefined properties are dropped, as JSON
 * does.
 */
export function jsonText(value: unknown, maxBytes: number): string {
  return fitting(
    textOfData(value, maxBytes) ?? JSON.stringify(plainOf(value, { maxBytes, maxDepth })),
    maxBytes,
  )
}

/** Most values are plain data, and checking that costs a fraction of copying them. Null for anything else. */
function textOfData(value: unknown, maxBytes: number): string | null {
  try {
    return isPlain(value, 0, { left: maxBytes }) ? JSON.stringify(value) : null
  } catch {
    // A getter or a proxy threw; the copy made instead will report where.
    return null
  }
}

/** Ignores the order of object keys. */
export function isSameJson(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true
  if (!isComposite(left) || !isComposite(right) || Array.isArray(left) !== Array.isArray(right)) return false
  const keys = Object.keys(left)
  if (keys.length !== Object.keys(right).length) return false
  return keys.every((key) => Object.hasOwn(right, key) && isSameJson(left[key], right[key]))
}

function isComposite(value: Json | undefined): value is { readonly [key: string]: Json | undefined } {
  return typeof value === 'object' && value !== null
}

interface Bounds {
  readonly maxBytes: number
  readonly maxDepth: number
}

/** The value as it would come back from its JSON text. Throws `JsonFault`. */
export function jsonCopy(value: unknown, bounds: Bounds): Json {
  const copy = plainOf(value, bounds)
  fitting(JSON.stringify(copy), bounds.maxBytes)
  return copy
}

/** The same text for equal values, whatever the order of their fields. For plain data only. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([left], [right]) => (left < right ? -1 : 1)))
  })
}

function fitting(text: string, maxBytes: number): string {
  // A UTF-16 code unit takes at most three bytes, so short texts need not be measured.
  const bytes = 3 * text.length <= maxBytes ? text.length : Buffer.byteLength(text)
  if (bytes > maxBytes)
    throw tooLarge(`has ${bytes} bytes of JSON, the limit is ${maxBytes}`, maxBytes, bytes)
  return text
}

function tooLarge(what: string, maxBytes: number, bytes?: number): JsonFault {
  const facts = bytes === undefined ? { maxBytes } : { bytes, maxBytes }
  return new JsonFault([], what, 'store the content elsewhere and give a reference to it', facts)
}

/** How many more parts may be visited. Each takes at least one byte, and shared parts can repeat without limit. */
interface Room {
  left: number
}

/** Whether it is plain data that `JSON.stringify` represents in full. False proves nothing. */
function isPlain(value: unknown, depth: number, room: Room): boolean {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || depth === maxDepth || 'toJSON' in value) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Array.prototype) {
    for (const part of value as unknown[]) {
      if (room.left-- === 0 || !isPlain(part, depth + 1, room)) return false
    }
    return true
  }
  if (prototype !== Object.prototype) return false
  for (const name in value) {
    const part = (value as Record<string, unknown>)[name]
    if (room.left-- === 0 || (part !== undefined && !isPlain(part, depth + 1, room))) return false
  }
  return true
}

/** Copies a value into plain data, calling each `toJSON` and each getter once. */
function plainOf(value: unknown, { maxBytes, maxDepth }: Bounds): Json {
  const room: Room = { left: maxBytes }
  const path: (string | number)[] = []
  const above: object[] = []
  try {
    const copy = copyOf(value, '')
    if (copy === undefined) throw unfit('undefined')
    return copy
  } catch (error) {
    if (error instanceof JsonFault) throw error
    throw new JsonFault([...path], `cannot be read: ${messageOf(error)}`, plainNext)
  }

  function copyOf(given: unknown, name: string | number): Json | undefined {
    if (room.left-- === 0) throw tooLarge(`has more than ${maxBytes} bytes of JSON`, maxBytes)
    const part = asJsonHasIt(given, name)
    switch (typeof part) {
      case 'string':
      case 'boolean':
      case 'undefined':
        return part
      case 'number':
        if (Number.isFinite(part)) return part
        throw unfit(String(part))
      case 'object':
        return part === null ? null : copyOfObject(part)
      default:
        throw unfit(`a ${typeof part}`)
    }
  }

  function asJsonHasIt(part: unknown, name: string | number): unknown {
    if (typeof part !== 'object' || part === null) return part
    if (part instanceof Date && Number.isNaN(part.getTime())) throw unfit('an invalid date')
    const { toJSON } = part as { toJSON?: unknown }
    return typeof toJSON === 'function' ? toJSON.call(part, String(name)) : part
  }

  function copyOfObject(part: object): Json {
    if (above.includes(part)) throw unfit('part of itself')
    if (above.length === maxDepth) {
      const what = `is nested more than ${maxDepth} levels deep`
      throw new JsonFault([], what, 'make it flatter, or give it as text', { maxDepth })
    }
    above.push(part)
    const copy = Array.isArray(part) ? copyOfArray(part) : copyOfFields(part)
    above.pop()
    return copy
  }

  function copyOfArray(parts: readonly unknown[]): Json {
    return Array.from(parts, (part, index) => {
      path.push(index)
      const copy = copyOf(part, index)
      // JSON would put null there, which is a different value.
      if (copy === undefined) throw unfit('undefined')
      path.pop()
      return copy
    })
  }

  function copyOfFields(part: object): Json {
    const names = Object.keys(part)
    if (unreadable.test(tagOf(part)) || (names.length === 0 && !isPlainObject(part)))
      throw unfit(`of the class ${kindOf(part)}`)
    const copy: Record<string, Json> = {}
    for (const name of names) {
      path.push(name)
      const field = copyOf((part as Record<string, unknown>)[name], name)
      // A plain assignment to __proto__ would set the prototype.
      if (field !== undefined)
        Object.defineProperty(copy, name, {
          value: field,
          enumerable: true,
          configurable: true,
          writable: true,
        })
      path.pop()
    }
    return copy
  }

  function unfit(what: string): JsonFault {
    return new JsonFault([...path], `is ${what}, which JSON cannot carry`, plainNext)
  }
}

const plainNext = 'give plain objects, arrays, strings, finite numbers, booleans and null'

/** Their content is not in fields: JSON would keep none of it, or numbers as names. */
const unreadable =
  /^(?:Map|Set|Error|RegExp|Promise|(?:Shared)?ArrayBuffer|DataView|.*Array|Number|String|Boolean)$/

const maxKindLength = 60

/** The type as the language sees it; a program's own class may have any name. */
function tagOf(part: object): string {
  return Object.prototype.toString.call(part).slice('[object '.length, -1)
}

function kindOf(part: object): string {
  const tag = tagOf(part)
  if (tag !== 'Object') return tag
  const name: unknown = Object(part.constructor).name
  return typeof name === 'string' ? name.slice(0, maxKindLength) : tag
}

function isPlainObject(part: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(part)
  // Plain in this realm or another one: it has no prototype, or one that has no prototype itself.
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
