/** What events tell of a change of a row, as JSON text; renewal times are told by no event. */
import { renewalFields } from '../domain/event.ts'
import { jsonText, type Kind, type Schema } from './schema.ts'

/** The fields that differ between two rows of a table; null when the rows are the same. */
export function differenceJson(table: Schema, before: object, after: object): string | null {
  const old = before as Record<string, unknown>
  const now = after as Record<string, unknown>
  let json = ''
  let isSame = true
  for (let index = 0; index < table.fields.length; index++) {
    const field = table.fields[index] as string
    if (old[field] === now[field]) continue
    const kind = table.kinds[index] as Kind
    const written = plain(kind, now[field])
    if (kind === 'json' && written === plain(kind, old[field])) continue
    isSame = false
    if (!renewalFields.has(field)) json += jsonField(json, field, kind, written)
  }
  return isSame ? null : `{${json}}`
}

/** A new row: the fields that are set. */
export function newRowJson(table: Schema, row: object): string {
  let json = ''
  for (let index = 0; index < table.fields.length; index++) {
    const field = table.fields[index] as string
    const kind = table.kinds[index] as Kind
    const written = plain(kind, (row as Record<string, unknown>)[field])
    if (written !== null && !renewalFields.has(field)) json += jsonField(json, field, kind, written)
  }
  return `{${json}}`
}

/** One field, after those before it. Integers and JSON are written as they are. */
export function jsonField(
  before: string,
  field: string,
  kind: Kind,
  written: string | number | bigint | null,
): string {
  const value = kind === 'text' && written !== null ? quoted(written as string) : String(written)
  return `${before === '' ? '' : ','}"${field}":${value}`
}

function plain(kind: Kind, value: unknown): string | number | null {
  if (value === null || value === undefined) return null
  return kind === 'json' ? jsonText(value) : (value as string | number)
}

const isPlain = /^[\w .:/#-]*$/

/** Names, ids and states need no escaping, and asking JSON for each costs more than looking. */
function quoted(text: string): string {
  return isPlain.test(text) ? `"${text}"` : JSON.stringify(text)
}
