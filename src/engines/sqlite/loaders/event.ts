/** Events, what retention keeps of removed ones, and the token floor. */
import type { Horizon } from '../../../domain/horizon.ts'
import type { Checkpoint, EventFilter, ImageRow } from '../../../port/event.ts'
import { event, eventColumns } from '../../event-row.ts'
import { walkedEvents } from '../../event-walk.ts'
import { select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Events of other namespaces may lie in between; a sample is not worth a long search. */
const selectSample = `select at
from (select namespace, at from event where seq >= ? order by seq limit 1000)
where namespace = ?
limit 1`

function halvings(distance: number): number[] {
  return distance < 1 ? [] : [distance, ...halvings(Math.floor(distance / 2))]
}

/** The index that has the events in order: all of them, or those of one thing. */
function indexFor(of: EventFilter['of']): [index: string, condition: string, values: readonly string[]] {
  return of === null
    ? ['event_namespace', '', []]
    : ['event_subject', 'and subject = ? and id = ?', [of.subject, of.id]]
}

function wantedBy({ subject, kinds, queue }: Omit<EventFilter, 'of'>) {
  const conditions = [
    ...(subject === null ? [] : ['subject = ?']),
    ...(kinds === null ? [] : ['kind in (select value from json_each(?))']),
    ...(queue === null ? [] : ["(queue = ? or (subject = 'queue' and id = ?))"]),
  ]
  const values = [
    ...(subject === null ? [] : [subject]),
    ...(kinds === null ? [] : [JSON.stringify(kinds)]),
    ...(queue === null ? [] : [queue, queue]),
  ]
  return { condition: conditions.join(' and ') || 'true', values }
}

export const eventLoaders = {
  events(source, { since, limit, of, newest, before }) {
    const [index, condition, thing] = indexFor(of)
    const sql = `select ${eventColumns.join(', ')}
from event indexed by ${index}
where namespace = ? ${condition} and seq > ? and seq < ?
order by seq ${newest ? 'desc' : 'asc'}
limit ${limit}`
    const rows = source.connection
      .all(sql, source.namespace, ...thing, BigInt(since), BigInt(before ?? Number.MAX_SAFE_INTEGER))
      .map(event)
    return newest ? rows.reverse() : rows
  },

  eventsAbout(source, { of, subject, kinds, queue, since, before, newest, limit, window }) {
    const order = newest ? 'desc' : 'asc'
    const [index, condition, thing] = indexFor(of)
    const looked = `from event indexed by ${index}
where namespace = ? ${condition} and seq > ? and seq < ?
order by seq ${order}
limit ${window}`
    const range = [source.namespace, ...thing, BigInt(since), BigInt(before ?? Number.MAX_SAFE_INTEGER)]
    const wanted = wantedBy({ subject, kinds, queue })
    const events = source.connection
      .all(
        `select ${eventColumns.join(', ')}
from (select ${eventColumns.join(', ')} ${looked})
where ${wanted.condition}
order by seq ${order}
limit ${limit}`,
        ...range,
        ...wanted.values,
      )
      .map(event)
    const [count, last] = source.connection.get(
      `select count(*), ${newest ? 'min' : 'max'}(seq) from (select seq ${looked})`,
      ...range,
    ) as [number, number | null]
    return walkedEvents({ events, limit, isWindowFull: count === window, last, newest })
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
