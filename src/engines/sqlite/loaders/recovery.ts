/** What healing has done and would do. */
import type { RecoveryFailure, RecoveryRun, RecoveryTotal } from '../../../port/recovery.ts'
import { QueryTexts } from '../../query-texts.ts'
import { lastRunOf } from '../../recovery-row.ts'
import { inList, readable, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { readableLock } from './lock.ts'

/** The first to expire among the rows matching a condition. */
const firstItem = (condition: string, spareMs: number) =>
  `(select coalesce(expires_at, 0) + ${spareMs} from item where namespace = ?1 and phase = 'held' ${condition} ${readable} order by coalesce(expires_at, 0) limit 1)`
const firstLock = (condition: string, spareMs: number) =>
  `(select expires_at + ${spareMs} from lock where namespace = ?1 ${condition} ${readableLock} order by expires_at limit 1)`

const manualLock = 'and instance is null and delayed_since is null'

/**
 * When the first lease may be reclaimed, and when the first item is due. Damaged rows are not healed, so they must not
 * look as if they needed healing: every claim would try again. Only a store that spares manual leases has to look for
 * them separately.
 */
function selectQuiet(manualGraceMs: number): string {
  const lapses =
    manualGraceMs === 0
      ? [firstItem('', 0), firstLock('', 0)]
      : [
          firstItem('and instance is not null', 0),
          firstItem('and instance is null', manualGraceMs),
          firstLock(`and not (true ${manualLock})`, 0),
          firstLock(manualLock, manualGraceMs),
        ]
  return `select
(select run_at from item where namespace = ?1 and run_at is not null ${readable} order by run_at limit 1),
(select 0 from cascade where namespace = ?1 limit 1),
${lapses.join(',\n')}`
}

const quietTexts = new QueryTexts()

const ofQueue = '(?2 is null or queue = ?2)'

const selectTotals = `select coalesce(sum(locks_cleaned), 0), coalesce(sum(entries_reclaimed), 0), coalesce(sum(messages_reclaimed), 0)
from (
  select locks_cleaned, entries_reclaimed, messages_reclaimed from recovery_run where namespace = ?1 and ${ofQueue}
  union all
  select locks_cleaned, entries_reclaimed, messages_reclaimed from recovery_total where namespace = ?1 and ${ofQueue}
)`

/** A run has one row per queue. */
const selectLast = `select at, trigger, by, sum(locks_cleaned), sum(entries_reclaimed), sum(quarantined), sum(messages_reclaimed)
from recovery_run
where namespace = ?1 and ${ofQueue}
and id = (select id from recovery_run where namespace = ?1 and ${ofQueue} order by at desc, id desc limit 1)
group by at, trigger, by`

/** Is anything stale, is anything due? Looked up once and then cached, so that a claim with neither pays nothing. */
export function lookAhead(source: Source): { stale: boolean; due: boolean } {
  const { known } = source
  known.quiet ??= loadQuiet(source)
  return { stale: known.quiet.lapseAt < source.now, due: known.quiet.dueAt <= source.wall }
}

function loadQuiet({ connection, namespace, manualGraceMs }: Source): NonNullable<Source['known']['quiet']> {
  const text = quietTexts.of(String(manualGraceMs), () => selectQuiet(manualGraceMs))
  const found = connection.get(text, namespace) as (number | null)[]
  const [delayed, cascade, ...lapses] = found
  return { lapseAt: earliest(...lapses), dueAt: earliest(delayed, cascade) }
}

function earliest(...times: (number | null | undefined)[]): number {
  return Math.min(...times.map((time) => time ?? Number.POSITIVE_INFINITY))
}

export const recoveryLoaders = {
  recoveryHistory(source, { queue }) {
    const last = source.connection.get(selectLast, source.namespace, queue)
    const sums = source.connection.get(selectTotals, source.namespace, queue)
    return {
      last: last ? lastRunOf(last) : null,
      locksCleaned: Number(sums?.[0]),
      entriesReclaimed: Number(sums?.[1]),
      messagesReclaimed: Number(sums?.[2]),
    }
  },

  recoveryFailures: (source, { queue }) =>
    source.connection
      .all(
        `${select(tables.recoveryFailure)}\nwhere namespace = ?1 and ${ofQueue}\norder by at desc`,
        source.namespace,
        queue,
      )
      .map((row) => decode<RecoveryFailure>(tables.recoveryFailure, row)),

  recoveryFailure(source, { queue, trigger }) {
    const row = source.connection.get(
      `${select(tables.recoveryFailure)}\nwhere namespace = ? and queue = ? and trigger = ?`,
      source.namespace,
      queue,
      trigger,
    )
    return row ? decode<RecoveryFailure>(tables.recoveryFailure, row) : null
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

  recoveryTotals: (source, { queues }) =>
    source.connection
      .all(
        `${select(tables.recoveryTotal)}\nwhere namespace = ? and queue in (select value from json_each(?))`,
        source.namespace,
        inList(queues),
      )
      .map((row) => decode<RecoveryTotal>(tables.recoveryTotal, row)),

  lapsedCounts(source, { queue, name, instances }) {
    const { connection, namespace, now, manualGraceMs } = source
    const sparedUntil = BigInt(now - manualGraceMs)
    const count = (sql: string, of: string | null = null) =>
      Number(connection.get(sql, namespace, BigInt(now), inList(instances), of, sparedUntil)?.[0])
    return {
      items: count(
        `select count(*) from item where namespace = ?1 and phase = 'held' and (coalesce(expires_at, 0) < iif(instance is null, ?5, ?2) or ${isOfDead}) and (?4 is null or queue = ?4) ${readable}`,
        queue,
      ),
      // Ending a delay takes nothing from anyone.
      locks: count(
        `select count(*) from lock where namespace = ?1 and delayed_since is null and (expires_at < iif(instance is null, ?5, ?2) or ${isOfDead}) and (?4 is null or name = ?4) ${readableLock}`,
        name,
      ),
      // Deliveries belong to no queue.
      deliveries:
        queue === null
          ? count(
              `select count(*) from delivery where namespace = ?1 and agent is not null and (expires_at < ?2 or ${isOfDead}) and ?4 is null and ?5 is not null`,
            )
          : 0,
    }
  },
} satisfies Partial<Loaders>

const isOfDead = 'instance in (select value from json_each(?3))'
