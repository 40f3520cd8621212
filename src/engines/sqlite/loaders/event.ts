/** Events, what retention left of removed ones, and the token floor. */
import type { StoredEvent } from '../../../domain/event.ts'
import type { Horizon } from '../../../domain/horizon.ts'
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

/** Events of other namespaces may lie between; a sample is worth no long search. */
const selectSample = `select at
from (select namespace, at from event where seq >= ? order by seq limit 1000)
where namespace = ?
limit 1`

function halvings(distance: number): number[] {
  return distance < 1 ? [] : [distance, ...halvings(Math.floor(distance / 2))]
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

  eventSamples(source, { after }) {
    const newest = Number(source.connection.get('select max(seq) from event')?.[0] ?? after)
    return halvings(newest - after).flatMap((distance) => {
      const row = source.connection.get(selectSample, BigInt(after + distance), source.namespace)
      return row ? [{ at: Number(row[0]) }] : []
    })
  },

  checkpoint(source) {
    const row = source.connection.get(
      `${select(tables.checkpoint)}\nwhere namespace = ? and name = 'events'`,
      source.namespace,
    )
    return row ? decode<Checkpoint>(tables.checkpoint, row) : null
  },

  horizons: (source) =>
    source.connection
      .all(`${select(tables.horizon)}\nwhere namespace = ?\norder by wait_ms`, source.namespace)
      .map((row) => decode<Horizon>(tables.horizon, row)),

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
