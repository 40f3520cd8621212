/** What healing did and would do. */
import type { RecoveryRun } from '../../engine.ts'
import type { Query } from '../plan.ts'
import { decodeFirst, now, Parameters, query, wall } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/**
 * Is anything stale, is anything due? One row of two booleans. Each asks for the first entry of an index: asked whether
 * there is any, the planner expects many and would read the table until it meets one, which is mostly never.
 */
export function lookAheadQuery(namespace: string): Query {
  return {
    text: `select
  coalesce((select coalesce(expires_at, 0) from holdfast.item where namespace = $1 and standing = 'held' order by coalesce(expires_at, 0) limit 1) < ${now}, false)
    or coalesce((select expires_at from holdfast.lock where namespace = $1 order by expires_at limit 1) < ${now}, false),
  coalesce((select run_at from holdfast.item where namespace = $1 and run_at is not null order by run_at limit 1) <= ${wall}, false)
    or exists (select 1 from holdfast.cascade where namespace = $1)`,
    values: [namespace],
  }
}

export const recoveryLoaders = {
  recoveryHistory: (_, place) => ({
    queries: [
      query(place, tables.recoveryRun, 'none', 'order by t.at desc\nlimit 1'),
      {
        text: 'select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0), coalesce(sum(messages_reclaimed), 0) from holdfast.recovery_run where namespace = $1',
        values: [place.namespace],
      },
    ],
    searched: ['recoveryRun'],
    read: ([last, sums]) => ({
      last: decodeFirst<RecoveryRun>(tables.recoveryRun, last),
      locksCleaned: Number(sums?.[0]?.[0]),
      entriesReclaimed: Number(sums?.[0]?.[1]),
      messagesReclaimed: Number(sums?.[0]?.[2]),
    }),
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
