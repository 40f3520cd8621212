/** What healing did and would do. */
import type { RecoveryRun, RecoveryTotal } from '../../engine.ts'
import type { Query } from '../plan.ts'
import { decodeAll, decodeFirst, now, Parameters, query, readableItem, wall } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/**
 * Is anything stale, is anything due? One row of two booleans. Each asks for the first entry of an index: asked whether
 * there is any, the planner expects many and would read the table until it meets one, which is mostly never. A damaged
 * row is not healed, so it must not look as if it were to be: every claim would try again.
 */
export function lookAheadQuery(namespace: string): Query {
  return {
    text: `select
  (select 1 from holdfast.item t where t.namespace = $1 and t.standing = 'held' and coalesce(t.expires_at, 0) < ${now} ${readableItem} order by coalesce(t.expires_at, 0) limit 1) is not null
    or (select 1 from holdfast.lock t where t.namespace = $1 and t.expires_at < ${now} and (t.patterns is null or holdfast.is_json(t.patterns)) order by t.expires_at limit 1) is not null,
  (select 1 from holdfast.item t where t.namespace = $1 and t.run_at <= ${wall} ${readableItem} order by t.run_at limit 1) is not null
    or exists (select 1 from holdfast.cascade where namespace = $1)`,
    values: [namespace],
  }
}

export const recoveryLoaders = {
  recoveryHistory: (_, place) => ({
    queries: [
      query(place, tables.recoveryRun, 'none', 'order by t.at desc, t.id desc\nlimit 1'),
      {
        text: `select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0), coalesce(sum(messages_reclaimed), 0)
from (
  select locks_cleaned, entries_reclaimed, messages_reclaimed from holdfast.recovery_run where namespace = $1
  union all
  select locks_cleaned, entries_reclaimed, messages_reclaimed from holdfast.recovery_total where namespace = $1
) runs`,
        values: [place.namespace],
      },
    ],
    searched: ['recoveryRun', 'recoveryTotal'],
    read: ([last, sums]) => ({
      last: decodeFirst<RecoveryRun>(tables.recoveryRun, last),
      locksCleaned: Number(sums?.[0]?.[0]),
      entriesReclaimed: Number(sums?.[0]?.[1]),
      messagesReclaimed: Number(sums?.[0]?.[2]),
    }),
  }),

  oldRecoveryRuns({ keep, limit }, place) {
    const parameters = new Parameters(place)
    const rest = `and (t.at, t.id) <= (
  select r.at, r.id from holdfast.recovery_run r where r.namespace = $1 order by r.at desc, r.id desc limit 1 offset ${parameters.add(keep)}
)
order by t.at, t.id
limit ${parameters.add(limit)}`
    return {
      queries: [query(place, tables.recoveryRun, 'skip', rest, parameters)],
      searched: ['recoveryRun'],
      read: ([rows]) => decodeAll<RecoveryRun>(tables.recoveryRun, rows),
    }
  },

  recoveryTotal: (_, place) => ({
    names: ['recovery-total'],
    queries: [query(place, tables.recoveryTotal, 'wait', '')],
    read: ([rows]) => decodeFirst<RecoveryTotal>(tables.recoveryTotal, rows),
  }),

  lapsedCounts({ queue, name }, place) {
    const parameters = new Parameters(place)
    const inQueue = queue === null ? '' : `and queue = ${parameters.add(queue)}`
    const named = name === null ? '' : `and name = ${parameters.add(name)}`
    // Deliveries belong to no queue.
    const deliveries =
      queue === null
        ? `(select count(*) from holdfast.delivery where namespace = $1 and agent is not null and expires_at < ${now})`
        : '0'
    const text = `select
  (select count(*) from holdfast.item where namespace = $1 and standing = 'held' and coalesce(expires_at, 0) < ${now} ${inQueue}),
  (select count(*) from holdfast.lock where namespace = $1 and expires_at < ${now} ${named}),
  ${deliveries}`
    return {
      queries: [{ text, values: parameters.values }],
      searched: ['item', 'lock', 'delivery'],
      read: ([counts]) => ({
        items: Number(counts?.[0]?.[0]),
        locks: Number(counts?.[0]?.[1]),
        deliveries: Number(counts?.[0]?.[2]),
      }),
    }
  },
} satisfies Partial<Loaders>
