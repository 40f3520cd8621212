/** Events, what retention left of removed ones, and the token floor. */
import type { StoredEvent } from '../../../domain/event.ts'
import type { Checkpoint, ImageRow } from '../../engine.ts'
import type { Value } from '../driver.ts'
import { select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const eventColumns = [
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

function event(row: readonly unknown[]): StoredEvent {
  const fields = Object.fromEntries(eventColumns.map((name, index) => [name, row[index]]))
  return { ...fields, change: parse(fields.change), detail: parse(fields.detail) } as StoredEvent
}

function parse(text: unknown): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null
}

export const eventLoaders = {
  events(source, { since, limit, subject, id, newest, before }) {
    const conditions = ['namespace = ?', 'seq > ?']
    const values: Value[] = [source.namespace, BigInt(since)]
    if (subject !== null) {
      conditions.push('subject = ?')
      values.push(subject)
    }
    if (id !== null) {
      conditions.push('id = ?')
      values.push(id)
    }
    if (before !== undefined) {
      conditions.push('seq < ?')
      values.push(BigInt(before))
    }
    const sql = `select ${eventColumns.join(', ')}
from event
where ${conditions.join(' and ')}
order by seq ${newest ? 'desc' : 'asc'}
limit ${limit}`
    const rows = source.connection.all(sql, ...values).map(event)
    return newest ? rows.reverse() : rows
  },

  checkpoint(source) {
    const row = source.connection.get(
      `${select(tables.checkpoint)}\nwhere namespace = ? and name = 'events'`,
      source.namespace,
    )
    return row ? decode<Checkpoint>(tables.checkpoint, row) : null
  },

  images: (source, { keys }) =>
    keys.flatMap(({ subject, id }) => {
      const row = source.connection.get(
        `${select(tables.image)}\nwhere namespace = ? and subject = ? and id = ?`,
        source.namespace,
        subject,
        id,
      )
      return row ? [decode<ImageRow>(tables.image, row)] : []
    }),

  imagePage: (source, { after, limit }) =>
    source.connection
      .all(
        `${select(tables.image)}\nwhere namespace = ? and (subject, id) > (?, ?)\norder by subject, id\nlimit ${limit}`,
        source.namespace,
        after?.subject ?? '',
        after?.id ?? '',
      )
      .map((row) => decode<ImageRow>(tables.image, row)),

  tokenFloor: (source) =>
    Number(
      source.connection.get('select token_floor from namespace where name = ?', source.namespace)?.[0] ?? 0,
    ),
} satisfies Partial<Loaders>
