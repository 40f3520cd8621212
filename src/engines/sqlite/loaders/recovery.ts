/** What healing did and would do. */
import type { RecoveryRun, RecoveryTotal } from '../../engine.ts'
import type { Value } from '../driver.ts'
import { readable, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { readableLock } from './lock.ts'

/** A damaged row is not healed, so it must not look as if it were to be: every claim would try again. */
const selectQuiet = `select
(select coalesce(expires_at, 0) from item where namespace = ?1 and standing = 'held' ${readable} order by coalesce(expires_at, 0) limit 1),
(select expires_at from lock where namespace = ?1 ${readableLock} order by expires_at limit 1),
(select run_at from item where namespace = ?1 and run_at is not null ${readable} order by run_at limit 1),
(select 0 from cascade where namespace = ?1 limit 1)`

const selectTotals = `select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0), coalesce(sum(messages_reclaimed), 0)
from (
  select locks_cleaned, entries_reclaimed, messages_reclaimed from recovery_run where namespace = ?1
  union all
  select locks_cleaned, entries_reclaimed, messages_reclaimed from recovery_total where namespace = ?1
)`

/** Is anything stale, is anything due? Looked up once and then known, so that a claim with neither pays nothing. */
export function lookAhead(source: Source): { stale: boolean; due: boolean } {
  const { known } = source
  known.quiet ??= loadQuiet(source)
  return { stale: known.quiet.lapseAt < source.now, due: known.quiet.dueAt <= source.wall }
}

function loadQuiet({ connection, namespace }: Source): NonNullable<Source['known']['quiet']> {
  const [item, lock, delayed, cascade] = connection.get(selectQuiet, namespace) as (number | null)[]
  return { lapseAt: earliest(item, lock), dueAt: earliest(delayed, cascade) }
}

function earliest(...times: (number | null | undefined)[]): number {
  return Math.min(...times.map((time) => time ?? Number.POSITIVE_INFINITY))
}

export const recoveryLoaders = {
  recoveryHistory(source) {
    const last = source.connection.get(
      `${select(tables.recoveryRun)}\nwhere namespace = ?\norder by at desc, id desc\nlimit 1`,
      source.namespace,
    )
    const sums = source.connection.get(selectTotals, source.namespace)
    return {
      last: last ? decode<RecoveryRun>(tables.recoveryRun, last) : null,
      locksCleaned: Number(sums?.[0]),
      entriesReclaimed: Number(sums?.[1]),
      messagesReclaimed: Number(sums?.[2]),
    }
  },

  oldRecoveryRuns: (source, { keep, limit }) =>
    source.connection
      .all(
        `${select(tables.recoveryRun)}
where namespace = ?1 and (at, id) <= (select at, id from recovery_run where namespace = ?1 order by at desc, id desc limit 1 offset ${keep})
order by at, id
limit ${limit}`,
        source.namespace,
      )
      .map((row) => decode<RecoveryRun>(tables.recoveryRun, row)),

  recoveryTotal(source) {
    const row = source.connection.get(
      `${select(tables.recoveryTotal)}\nwhere namespace = ?`,
      source.namespace,
    )
    return row ? decode<RecoveryTotal>(tables.recoveryTotal, row) : null
  },

  lapsedCounts(source, { queue, name }) {
    const count = (sql: string, ...values: Value[]) =>
      Number(source.connection.get(sql, source.namespace, BigInt(source.now), ...values)?.[0])
    const inQueue = queue === null ? [] : [queue]
    const named = name === null ? [] : [name]
    return {
      items: count(
        `select count(*) from item where namespace = ? and standing = 'held' and coalesce(expires_at, 0) < ? ${queue === null ? '' : 'and queue = ?'} ${readable}`,
        ...inQueue,
      ),
      locks: count(
        `select count(*) from lock where namespace = ? and expires_at < ? ${name === null ? '' : 'and name = ?'} ${readableLock}`,
        ...named,
      ),
      // Deliveries belong to no queue.
      deliveries:
        queue === null
          ? count(
              'select count(*) from delivery where namespace = ? and agent is not null and expires_at < ?',
            )
          : 0,
    }
  },
} satisfies Partial<Loaders>
