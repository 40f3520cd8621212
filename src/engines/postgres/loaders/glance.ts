/** Queues at a glance: which are worth a look, and counts that stop at a bound. */
import { failingMin, maxNewestClosed } from '../../../domain/alert.ts'
import { bounded } from '../../../domain/count.ts'
import type { QueueGlance } from '../../../port/queue.ts'
import type { Query, Row } from '../plan.ts'
import { Parameters } from '../rows.ts'
import { columnsOf, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { definedQueueAt } from './queue.ts'

/** How many queues with ready items, and how many held items, are examined to find the queues worth showing. */
const maxLookedAt = 1000

const queueYoungerAt = youngerAt(tables.queue)

/** Each queue once, by seeking from one to the next: an index that begins with the queue is not read through. */
function queuesIn(name: string, condition: string): string {
  const next = (after: string) =>
    `select i.queue from holdfast.item i where i.namespace = $1 and ${condition} ${after} order by i.queue limit 1`
  return `${name} (name) as (
  (${next('')})
  union all
  select (${next(`and i.queue > ${name}.name`)}) from ${name} where ${name}.name is not null
)`
}

/** As the alert `mostly_failing` is decided, but cancelled items count as failed. */
const isFailing = `select count(*) filter (where late.outcome = 'failed') > greatest(${failingMin - 1}, count(*) filter (where late.outcome = 'succeeded'))
from (
  select i.outcome
  from holdfast.item i
  where i.namespace = $1 and i.queue = f.name and i.phase = 'closed'
  order by i.closed_at desc, i.id desc
  limit ${maxNewestClosed}
) late`

/** Most in need first: quarantined, failing, paused, waiting longest, held; then by name. */
const selectWatched = `with recursive
${queuesIn('quarantined', 'i.quarantined_at is not null')},
${queuesIn('failed', "i.outcome = 'failed'")},
${queuesIn('ready', "i.phase = 'ready'")},
candidate (name, need, at) as (
  select * from (select q.name, 1, null::bigint from quarantined q where q.name is not null limit ${maxLookedAt}) c1
  union all
  select * from (
    select f.name, 2, null::bigint
    from (select f.name, (${isFailing}) as fails from failed f where f.name is not null limit ${maxLookedAt}) f
    where f.fails
    limit $2
  ) c2
  union all
  select q.name, 3, null::bigint from holdfast.queue q where q.namespace = $1 and q.paused_at is not null
  union all
  select * from (
    select r.name, 4, (
      select i.added_at
      from holdfast.item i
      where i.namespace = $1 and i.queue = r.name and i.phase = 'ready'
      order by i.priority, i.added_at, i.id
      limit 1
    )
    from ready r
    where r.name is not null
    limit ${maxLookedAt}
  ) c4
  union all
  select distinct h.queue, 5, null::bigint
  from (select i.queue from holdfast.item i where i.namespace = $1 and i.phase = 'held' limit ${maxLookedAt}) h
  union all
  select * from (select q.name, 6, null::bigint from holdfast.queue q where q.namespace = $1 order by q.name limit $2) c6
),
wanted as (
  select c.name, min(c.need) as need, min(c.at) as at
  from candidate c
  group by c.name
  order by 2, 3, 1
  limit $2
)
select ${columnsOf(tables.queue)}, w.definition
from wanted
join holdfast.queue t on t.namespace = $1 and t.name = wanted.name
left join holdfast.workflow w on w.namespace = t.namespace and w.name = t.workflow
order by wanted.need, wanted.at, wanted.name`

const asked = 'from unnest($2::text[]) as asked (queue)'
const inQueue = 't.namespace = $1 and t.queue = asked.queue'

const countUpTo = (condition: string) =>
  `(select count(*) from (select 1 from holdfast.item t where ${inQueue} and ${condition} limit $3) counted)`
const readyCount = `${countUpTo("t.phase = 'ready'")} + ${countUpTo("t.phase = 'suspect'")}`

/** The head of each priority, because the oldest comes first within a priority. */
function oldestIn(line: 'ready' | 'suspect'): string {
  const inLine = `from holdfast.item t where ${inQueue} and t.phase = '${line}'`
  return `(
  with recursive level (priority) as (
    select (select t.priority ${inLine} order by t.priority limit 1)
    union all
    select (select t.priority ${inLine} and t.priority > level.priority order by t.priority limit 1)
    from level
    where level.priority is not null
  )
  select min(head.added_at)
  from level
  cross join lateral (
    select t.added_at ${inLine} and t.priority = level.priority order by t.added_at limit 1
  ) head
)`
}

const selectGlances = `select asked.queue, ${readyCount}, ${countUpTo("t.phase = 'waiting'")}, ${countUpTo('t.quarantined_at is not null')}, ${countUpTo("t.phase = 'closed'")}, least(${oldestIn('ready')}, ${oldestIn('suspect')})
${asked}`

function selectStates(limit: string): string {
  return `select asked.queue, closed.state, count(*)
${asked}
cross join lateral (
  select t.state
  from holdfast.item t
  where ${inQueue} and t.phase = 'closed'
  order by t.closed_at desc, t.id desc
  limit ${limit}
) closed
group by asked.queue, closed.state`
}

function statesIn(rows: readonly Row[] | undefined, queue: string): Map<string, number> {
  return new Map(
    (rows ?? []).filter(([name]) => name === queue).map(([, state, count]) => [String(state), Number(count)]),
  )
}

export const glanceLoaders = {
  watchedQueues: ({ limit }, scope) => ({
    queries: [
      {
        text: selectWatched,
        values: [scope.namespace, limit + 1],
        youngerAt: queueYoungerAt,
      } satisfies Query,
    ],
    searched: ['queue', 'item'],
    read([rows = []]) {
      const queues = rows.map((row) => definedQueueAt(row, 0, queueYoungerAt + 1))
      return { queues: queues.slice(0, limit), more: queues.length > limit }
    },
  }),

  queueGlances({ queues, limit }, scope) {
    const values = [scope.namespace, queues, limit + 1]
    return {
      queries: [
        { text: selectGlances, values },
        { text: selectStates('$3'), values: [scope.namespace, queues, limit] },
        { text: selectStates('$3'), values: [scope.namespace, queues, maxNewestClosed] },
      ],
      searched: ['item'],
      read: ([counts, states, newest]) =>
        (counts ?? []).map((row): QueueGlance => {
          const queue = String(row[0])
          const count = (at: number) => bounded(Number(row[at]), limit)
          return {
            queue,
            ready: count(1),
            waiting: count(2),
            quarantined: count(3),
            closed: count(4),
            closedByState: statesIn(states, queue),
            newestClosed: statesIn(newest, queue),
            oldestReadyAt: row[5] === null ? null : Number(row[5]),
          }
        }),
    }
  },

  readyCounts({ queues, limit }, scope) {
    const parameters = new Parameters(scope)
    parameters.add(queues)
    parameters.add(limit + 1)
    return {
      queries: [{ text: `select asked.queue, ${readyCount}\n${asked}`, values: parameters.values }],
      searched: ['item'],
      read: ([rows]) =>
        (rows ?? []).map(([queue, count]) => ({
          queue: String(queue),
          ready: bounded(Number(count), limit),
        })),
    }
  },
} satisfies Partial<Loaders>
