/** The line for a lock: who holds it, who is next. */
import type { Lock } from '../../../domain/lock.ts'
import type { LineHead, LockLine, Waiter } from '../../../domain/lock-line.ts'
import { waitersName } from '../names.ts'
import { noneLapsed, type PlanScope, type Query } from '../plan.ts'
import { decodeAll, decodeFirst, type Hold, now, ofInstances, Parameters, query } from '../rows.ts'
import { tables, youngerWriter, youngerWriters } from '../tables.ts'
import type { Loaders } from './loader.ts'

/**
 * The floor, the highest ticket, how many waiters are alive and how many of them are ahead of the caller. Counted only
 * as far as asked: a line may be long, and nearly every caller needs only its front.
 */
function summaryOf(scope: PlanScope, name: string, id: string | null, limit: number): Query {
  return {
    text: `with alive as materialized (
  select t.token, ${youngerWriter('t')} as younger
  from holdfast.lock_waiter t
  where t.namespace = $1 and t.name = $2 and t.expires_at >= ${now}
  order by t.token
  limit $4
), last as materialized (
  select t.token, ${youngerWriter('t')} as younger
  from holdfast.lock_waiter t
  where t.namespace = $1 and t.name = $2
  order by t.token desc
  limit 1
)
select
  (select coalesce(max(f.floor), 0) from holdfast.token_floor f where f.namespace = $1),
  coalesce((select token from last), 0),
  (select count(*) from alive),
  (select count(*) from alive where token < coalesce(
    (select o.token from holdfast.lock_waiter o where o.namespace = $1 and o.name = $2 and o.id = $3),
    9223372036854775807
  )),
  concat_ws(
    ' ',
    (select string_agg(younger, ' ') from alive),
    (select younger from last),
    (select ${youngerWriters('f')} from holdfast.token_floor f where f.namespace = $1)
  )`,
    values: [scope.namespace, name, id, limit],
    youngerAt: 4,
  }
}

function locksOf(scope: PlanScope, name: string, hold: Hold = 'wait'): Query {
  const parameters = new Parameters(scope)
  return query(scope, tables.lock, hold, `and t.name = ${parameters.add(name)}\norder by t.slot`, parameters)
}

/** Waits for them, because skipping the first would let a newcomer overtake it. */
function firstOf(scope: PlanScope, name: string, limit: number, hold: Hold = 'wait'): Query {
  const parameters = new Parameters(scope)
  const rest = `and t.name = ${parameters.add(name)} and t.expires_at >= ${now}\norder by t.token\nlimit ${parameters.add(limit)}`
  return query(scope, tables.waiter, hold, rest, parameters)
}

function ownOf(scope: PlanScope, name: string, id: string | null): Query {
  const parameters = new Parameters(scope)
  const rest = `and t.id = ${parameters.add(id)} and t.name = ${parameters.add(name)}`
  return query(scope, tables.waiter, 'wait', rest, parameters)
}

const countAhead = `select count(*)
from (
  select
  from holdfast.lock_waiter t
  where t.namespace = $1 and t.name = $2 and t.expires_at >= ${now} and t.token < (
    select o.token from holdfast.lock_waiter o where o.namespace = $1 and o.name = $2 and o.id = $3
  )
  order by t.token
  limit $4
) p`

const countWaiters = `select count(*)
from (
  select
  from holdfast.lock_waiter t
  where t.namespace = $1 and t.agent = $2 and t.expires_at >= ${now}
  limit $3
) p`

/** Whoever joins stands behind everybody else; a caller that is in line itself stands before them. */
function lineAfter(line: LockLine, joined: readonly Waiter[], limit: number): LockLine {
  const upToLimit = (count: number) => Math.min(limit, count + joined.length)
  return {
    ...line,
    last: Math.max(line.last, ...joined.map(({ token }) => token)),
    next: line.next ?? joined[0] ?? null,
    waiting: upToLimit(line.waiting),
    ahead: line.own === null ? upToLimit(line.ahead) : line.ahead,
  }
}

export const waiterLoaders = {
  lockLine: ({ name, waiter: id, limit }, scope) => ({
    names: [`lock:${name}`],
    queries: [
      locksOf(scope, name),
      summaryOf(scope, name, id, limit),
      firstOf(scope, name, 1),
      ...(id === null ? [] : [ownOf(scope, name, id)]),
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
    afterJoining: (line, joined) =>
      lineAfter(
        line,
        joined.filter((waiter) => waiter.name === name),
        limit,
      ),
  }),

  lockHead: ({ name, waiter: id, limit, maxAhead }, scope) => ({
    names: [`lock:${name}`],
    queries: [
      locksOf(scope, name),
      firstOf(scope, name, limit),
      ownOf(scope, name, id),
      { text: countAhead, values: [scope.namespace, name, id, maxAhead] },
    ],
    read: ([locks, first, own, ahead]): LineHead => ({
      locks: decodeAll<Lock>(tables.lock, locks),
      first: decodeAll<Waiter>(tables.waiter, first),
      own: decodeFirst<Waiter>(tables.waiter, own),
      ahead: Number(ahead?.[0]?.[0]),
    }),
  }),

  /** Read without holding anything: a waiter that is renewed once too often lapses a moment later. */
  lockHeads: ({ names }, scope) => ({
    queries: names.flatMap((name) => [locksOf(scope, name, 'none'), firstOf(scope, name, 1, 'none')]),
    read: (answers) =>
      names.map((_, index) => ({
        locks: decodeAll<Lock>(tables.lock, answers[2 * index]),
        first: decodeAll<Waiter>(tables.waiter, answers[2 * index + 1]),
      })),
  }),

  /** Ordered by id, so that two commands that want the same rows lock them in the same order. */
  waitersById({ ids, waits }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(${parameters.add(ids)})\norder by t.id`
    return {
      queries: [query(scope, tables.waiter, waits ? 'wait' : 'skip', rest, parameters)],
      read: ([rows]) => decodeAll<Waiter>(tables.waiter, rows),
    }
  },

  waitersOfAgent: ({ agent, limit }, { namespace }) => ({
    names: [waitersName(agent)],
    queries: [{ text: countWaiters, values: [namespace, agent, limit] }],
    read: ([rows]) => Number(rows?.[0]?.[0]),
    afterJoining: (count, joined) =>
      Math.min(limit, count + joined.filter((waiter) => waiter.agent === agent).length),
  }),

  lapsedWaiters({ limit }, scope) {
    if (scope.isDoubtful) return noneLapsed
    const parameters = new Parameters(scope)
    const rest = `and t.expires_at < ${now}\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.waiter, 'skip', rest, parameters)],
      searched: ['waiter'],
      read: ([rows]) => decodeAll<Waiter>(tables.waiter, rows),
    }
  },

  waitersOfInstances({ limit, waits, ...whose }, scope) {
    const parameters = new Parameters(scope)
    const rest = `${ofInstances(whose, parameters)}\norder by t.id\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.waiter, waits ? 'wait' : 'skip', rest, parameters)],
      searched: ['waiter'],
      read: ([rows]) => decodeAll<Waiter>(tables.waiter, rows),
    }
  },
} satisfies Partial<Loaders>
