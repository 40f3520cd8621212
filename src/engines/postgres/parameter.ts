/** Values as they go to the server: as text or, where there are many, in its own binary form. */

/** Text, or the bytes of a value in PostgreSQL's binary form. */
export type Parameter = string | Buffer | null

export function parameterOf(value: unknown): Parameter {
  if (value === null || value === undefined) return null
  if (Buffer.isBuffer(value)) return value
  return Array.isArray(value) ? literalOf(value) : String(value)
}

/** An array as a literal, which fits every type. */
function literalOf(values: readonly unknown[]): string {
  const elements = values.map((value) =>
    value === null || value === undefined
      ? 'NULL'
      : `"${String(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`,
  )
  return `{${elements.join(',')}}`
}

const textType = 25
const bigintType = 20
const nullLength = -1
/** Dimensions, whether there are nulls, the type, then length and lower bound of the only dimension. */
const headBytes = 20

function writeHead(array: Buffer, type: number, length: number): void {
  array.writeInt32BE(1, 0)
  array.writeInt32BE(1, 4)
  array.writeInt32BE(type, 8)
  array.writeInt32BE(length, 12)
  array.writeInt32BE(1, 16)
}

/** A parameter of type text[]. As a literal, long texts would have to be quoted here and parsed byte by byte there. */
export function texts(values: readonly (string | null)[]): Buffer {
  const lengths = values.map((value) => (value === null ? nullLength : Buffer.byteLength(value)))
  const bytes = lengths.reduce((sum, length) => sum + 4 + Math.max(0, length), headBytes)
  const array = Buffer.allocUnsafe(bytes)
  writeHead(array, textType, values.length)
  let at = headBytes
  for (let index = 0; index < values.length; index++) {
    at = array.writeInt32BE(lengths[index] as number, at)
    const value = values[index] as string | null
    if (value !== null) at += array.write(value, at)
  }
  return array
}

/** A parameter of type bigint[]. */
export function bigints(values: readonly (number | null)[]): Buffer {
  const bytes = values.reduce<number>((sum, value) => sum + (value === null ? 4 : 12), headBytes)
  const array = Buffer.allocUnsafe(bytes)
  writeHead(array, bigintType, values.length)
  let at = headBytes
  for (const value of values) {
    at = array.writeInt32BE(value === null ? nullLength : 8, at)
    if (value === null) continue
    // An invalid number would be written as another one; as text, PostgreSQL would have refused it.
    if (!Number.isSafeInteger(value)) throw new TypeError(`${value} is not a whole number`)
    // In two halves: converting a number to a BigInt is slower than writing it.
    at = array.writeInt32BE(Math.floor(value / 2 ** 32), at)
    at = array.writeUInt32BE(value >>> 0, at)
  }
  return array
}
