/** Events as the rules see them, read from a row of their table. */
import type { StoredEvent } from '../domain/event.ts'
import type { Kind } from './row-code.ts'

/** The columns of the table of events, which are also the fields of an event. */
export const eventKindOf = {
  seq: 'integer',
  at: 'integer',
  kind: 'text',
  subject: 'text',
  id: 'text',
  queue: 'text',
  version: 'integer',
  agent: 'text',
  token: 'integer',
  change: 'json',
  detail: 'json',
} as const satisfies Record<keyof StoredEvent, Kind>

export const eventColumns = Object.keys(eventKindOf)

export function event(row: readonly unknown[]): StoredEvent {
  const fields = Object.fromEntries(eventColumns.map((name, index) => [name, row[index]]))
  return { ...fields, change: parse(fields.change), detail: parse(fields.detail) } as StoredEvent
}

function parse(text: unknown): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null
}
