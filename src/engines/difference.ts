/** What events record about a change to a row, as JSON text. No event records renewal times. */
import { renewalFields } from '../domain/event.ts'
import type { Kind } from './row-code.ts'
import { jsonText, type Schema } from './schema.ts'

/** The new values of the fields at these indexes, which are the ones that differ. */
export function differenceJson(table: Schema, indexes: readonly number[], after: object): string {
  let json = ''
  for (const index of indexes) {
    const field = table.fields[index] as string
    if (renewalFields.has(field)) continue
    const kind = table.kinds[index] as Kind
    json += jsonField(json, field, kind, plain(kind, (after as Record<string, unknown>)[field]))
  }
  return `{${json}}`
}

/** The fields that are set in a new row. */
export function newRowJson(table: Schema, row: object): string {
  return table.code().eventJson(row, asJson)
}

const asJson = { integer: String, text: quoted, json: jsonText } as const

/** One field, to follow the ones before it. Integers and JSON are written as they are. */
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

/** Names, ids and states need no escaping, and testing for that is cheaper than calling JSON.stringify for each. */
function quoted(text: string): string {
  return isPlain.test(text) ? `"${text}"` : JSON.stringify(text)
}
