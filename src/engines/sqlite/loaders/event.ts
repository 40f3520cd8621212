/** Events, what retention keeps of removed ones, and the token floor. */
import type { Horizon } from '../../../domain/horizon.ts'
import type { Checkpoint, ImageRow } from '../../../port/event.ts'
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

export const eventLoaders = {
  events(source, { since, limit, of, newest, before }) {
    const [index, condition] =
      of === null ? ['event_namespace', ''] : ['event_subject', 'and subject = ? and id = ?']
    const sql = `select ${eventColumns.join(', ')}
from event indexed by ${index}
where namespace = ? ${condition} and seq > ? and seq < ?
order by seq ${newest ? 'desc' : 'asc'}
limit ${limit}`
    const thing = of === null ? [] : [of.subject, of.id]
    const rows = source.connection
      .all(sql, source.namespace, ...thing, BigInt(since), BigInt(before ?? Number.MAX_SAFE_INTEGER))
      .map(event)
    return newest ? rows.reverse() : rows
  },

  eventsAbout(source, { subject, since, before, newest, limit, window }) {
    const order = newest ? 'desc' : 'asc'
    const looked = `from event indexed by event_namespace
where namespace = ? and seq > ? and seq < ?
order by seq ${order}
limit ${window}`
    const range = [source.namespace, BigInt(since), BigInt(before ?? Number.MAX_SAFE_INTEGER)]
    const events = source.connection
      .all(
        `select ${eventColumns.join(', ')}
from (select ${eventColumns.join(', ')} ${looked})
where subject = ?
order by seq ${order}
limit ${limit}`,
        ...range,
        subject,
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
