/** Events as the rules see them, read from a row of their table. */
import type { StoredEvent } from '../domain/event.ts'

export const eventColumns = [
  'seq',
  'at',
  'kind',
  'subject',
  'id',
  'queue',
  'version',
  'agent',
  'token',
  'change',
  'detail',
] as const

export function event(row: readonly unknown[]): StoredEvent {
  const fields = Object.fromEntries(eventColumns.map((name, index) => [name, row[index]]))
  return { ...fields, change: parse(fields.change), detail: parse(fields.detail) } as StoredEvent
}

function parse(text: unknown): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null
}
