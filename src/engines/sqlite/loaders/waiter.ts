/** The line for a lock: who holds it, who is next. */
import type { Lock } from '../../../domain/lock.ts'
import type { LineHead, LockLine, Waiter } from '../../../domain/lock-line.ts'
import type { Value } from '../driver.ts'
import { inList, ofInstances, ofInstancesValues, packed, type Source, select, selectBy } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectWaiter = select(tables.waiter)

/**
 * The taken slots, the floor and the highest ticket. The line is nearly always empty, and then nothing else is read.
 */
const selectLine = `select case when lock.name is not null then ${packed(tables.lock)} end,
coalesce((select token_floor from namespace where name = ?1), 0),
coalesce((select max(token) from lock_waiter where namespace = ?1 and name = ?2), 0)
from (select 1)
left join lock on lock.namespace = ?1 and lock.name = ?2`

function waiters(source: Source, where: string, ...values: Value[]): Waiter[] {
  return source.connection
    .all(`${selectWaiter}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Waiter>(tables.waiter, row))
}

const selectOwn = `${selectWaiter}\nwhere namespace = ? and id = ? and name = ?`
const selectNext = `${selectBy(tables.waiter, 'lock_waiter_line')}\nwhere namespace = ? and name = ? and expires_at >= ?\norder by token\nlimit 1`
/** Counts only as far as asked: a line may be long, and nearly every caller cares only about its front. */
const countBefore = `select count(*) from (
  select 1 from lock_waiter indexed by lock_waiter_line
  where namespace = ? and name = ? and token < ? and expires_at >= ?
  limit ?
)`
const selectFirst = `${selectBy(tables.waiter, 'lock_waiter_line')}\nwhere namespace = ? and name = ? and expires_at >= ?\norder by token\nlimit ?`
const selectSlots = `${select(tables.lock)}\nwhere namespace = ? and name = ?\norder by slot`

const countWaiters = `select count(*) from (
  select 1 from lock_waiter indexed by lock_waiter_agent
  where namespace = ? and agent = ? and expires_at >= ?
  limit ?
)`

function waiter(source: Source, sql: string, ...values: Value[]): Waiter | null {
  const row = source.connection.get(sql, source.namespace, ...values)
  return row ? decode<Waiter>(tables.waiter, row) : null
}

/** The number of live waiters with a lower ticket, up to the limit. */
function countAlive({ connection, namespace, now }: Source, name: string, ticket: number, limit: number) {
  const [count] =
    connection.get(countBefore, namespace, name, BigInt(ticket), BigInt(now), BigInt(limit)) ?? []
  return Number(count)
}

/** Higher than every ticket. */
const lastTicket = Number.MAX_SAFE_INTEGER

function headOf(source: Source, name: string, limit: number): Pick<LineHead, 'locks' | 'first'> {
  const { connection, namespace } = source
  return {
    locks: connection.all(selectSlots, namespace, name).map((row) => decode<Lock>(tables.lock, row)),
    first: connection
      .all(selectFirst, namespace, name, BigInt(source.now), BigInt(limit))
      .map((row) => decode<Waiter>(tables.waiter, row)),
  }
}

function emptyLine(locks: readonly Lock[], floor: number): LockLine {
  return { locks, floor, last: 0, next: null, own: null, waiting: 0, ahead: 0 }
}

export const waiterLoaders = {
  lockLine(source, { name, waiter: id, limit }) {
    const { connection, namespace, known } = source
    const remembered = known.locks.get(name)
    if (remembered !== undefined && known.floor !== null) return emptyLine(remembered, known.floor)
    const rows = connection.all(selectLine, namespace, name)
    const [, floor, last] = rows[0] as readonly unknown[]
    const locks = rows
      .filter(([lock]) => lock !== null)
      .map((row) => decode<Lock>(tables.lock, row))
      // Sorted here: SQLite would build a b-tree for it, even for the single row there usually is.
      .sort((left, right) => left.slot - right.slot)
    if (last === 0) {
      known.rememberLine(name, locks, Number(floor))
      return emptyLine(locks, Number(floor))
    }
    const now = BigInt(source.now)
    const own = id === null ? null : waiter(source, selectOwn, id, name)
    const waiting = countAlive(source, name, lastTicket, limit)
    return {
      locks,
      floor: Number(floor),
      last: Number(last),
      next: waiter(source, selectNext, name, now),
      own,
      waiting,
      ahead: own === null ? waiting : countAlive(source, name, own.token, limit),
    }
  },

  lockHead(source, { name, waiter: id, limit, maxAhead }) {
    const own = waiter(source, selectOwn, id, name)
    return {
      ...headOf(source, name, limit),
      own,
      ahead: own === null ? 0 : countAlive(source, name, own.token, maxAhead),
    }
  },

  lockHeads: (source, { names }) => names.map((name) => headOf(source, name, 1)),

  waitersById: (source, { ids }) =>
    waiters(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  waitersOfAgent: ({ connection, namespace, now }, { agent, limit }) =>
    Number(connection.get(countWaiters, namespace, agent, BigInt(now), BigInt(limit))?.[0]),

  lapsedWaiters: (source, { limit }) =>
    waiters(
      source,
      `where namespace = ? and expires_at < ?\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
    ),

  waitersOfInstances: (source, { limit, ...whose }) =>
    waiters(source, `where namespace = ? ${ofInstances}\nlimit ${limit}`, ...ofInstancesValues(whose)),
} satisfies Partial<Loaders>
