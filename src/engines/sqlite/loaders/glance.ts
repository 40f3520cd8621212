/** Queues at a glance: which are worth a look, and counts that stop at a bound. */
import { failingMin, maxNewestClosed } from '../../../domain/alert.ts'
import { type BoundedCount, bounded } from '../../../domain/count.ts'
import type { QueueGlance } from '../../../port/queue.ts'
import type { Value } from '../driver.ts'
import { packed, type Source } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { definedQueue } from './queue.ts'

/** How many queues with ready items, and how many held items, are examined to find the queues worth showing. */
const maxLookedAt = 1000

/**
 * Finds each queue once by seeking from one to the next, instead of reading through an index that starts with the
 * queue.
 */
function queuesIn(name: string, index: string, condition: string): string {
  const next = (after: string) =>
    `(select min(queue) from item indexed by ${index} where namespace = ?1 and ${condition} ${after})`
  return `${name} (name) as (
  select ${next('')}
  union all
  select ${next(`and queue > ${name}.name`)} from ${name} where name is not null
  limit ${maxLookedAt}
)`
}

const firstReadyAt = `select added_at from item indexed by item_ready
where item.namespace = ?1 and item.queue = ready.name and phase = 'ready'
order by priority, added_at
limit 1`

/** As the alert `mostly_failing` is decided, but cancelled items count as failed. */
const isFailing = `select count(*) filter (where outcome = 'failed') > max(${failingMin - 1}, count(*) filter (where outcome = 'succeeded'))
from (
  select outcome from item indexed by item_closed
  where item.namespace = ?1 and item.queue = failed.name and phase = 'closed'
  order by closed_at desc
  limit ${maxNewestClosed}
)`

/** The neediest first: with quarantined items, failing, paused, waiting longest, with held items; then by name. */
const selectWatched = (limit: number) => `with recursive
${queuesIn('quarantined', 'item_quarantined', 'quarantined_at is not null')},
${queuesIn('failed', 'item_failed', "outcome = 'failed'")},
${queuesIn('ready', 'item_ready', "phase = 'ready'")},
held (name) as (
  select distinct queue
  from (select queue from item indexed by item_held where namespace = ?1 and phase = 'held' limit ${maxLookedAt})
),
candidate (name, need, at) as (
  select name, 1, null from quarantined where name is not null
  union all
  select * from (
    select name, 2, null from failed where name is not null and (${isFailing}) limit ${limit + 1}
  )
  union all
  select name, 3, null from queue where namespace = ?1 and paused_at is not null
  union all
  select name, 4, (${firstReadyAt}) from ready where name is not null
  union all
  select name, 5, null from held
  union all
  select * from (select name, 6, null from queue where namespace = ?1 order by name limit ${limit + 1})
)
select ${packed(tables.queue)}, workflow.definition
from (
  select name as wanted, min(need) as need, min(at) as at
  from candidate
  group by name
  order by 2, 3 nulls last, 1
  limit ${limit + 1}
)
join queue on queue.namespace = ?1 and queue.name = wanted
left join workflow on workflow.namespace = queue.namespace and workflow.name = queue.workflow
order by need, at nulls last, wanted`

/** Reads the head of each priority, since within a priority the oldest comes first. */
function oldestIn(line: 'ready' | 'suspect'): string {
  const inLine = `from item indexed by item_${line} where namespace = ?1 and queue = ?2 and phase = '${line}'`
  return `with recursive level (priority) as (
  select (select min(priority) ${inLine})
  union all
  select (select min(priority) ${inLine} and priority > level.priority) from level where priority is not null
)
select min((select min(added_at) ${inLine} and priority = level.priority)) from level where priority is not null`
}

/** Counts up to one more than the limit, which shows that there are more. */
function found(source: Source, limit: number, rest: string, ...values: Value[]): number {
  const sql = `select count(*) from (select 1 from item ${rest} limit ${limit + 1})`
  return Number(source.connection.get(sql, source.namespace, ...values)?.[0])
}

function countUpTo(source: Source, limit: number, rest: string, ...values: Value[]): BoundedCount {
  return bounded(found(source, limit, rest, ...values), limit)
}

function countReady(source: Source, queue: string, limit: number): BoundedCount {
  const count = (line: string) =>
    found(source, limit, `where namespace = ? and queue = ? and phase = '${line}'`, queue)
  return bounded(count('ready') + count('suspect'), limit)
}

function oldestReadyAt({ connection, namespace }: Source, queue: string): number | null {
  const heads = (['ready', 'suspect'] as const).flatMap(
    (line) => (connection.get(oldestIn(line), namespace, queue)?.[0] as number | null) ?? [],
  )
  return heads.length === 0 ? null : Math.min(...heads)
}

function closedByState(source: Source, queue: string, limit: number): Map<string, number> {
  const sql = `select state, count(*)
from (
  select state from item indexed by item_closed
  where namespace = ? and queue = ? and phase = 'closed'
  order by closed_at desc
  limit ${limit}
)
group by state`
  return new Map(source.connection.all(sql, source.namespace, queue) as [string, number][])
}

function glance(source: Source, queue: string, limit: number): QueueGlance {
  const inQueue = 'where namespace = ? and queue = ?'
  return {
    queue,
    ready: countReady(source, queue, limit),
    waiting: countUpTo(source, limit, `${inQueue} and phase = 'waiting'`, queue),
    quarantined: countUpTo(
      source,
      limit,
      `indexed by item_quarantined ${inQueue} and quarantined_at is not null`,
      queue,
    ),
    closed: countUpTo(source, limit, `indexed by item_closed ${inQueue} and phase = 'closed'`, queue),
    closedByState: closedByState(source, queue, limit),
    newestClosed: closedByState(source, queue, maxNewestClosed),
    oldestReadyAt: oldestReadyAt(source, queue),
  }
}

export const glanceLoaders = {
  watchedQueues(source, { limit }) {
    const rows = source.connection.all(selectWatched(limit), source.namespace)
    return { queues: rows.slice(0, limit).map(definedQueue), more: rows.length > limit }
  },

  queueGlances: (source, { queues, limit }) => queues.map((queue) => glance(source, queue, limit)),

  readyCounts: (source, { queues, limit }) =>
    queues.map((queue) => ({ queue, ready: countReady(source, queue, limit) })),
} satisfies Partial<Loaders>
