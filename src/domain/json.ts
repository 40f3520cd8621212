/**
 * JSON at the edge: a value becomes text once, and what JSON cannot carry is refused with its path. Stored as JSON would
 * have it, a Map is `{}`, not-a-number is null and a function is gone; who reads it later cannot tell.
 */
import { messageOf } from './failure.ts'
import type { Json } from './item.ts'

/** Deeper than anybody means, and well within what every engine can read. */
export const maxDepth = 200
/** The largest payload, document, result or set of facts. */
export const maxPayloadBytes = 256 * 1024

export type JsonPath = readonly (string | number)[]

/** Why a value is not JSON, and where in it. */
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

/** JSON text of a value within so many bytes. Throws `JsonFault`. Undefined properties are dropped, as JSON does. */
export function jsonText(value: unknown, maxBytes: number): string {
  return fitting(
    textOfData(value, maxBytes) ?? JSON.stringify(plainOf(value, { maxBytes, maxDepth })),
    maxBytes,
  )
}

/** Most values are plain data, and only looking at them costs a fraction of copying them. Null for anything else. */
function textOfData(value: unknown, maxBytes: number): string | null {
  try {
    return isPlain(value, 0, { left: maxBytes }) ? JSON.stringify(value) : null
  } catch {
    // A getter or a proxy throws; whoever copies it can say where.
    return null
  }
}

/** The order of an object's keys says nothing. */
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

/** The value as its JSON text would be read. Throws `JsonFault`. */
export function jsonCopy(value: unknown, bounds: Bounds): Json {
  const copy = plainOf(value, bounds)
  fitting(JSON.stringify(copy), bounds.maxBytes)
  return copy
}

/** One text for equal values, whatever the order of their fields. For plain data only. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).sort(([left], [right]) => (left < right ? -1 : 1)))
  })
}

function fitting(text: string, maxBytes: number): string {
  // A character has at most three bytes for each of its units, so short texts need not be measured.
  const bytes = 3 * text.length <= maxBytes ? text.length : Buffer.byteLength(text)
  if (bytes > maxBytes)
    throw tooLarge(`has ${bytes} bytes of JSON, the limit is ${maxBytes}`, maxBytes, bytes)
  return text
}

function tooLarge(what: string, maxBytes: number, bytes?: number): JsonFault {
  const facts = bytes === undefined ? { maxBytes } : { bytes, maxBytes }
  return new JsonFault([], what, 'store the content elsewhere and give a reference to it', facts)
}

/** How many more parts are looked at: each takes a byte at least, and parts that are shared can be without number. */
interface Room {
  left: number
}

/** Whether it is plain data, of which JSON's own text says everything. False proves nothing. */
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

/** A copy of plain data: each `toJSON` and each getter asked once. */
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
    if (above.length === maxDepth) throw tooDeep(maxDepth)
    above.push(part)
    const copy = Array.isArray(part) ? copyOfArray(part) : copyOfFields(part)
    above.pop()
    return copy
  }

  function copyOfArray(parts: readonly unknown[]): Json {
    return Array.from(parts, (part, index) => {
      path.push(index)
      const copy = copyOf(part, index)
      // JSON has null there, which is something else.
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
      // Assigned, __proto__ would become the prototype.
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

function tooDeep(maxDepth: number): JsonFault {
  const what = `is nested more than ${maxDepth} levels deep`
  return new JsonFault([], what, 'make it flatter, or give it as text', { maxDepth })
}

/** What they hold is in no field: JSON would keep nothing of it, or numbers as names. */
const unreadable =
  /^(?:Map|Set|Error|RegExp|Promise|(?:Shared)?ArrayBuffer|DataView|.*Array|Number|String|Boolean)$/

const maxKindLength = 60

/** What the language knows it as; a class of the program's own may have any name. */
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
  // Of this program or of another realm, where every prototype but the last has one of its own.
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
