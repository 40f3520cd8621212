/** The line for a lock: who holds it, who is next. */
import type { Lock } from '../../../domain/lock.ts'
import type { LockLine, Waiter } from '../../../domain/lock-line.ts'
import { placesName } from '../names.ts'
import type { Place, Query } from '../plan.ts'
import { decodeAll, decodeFirst, now, Parameters, query } from '../rows.ts'
import { tables, youngerWriters } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** The floor, the highest ticket, how many are alive and how many of them stand before the caller. */
function summaryOf(place: Place, name: string, id: string | null): Query {
  return {
    text: `select
  (select coalesce(max(f.floor), 0) from holdfast.token_floor f where f.namespace = $1),
  coalesce(max(t.token), 0),
  count(*) filter (where t.expires_at >= ${now}),
  count(*) filter (where t.expires_at >= ${now} and t.token < coalesce(
    (select o.token from holdfast.lock_waiter o where o.namespace = $1 and o.name = $2 and o.id = $3),
    9223372036854775807
  )),
  concat_ws(' ', ${youngerWriters('t')}, (select ${youngerWriters('f')} from holdfast.token_floor f where f.namespace = $1))
from holdfast.lock_waiter t
where t.namespace = $1 and t.name = $2`,
    values: [place.namespace, name, id],
    youngerAt: 4,
  }
}

function locksOf(place: Place, name: string): Query {
  const parameters = new Parameters(place)
  return query(
    place,
    tables.lock,
    'wait',
    `and t.name = ${parameters.add(name)}\norder by t.slot`,
    parameters,
  )
}

/** Waits for it: to pass over the first would let a newcomer overtake it. */
function nextOf(place: Place, name: string): Query {
  const parameters = new Parameters(place)
  const rest = `and t.name = ${parameters.add(name)} and t.expires_at >= ${now}\norder by t.token\nlimit 1`
  return query(place, tables.waiter, 'wait', rest, parameters)
}

function ownOf(place: Place, name: string, id: string | null): Query {
  const parameters = new Parameters(place)
  const rest = `and t.id = ${parameters.add(id)} and t.name = ${parameters.add(name)}`
  return query(place, tables.waiter, 'wait', rest, parameters)
}

const countPlaces = `select count(*)
from (
  select
  from holdfast.lock_waiter t
  where t.namespace = $1 and t.agent = $2 and t.expires_at >= ${now}
  limit $3
) p`

export const waiterLoaders = {
  lockLine: ({ name, waiter: id }, place) => ({
    names: [`lock:${name}`],
    queries: [
      locksOf(place, name),
      summaryOf(place, name, id),
      nextOf(place, name),
      ...(id === null ? [] : [ownOf(place, name, id)]),
    ],
    read([locks, summary, next, own]): LockLine {
      const [floor, last, waiting, ahead] = (summary?.[0] ?? []).map(Number)
      return {
        locks: decodeAll<Lock>(tables.lock, locks),
        floor: floor ?? 0,
        last: last ?? 0,
        next: decodeFirst<Waiter>(tables.waiter, next),
        own: decodeFirst<Waiter>(tables.waiter, own),
        waiting: waiting ?? 0,
        ahead: ahead ?? 0,
      }
    },
  }),

  placesOfAgent: ({ agent, limit }, { namespace }) => ({
    names: [placesName(agent)],
    queries: [{ text: countPlaces, values: [namespace, agent, limit] }],
    read: ([rows]) => Number(rows?.[0]?.[0]),
  }),

  lapsedWaiters({ limit }, place) {
    const parameters = new Parameters(place)
    const rest = `and t.expires_at < ${now}\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(place, tables.waiter, 'skip', rest, parameters)],
      searched: ['waiter'],
      read: ([rows]) => decodeAll<Waiter>(tables.waiter, rows),
    }
  },

  waitersOfInstances({ instances, limit, waits }, place) {
    const parameters = new Parameters(place)
    const rest = `and t.instance = any(${parameters.add(instances)})\norder by t.id\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(place, tables.waiter, waits ? 'wait' : 'skip', rest, parameters)],
      searched: ['waiter'],
      read: ([rows]) => decodeAll<Waiter>(tables.waiter, rows),
    }
  },
} satisfies Partial<Loaders>
