/** Events, what retention left of removed ones, and the token floor. */
import type { Horizon } from '../../../domain/horizon.ts'
import type { Checkpoint, EventFilter, ImageRow } from '../../../port/event.ts'
import { event, eventColumns } from '../../event-row.ts'
import { walkedEvents } from '../../event-walk.ts'
import { decodeAll, decodeFirst, locking, Parameters, query } from '../rows.ts'
import { columnsOf, tables, youngerAt, youngerWriters } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** All transactions below this have ended, so nothing more can be numbered there. */
const horizon =
  '((select pg_snapshot_xmin(pg_current_snapshot())::text::bigint) + (select holdfast.event_base())) * 8192'
/** Committed, but behind a transaction that is still open. */
const isHeldBack = `select exists (select 1 from holdfast.event t where t.namespace = $1 and t.seq >= ${horizon})`

/** Numbers are far apart where other transactions lie in between; 48 halvings reach across them. */
const selectSamples = `select sample.at
from (select max(seq) as seq from holdfast.event where namespace = $1) newest
cross join generate_series(0, 48) as halvings
cross join lateral (
  select t.at
  from holdfast.event t
  where t.namespace = $1 and t.seq >= $2::bigint + ((newest.seq - $2::bigint) >> halvings)
  order by t.seq
  limit 1
) sample`

/** When the last events are asked for, one that is held back would be the last. */
function endsFeed(newest: boolean, before: number | null | undefined): boolean {
  return newest && (before ?? null) === null
}

function wantedBy({ subject, kinds, queue }: Omit<EventFilter, 'of'>, parameters: Parameters): string {
  const conditions = ['true']
  if (subject !== null) conditions.push(`t.subject = ${parameters.add(subject)}`)
  if (kinds !== null) conditions.push(`t.kind = any(${parameters.add(kinds)})`)
  if (queue !== null) {
    const name = parameters.add(queue)
    conditions.push(`(t.queue = ${name} or (t.subject = 'queue' and t.id = ${name}))`)
  }
  return conditions.join(' and ')
}

export const eventLoaders = {
  events({ since, limit, of, newest, before }, scope) {
    const parameters = new Parameters(scope)
    const conditions = ['t.namespace = $1', `t.seq > ${parameters.add(since)}`]
    if (of !== null)
      conditions.push(`t.subject = ${parameters.add(of.subject)} and t.id = ${parameters.add(of.id)}`)
    if (before !== undefined) conditions.push(`t.seq < ${parameters.add(before)}`)
    // Changes to one thing come one after the other; changes to several may still commit in between.
    const isFeed = of === null
    const isEnd = endsFeed(newest, before)
    if (isFeed) conditions.push(`t.seq < ${horizon}`)
    const text = `select ${eventColumns.map((name) => `t.${name}`).join(', ')}
from holdfast.event t
where ${conditions.join(' and ')}
order by t.seq ${newest ? 'desc' : 'asc'}
limit ${parameters.add(limit)}`
    return {
      queries: [
        { text, values: parameters.values },
        ...(isFeed ? [{ text: isHeldBack, values: [scope.namespace] }] : []),
      ],
      isPartial: ([rows = [], heldBack]) => (rows.length < limit || isEnd) && heldBack?.[0]?.[0] === true,
      read([rows]) {
        const events = (rows ?? []).map(event)
        return newest ? events.reverse() : events
      },
    }
  },

  eventsAbout({ of, subject, kinds, queue, since, before, newest, limit, window }, scope) {
    const parameters = new Parameters(scope)
    // As above: only a reader of several things may go no further than where all transactions have ended.
    const part =
      of === null
        ? `and t.seq < ${horizon}`
        : `and t.subject = ${parameters.add(of.subject)} and t.id = ${parameters.add(of.id)}`
    const columns = eventColumns.map((name) => `t.${name}`).join(', ')
    const order = newest ? 'desc' : 'asc'
    const looked = `from holdfast.event t
where t.namespace = $1 ${part} and t.seq > ${parameters.add(since)} and t.seq < ${parameters.add(before ?? Number.MAX_SAFE_INTEGER)}
order by t.seq ${order}
limit ${parameters.add(window)}`
    const counted = {
      text: `select count(*), ${newest ? 'min' : 'max'}(w.seq) from (select t.seq ${looked}) w`,
      values: [...parameters.values],
    }
    const text = `select ${columns}
from (select ${columns} ${looked}) t
where ${wantedBy({ subject, kinds, queue }, parameters)}
order by t.seq ${order}
limit ${parameters.add(limit)}`
    return {
      queries: [
        { text, values: parameters.values },
        counted,
        ...(of === null ? [{ text: isHeldBack, values: [scope.namespace] }] : []),
      ],
      isPartial: ([rows = [], looks, heldBack]) =>
        ((rows.length < limit && Number(looks?.[0]?.[0]) < window) || endsFeed(newest, before)) &&
        heldBack?.[0]?.[0] === true,
      read([rows = [], looks]) {
        const [count, last] = (looks?.[0] ?? [0, null]) as [number, number | null]
        const isWindowFull = Number(count) === window
        return walkedEvents({ events: rows.map(event), limit, isWindowFull, last, newest })
      },
    }
  },

  eventSamples: ({ after }, scope) => ({
    queries: [{ text: selectSamples, values: [scope.namespace, after] }],
    read: ([rows]) => (rows ?? []).map(([at]) => ({ at: Number(at) })),
  }),

  checkpoint: (_, scope) => ({
    names: ['checkpoint'],
    queries: [query(scope, tables.checkpoint, 'wait', "and t.name = 'events'")],
    read: ([rows]) => decodeFirst<Checkpoint>(tables.checkpoint, rows),
  }),

  horizons: (_, scope) => ({
    names: ['horizon'],
    queries: [query(scope, tables.horizon, 'wait', 'order by t.wait_ms')],
    read: ([rows]) => decodeAll<Horizon>(tables.horizon, rows),
  }),

  images({ keys }, scope) {
    const parameters = new Parameters(scope)
    const subjects = parameters.add(keys.map(({ subject }) => subject))
    const ids = parameters.add(keys.map(({ id }) => id))
    const text = `select ${columnsOf(tables.image)}
from unnest(${subjects}::text[], ${ids}::text[]) as wanted (subject, id)
join holdfast.image t on t.namespace = $1 and t.subject = wanted.subject and t.id = wanted.id
order by t.subject, t.id`
    return {
      // They change only with the checkpoint.
      names: ['checkpoint'],
      queries: [
        locking({ text, values: parameters.values, youngerAt: youngerAt(tables.image) }, scope, 'wait'),
      ],
      read: ([rows]) => decodeAll<ImageRow>(tables.image, rows),
    }
  },

  imagePage({ after, limit }, scope) {
    const parameters = new Parameters(scope)
    const from = `(${parameters.add(after?.subject ?? '')}, ${parameters.add(after?.id ?? '')})`
    const rest = `and (t.subject, t.id) > ${from}\norder by t.subject, t.id\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.image, 'none', rest, parameters)],
      searched: ['image'],
      read: ([rows]) => decodeAll<ImageRow>(tables.image, rows),
    }
  },

  tokenFloor: (_, scope) => ({
    queries: [
      {
        text: `select coalesce(max(t.floor), 0), ${youngerWriters('t')}\nfrom holdfast.token_floor t\nwhere t.namespace = $1`,
        values: [scope.namespace],
        youngerAt: 1,
      },
    ],
    read: ([rows]) => Number(rows?.[0]?.[0] ?? 0),
  }),
} satisfies Partial<Loaders>
