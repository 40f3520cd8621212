/** What healing did and would do. */
import type { RecoveryRun } from '../../engine.ts'
import type { Value } from '../driver.ts'
import { type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Is anything stale, is anything due? One cheap look, so that a claim with neither pays next to nothing. */
export function lookAhead(source: Source): { stale: boolean; due: boolean } {
  const sql = `select exists (select 1 from item where namespace = ?1 and standing = 'held' and coalesce(expires_at, 0) < ?2)
or exists (select 1 from lock where namespace = ?1 and expires_at < ?2),
exists (select 1 from item where namespace = ?1 and run_at <= ?3)
or exists (select 1 from cascade where namespace = ?1)`
  const [stale, due] =
    source.connection.get(sql, source.namespace, BigInt(source.now), BigInt(source.wall)) ?? []
  return { stale: stale === 1, due: due === 1 }
}

export const recoveryLoaders = {
  recoveryHistory(source) {
    const last = source.connection.get(
      `${select(tables.recoveryRun)}\nwhere namespace = ?\norder by at desc\nlimit 1`,
      source.namespace,
    )
    const sums = source.connection.get(
      'select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0) from recovery_run where namespace = ?',
      source.namespace,
    )
    return {
      last: last ? decode<RecoveryRun>(tables.recoveryRun, last) : null,
      locksCleaned: Number(sums?.[0]),
      entriesReclaimed: Number(sums?.[1]),
    }
  },

  lapsedCounts(source, { queue, name }) {
    const count = (sql: string, ...values: Value[]) =>
      Number(source.connection.get(sql, source.namespace, BigInt(source.now), ...values)?.[0])
    const inQueue = queue === null ? [] : [queue]
    const named = name === null ? [] : [name]
    return {
      items: count(
        `select count(*) from item where namespace = ? and standing = 'held' and coalesce(expires_at, 0) < ? ${queue === null ? '' : 'and queue = ?'}`,
        ...inQueue,
      ),
      locks: count(
        `select count(*) from lock where namespace = ? and expires_at < ? ${name === null ? '' : 'and name = ?'}`,
        ...named,
      ),
    }
  },
} satisfies Partial<Loaders>
