/** What healing did and would do. */
import type { RecoveryFailure, RecoveryRun, RecoveryTotal } from '../../../port/recovery.ts'
import { lastRunOf } from '../../recovery-row.ts'
import { decodeAll, decodeFirst, now, Parameters, query, readableItem, readableLock } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const recoveryLoaders = {
  recoveryHistory({ queue }, scope) {
    const parameters = new Parameters(scope)
    const ofQueue = queue === null ? '' : `and queue = ${parameters.add(queue)}`
    const { values } = parameters
    return {
      queries: [
        {
          // A run has one row per queue.
          text: `select at, trigger, by, sum(locks_cleaned), sum(entries_reclaimed), sum(quarantined), sum(messages_reclaimed)
from holdfast.recovery_run
where namespace = $1 ${ofQueue}
and id = (select id from holdfast.recovery_run where namespace = $1 ${ofQueue} order by at desc, id desc limit 1)
group by at, trigger, by`,
          values,
        },
        {
          text: `select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0), coalesce(sum(messages_reclaimed), 0)
from (
  select locks_cleaned, entries_reclaimed, messages_reclaimed from holdfast.recovery_run where namespace = $1 ${ofQueue}
  union all
  select locks_cleaned, entries_reclaimed, messages_reclaimed from holdfast.recovery_total where namespace = $1 ${ofQueue}
) runs`,
          values,
        },
      ],
      searched: ['recoveryRun', 'recoveryTotal'],
      read: ([last, sums]) => ({
        last: last?.[0] ? lastRunOf(last[0]) : null,
        locksCleaned: Number(sums?.[0]?.[0]),
        entriesReclaimed: Number(sums?.[0]?.[1]),
        messagesReclaimed: Number(sums?.[0]?.[2]),
      }),
    }
  },

  recoveryFailures({ queue }, scope) {
    const parameters = new Parameters(scope)
    const ofQueue = queue === null ? '' : `and t.queue = ${parameters.add(queue)}`
    return {
      queries: [query(scope, tables.recoveryFailure, 'none', `${ofQueue}\norder by t.at desc`, parameters)],
      searched: ['recoveryFailure'],
      read: ([rows]) => decodeAll<RecoveryFailure>(tables.recoveryFailure, rows),
    }
  },

  recoveryFailure({ queue, trigger }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.queue = ${parameters.add(queue)} and t.trigger = ${parameters.add(trigger)}`
    return {
      names: ['recovery-failure'],
      queries: [query(scope, tables.recoveryFailure, 'wait', rest, parameters)],
      read: ([rows]) => decodeFirst<RecoveryFailure>(tables.recoveryFailure, rows),
    }
  },

  oldRecoveryRuns({ keep, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and (t.at, t.id) <= (
  select r.at, r.id from holdfast.recovery_run r where r.namespace = $1 order by r.at desc, r.id desc limit 1 offset ${parameters.add(keep)}
)
order by t.at, t.id
limit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.recoveryRun, 'skip', rest, parameters)],
      searched: ['recoveryRun'],
      read: ([rows]) => decodeAll<RecoveryRun>(tables.recoveryRun, rows),
    }
  },

  recoveryTotals({ queues }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.queue = any(${parameters.add(queues)})\norder by t.queue`
    return {
      names: queues.length === 0 ? [] : ['recovery-total'],
      queries: queues.length === 0 ? [] : [query(scope, tables.recoveryTotal, 'wait', rest, parameters)],
      read: ([rows]) => decodeAll<RecoveryTotal>(tables.recoveryTotal, rows),
    }
  },

  lapsedCounts({ queue, name, instances }, scope) {
    const parameters = new Parameters(scope)
    const inQueue = queue === null ? '' : `and t.queue = ${parameters.add(queue)}`
    const named = name === null ? '' : `and t.name = ${parameters.add(name)}`
    const isOfDead = `t.instance = any(${parameters.add(instances)})`
    // While the clock is in doubt, nothing counts as lapsed.
    const isLost = (expiry: string, isSpared = false) => {
      const end = isSpared
        ? `case when t.instance is null then ${now} - ${scope.manualGraceMs} else ${now} end`
        : now
      return scope.isDoubtful ? isOfDead : `(${expiry} < ${end} or ${isOfDead})`
    }
    // Deliveries belong to no queue.
    const deliveries =
      queue === null
        ? `(select count(*) from holdfast.delivery t where t.namespace = $1 and t.agent is not null and ${isLost('t.expires_at')})`
        : '0'
    // The end of a delay takes nothing from anybody.
    const text = `select
  (select count(*) from holdfast.item t where t.namespace = $1 and t.phase = 'held' and ${isLost('coalesce(t.expires_at, 0)', true)} ${inQueue} ${readableItem}),
  (select count(*) from holdfast.lock t where t.namespace = $1 and t.delayed_since is null and ${isLost('t.expires_at', true)} ${named} ${readableLock}),
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
