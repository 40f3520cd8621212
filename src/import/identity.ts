/** Ids of imported things, derived from what they are, so that the same thing gets the same id in every import. */
import { createHash } from 'node:crypto'

/** The UUID namespace of this package's imports. Any number would do, but it must never change. */
const space = Buffer.from('5b2d6c1e8f4a5d7c9a3e17b0c4f26d81', 'hex')

/** The UUID (version 5) of a name. */
export function idFor(...names: readonly (string | number)[]): string {
  const hash = createHash('sha1').update(space).update(JSON.stringify(names)).digest()
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x50, 6)
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8)
  return hash.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
