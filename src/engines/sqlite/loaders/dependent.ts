/** Items that wait for others. */
import type { Item } from '../../../domain/item.ts'
import type { Cascade, Dependent } from '../../../port/item.ts'
import { QueryTexts } from '../../query-texts.ts'
import { inList, items, packed, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { definedQueue } from './queue.ts'

const selectDependents = `select ${packed(tables.item)}, ${packed(tables.queue)}, workflow.definition
from blocker
join item on item.namespace = blocker.namespace and item.id = blocker.item
join queue on queue.namespace = item.namespace and queue.name = item.queue
left join workflow on workflow.namespace = queue.namespace and workflow.name = queue.workflow
where blocker.namespace = ? and blocker.blocker = ?`

const texts = new QueryTexts()

function dependentsQuery(limit: number): string {
  return texts.of(String(limit), () => `${selectDependents}\nlimit ${limit}`)
}

function dependent([item, ...queue]: readonly unknown[]): Dependent {
  return { item: decode<Item>(tables.item, [item]), ...definedQueue(queue) }
}

/** Most stores have no item that waits for another, so one look serves all completions that follow. */
function hasBlockers({ connection, namespace, known }: Source): boolean {
  known.hasBlockers ??=
    connection.get('select 1 from blocker where namespace = ? limit 1', namespace) !== undefined
  return known.hasBlockers
}

/** The item succeeded or was removed, so nothing has to wait for it. */
function isOver({ connection, namespace }: Source, id: string): boolean {
  const row = connection.get('select outcome from item where namespace = ? and id = ?', namespace, id)
  return row === undefined || row[0] === 'succeeded'
}

export const dependentLoaders = {
  dependents(source, { ids, limit }) {
    if (!hasBlockers(source)) return []
    return ids.flatMap((id) =>
      source.connection.all(dependentsQuery(limit), source.namespace, id).map(dependent),
    )
  },

  transitiveDependents(source, { id, limit }) {
    // `union` keeps each id once, so even a cycle terminates; `cross join` keeps the planner from walking all blockers
    // of the namespace for each item.
    const sql = `with recursive waiting (item) as (
  select item from blocker where namespace = ?1 and blocker = ?2
  union
  select blocker.item from waiting cross join blocker on blocker.namespace = ?1 and blocker.blocker = waiting.item
  limit ${limit}
)
select item from waiting`
    return source.connection.all(sql, source.namespace, id).map(([item]) => item as string)
  },

  vainWaits(source, { window, limit }) {
    const sql = `select coalesce(item.key, item.id), item.queue, coalesce(awaited.key, wait.blocker), awaited.state
from (select blocker, item from blocker where namespace = ?1 limit ${window}) wait
join item on item.namespace = ?1 and item.id = wait.item and item.phase <> 'closed'
left join item awaited on awaited.namespace = ?1 and awaited.id = wait.blocker
where awaited.id is null or awaited.outcome = 'failed'
limit ${limit}`
    return (source.connection.all(sql, source.namespace) as [string, string, string, string | null][]).map(
      ([item, queue, blocker, state]) => ({ item, queue, blocker, state }),
    )
  },

  transitiveBlockers(source, { ids, limit }) {
    const sql = `with recursive awaited (id) as (
  select value from json_each(?2)
  union
  select blocker.blocker from awaited cross join blocker on blocker.namespace = ?1 and blocker.item = awaited.id
  limit ${limit}
)
select id from awaited`
    return source.connection.all(sql, source.namespace, inList(ids)).map(([id]) => id as string)
  },

  stackedOn: (source, { id, limit }) =>
    items(
      source,
      `where namespace = ?1 and id in (
  with recursive stacked (id) as (
    select item.id from item indexed by item_parent where item.namespace = ?1 and item.parent = ?2 and item.phase <> 'closed'
    union
    select item.id
    from stacked cross join item indexed by item_parent on item.namespace = ?1 and item.parent = stacked.id
    where item.phase <> 'closed'
    limit ${limit}
  )
  select id from stacked
)`,
      id,
    ),

  freedDependents(source, { limit }) {
    const cascades = source.connection
      .all(`${select(tables.cascade)}\nwhere namespace = ?\nlimit ${maxCascades + 1}`, source.namespace)
      .map((row) => decode<Cascade>(tables.cascade, row))
    const dependents: (Dependent & { blocker: string })[] = []
    const finished: Cascade[] = []
    for (const cascade of cascades.slice(0, maxCascades)) {
      if (dependents.length >= limit) break
      const { blocker } = cascade
      const waiting = isOver(source, blocker)
        ? source.connection.all(dependentsQuery(limit), source.namespace, blocker)
        : []
      if (waiting.length === 0) finished.push(cascade)
      for (const row of waiting.slice(0, limit - dependents.length))
        dependents.push({ ...dependent(row), blocker })
    }
    return { dependents, finished, more: finished.length < cascades.length }
  },

  closedBlockers: ({ connection, namespace }) =>
    connection.all(selectClosedBlockers, namespace).map(([blocker]) => blocker as string),
} satisfies Partial<Loaders>

const maxCascades = 10

const selectClosedBlockers = `select blocker
from cascade
left join item on item.namespace = cascade.namespace and item.id = cascade.blocker
where cascade.namespace = ? and (item.id is null or item.outcome = 'succeeded')
limit 1000`
