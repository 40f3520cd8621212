/** What healing did and would do. */
import type { RecoveryRun, RecoveryTotal } from '../../engine.ts'
import { decodeAll, decodeFirst, now, Parameters, query } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

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
