/** Items that wait for others. */
import type { Item } from '../../../domain/item.ts'
import type { Cascade, Dependent } from '../../../port/item.ts'
import { blockersName } from '../names.ts'
import type { Row } from '../plan.ts'
import { columnsFrom, decodeAll, decodeDamaged, locking, Parameters, query } from '../rows.ts'
import { columnsOf, decode, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { definedQueueAt } from './queue.ts'

const itemYoungerAt = youngerAt(tables.item)
const queueAt = itemYoungerAt + 1
const definitionAt = queueAt + tables.queue.columns.length
const blockerAt = definitionAt + 1

const columns = `${columnsOf(tables.item)}, ${columnsFrom(tables.queue, 'q')}, w.definition`
const withQueue = `join holdfast.queue q on q.namespace = t.namespace and q.name = t.queue
left join holdfast.workflow w on w.namespace = q.namespace and w.name = q.workflow`

function dependentsOf(rows: readonly Row[] | undefined): (Dependent & { blocker: string })[] {
  return (rows ?? []).map((row) => ({
    item: decode<Item>(tables.item, row),
    ...definedQueueAt(row, queueAt, definitionAt),
    blocker: row[blockerAt] as string,
  }))
}

/** Checked now that its row is locked: it may have stopped waiting since the blocker was looked up. */
function isWaiting({ item, blocker }: Dependent & { blocker: string }): boolean {
  return item.waitingFor.includes(blocker)
}

const countCascades =
  'select count(*) from (select 1 from holdfast.cascade where namespace = $1 limit 11) counted'

const selectClosedBlockers = `select c.blocker
from holdfast.cascade c
left join holdfast.item t on t.namespace = c.namespace and t.id = c.blocker
where c.namespace = $1 and (t.id is null or t.outcome = 'succeeded')
limit 1000`

export const dependentLoaders = {
  dependents({ ids, limit }, scope) {
    const parameters = new Parameters(scope)
    // None may be skipped: nobody would come back to free it.
    const text = `select ${columns}, wanted.blocker
from unnest(${parameters.add(ids)}::text[]) as wanted (blocker)
cross join lateral (
  select item
  from holdfast.blocker b
  where b.namespace = $1 and b.blocker = wanted.blocker
  order by item
  limit ${parameters.add(limit)}
) waiting
join holdfast.item t on t.namespace = $1 and t.id = waiting.item
${withQueue}
order by t.id`
    return {
      queries: [locking({ text, values: parameters.values, youngerAt: itemYoungerAt }, scope, 'wait')],
      awaited: ids,
      // Includes what no longer waits: fewer than were asked for would mean that there are no more.
      read: ([rows]) => dependentsOf(rows).map(({ blocker: _, ...dependent }) => dependent),
    }
  },

  transitiveDependents({ id, limit }, scope) {
    const parameters = new Parameters(scope)
    // `union` keeps each id once, so even a cycle would end; rows are produced only as far as they are asked for.
    const text = `with recursive waiting (item) as (
  select item from holdfast.blocker where namespace = $1 and blocker = ${parameters.add(id)}
  union
  select b.item from waiting join holdfast.blocker b on b.namespace = $1 and b.blocker = waiting.item
)
select item from waiting limit ${parameters.add(limit)}`
    return {
      // Of two concurrent checks neither sees what the other is about to add, and together they may close a cycle.
      names: [blockersName],
      queries: [{ text, values: parameters.values }],
      searched: ['item'],
      read: ([rows]) => (rows ?? []).map(([item]) => item as string),
    }
  },

  vainWaits({ window, limit }, scope) {
    const parameters = new Parameters(scope)
    // One by one: the planner assumes that the window is as long as it may be, and would read every item instead.
    const text = `select coalesce(i.key, i.id), i.queue, coalesce(awaited.key, wait.blocker), awaited.state
from (select blocker, item from holdfast.blocker where namespace = $1 limit ${parameters.add(window)}) wait
cross join lateral (
  select t.key, t.id, t.queue from holdfast.item t where t.namespace = $1 and t.id = wait.item and t.phase <> 'closed' limit 1
) i
left join lateral (
  select t.key, t.id, t.state, t.outcome from holdfast.item t where t.namespace = $1 and t.id = wait.blocker limit 1
) awaited on true
where awaited.id is null or awaited.outcome = 'failed'
limit ${parameters.add(limit)}`
    return {
      queries: [{ text, values: parameters.values }],
      searched: ['item'],
      read: ([rows]) =>
        ((rows ?? []) as unknown as [string, string, string, string | null][]).map(
          ([item, queue, blocker, state]) => ({ item, queue, blocker, state }),
        ),
    }
  },

  transitiveBlockers({ ids, limit }, scope) {
    const parameters = new Parameters(scope)
    const text = `with recursive awaited (id) as (
  select unnest(${parameters.add(ids)}::text[]) collate "C"
  union
  select b.blocker from awaited join holdfast.blocker b on b.namespace = $1 and b.item = awaited.id
)
select id from awaited limit ${parameters.add(limit)}`
    return {
      names: [blockersName],
      queries: [{ text, values: parameters.values }],
      searched: ['item'],
      read: ([rows]) => (rows ?? []).map(([id]) => id as string),
    }
  },

  stackedOn({ id, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(array(
  with recursive stacked (id) as (
    select i.id from holdfast.item i where i.namespace = $1 and i.parent = ${parameters.add(id)} and i.phase <> 'closed'
    union
    select i.id
    from stacked join holdfast.item i on i.namespace = $1 and i.parent = stacked.id
    where i.phase <> 'closed'
  )
  select id from stacked limit ${parameters.add(limit)}
))
order by t.id`
    return {
      // So that nobody stacks another item on one of these meanwhile.
      names: [blockersName],
      queries: [query(scope, tables.item, 'wait', rest, parameters)],
      searched: ['item'],
      read: ([rows]) => decodeAll<Item>(tables.item, rows),
    }
  },

  freedDependents({ limit }, scope) {
    const some = 'select c.blocker from holdfast.cascade c where c.namespace = $1 order by c.blocker limit 10'
    // Finished means that nothing waits for it at all: an item that somebody is working on still waits.
    const cascades = `select ${columnsOf(tables.cascade)}, exists (select 1 from holdfast.blocker b where b.namespace = $1 and b.blocker = t.blocker),
  exists (select 1 from holdfast.item i where i.namespace = $1 and i.id = t.blocker)
from holdfast.cascade t
where t.namespace = $1 and t.blocker = any(array(${some}))`
    // Locked, so that none starts over before the commit: what waits for it would then wait for its next end.
    const rest = `and t.id = any(array(${some}))\norder by t.id`
    const blockers = query(scope, tables.item, 'skip', rest)
    const parameters = new Parameters(scope)
    const dependents = `select ${columns}, wanted.blocker
from (${some}) wanted
cross join lateral (
  select item
  from holdfast.blocker b
  where b.namespace = $1 and b.blocker = wanted.blocker
  order by item
  limit ${parameters.add(limit)}
) waiting
join holdfast.item t on t.namespace = $1 and t.id = waiting.item
${withQueue}
limit $2`
    const hasDependentsAt = youngerAt(tables.cascade) + 1
    const isThereAt = hasDependentsAt + 1
    return {
      queries: [
        locking(
          { text: cascades, values: [scope.namespace], youngerAt: youngerAt(tables.cascade) },
          scope,
          'skip',
        ),
        blockers,
        locking({ text: dependents, values: parameters.values, youngerAt: itemYoungerAt }, scope, 'skip'),
        // Includes those that somebody else has locked.
        { text: countCascades, values: [scope.namespace] },
      ],
      searched: ['cascade', 'item'],
      read([found, closed, waiting, counted]) {
        const outcomes = new Map(
          decodeDamaged<Item>(tables.item, closed).map(({ id, outcome }) => [id, outcome]),
        )
        const isFinished = (row: Row) => {
          const { blocker } = decode<Cascade>(tables.cascade, row)
          return (
            row[hasDependentsAt] === false || (outcomes.has(blocker) && outcomes.get(blocker) !== 'succeeded')
          )
        }
        const removed = new Set(
          (found ?? [])
            .filter((row) => row[isThereAt] === false)
            .map((row) => decode<Cascade>(tables.cascade, row).blocker),
        )
        const isOver = (blocker: string) => outcomes.get(blocker) === 'succeeded' || removed.has(blocker)
        const finished = (found ?? []).filter(isFinished).map((row) => decode<Cascade>(tables.cascade, row))
        return {
          dependents: dependentsOf(waiting)
            .filter(isWaiting)
            .filter(({ blocker }) => isOver(blocker)),
          finished,
          more: Number(counted?.[0]?.[0]) > finished.length,
        }
      },
    }
  },

  closedBlockers: (_, scope) => ({
    queries: [{ text: selectClosedBlockers, values: [scope.namespace] }],
    searched: ['cascade'],
    read: ([rows]) => (rows ?? []).map(([blocker]) => blocker as string),
  }),
} satisfies Partial<Loaders>
