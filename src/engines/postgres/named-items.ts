/**
 * All items that a batch names, locked by one statement in order of id, so that two batches cannot each hold one and
 * want both.
 */
import { texts } from './parameter.ts'
import type { ItemNames, PlanScope, Query } from './plan.ts'
import { locking } from './rows.ts'
import { columnsOf, tables, youngerAt } from './tables.ts'

const openByKey = (column: string, queues: string, keys: string) => `select i.id
from unnest(${queues}::text[], ${keys}::text[]) as wanted (queue, key)
join holdfast.item i on i.namespace = $1 and i.queue = wanted.queue and i.${column} = wanted.key and i.phase <> 'closed'`

const closedByKey = (column: string, queues: string, keys: string) => `select last.id
from unnest(${queues}::text[], ${keys}::text[]) as wanted (queue, key)
cross join lateral (
  select i.id
  from holdfast.item i
  where i.namespace = $1 and i.queue = wanted.queue and i.${column} = wanted.key and i.phase = 'closed'
  order by i.added_at desc, i.id desc
  limit 1
) last`

const wantedByNames = `select unnest($2::text[])
union ${openByKey('key', '$3', '$4')}
union ${closedByKey('key', '$3', '$4')}
union ${openByKey('dedupe_key', '$5', '$6')}
union ${closedByKey('dedupe_key', '$5', '$6')}`

/**
 * The index is searched for the ids in its own order, which is that of the ids. With an `order by`, the planner would
 * rather walk the whole index, which is sorted already, and look for each row among the ids.
 */
const byIds = `from holdfast.item t
where t.namespace = $1 and t.id = any($2::text[])`

/** Joined, so that each item is looked up by its id. */
const byNames = `from (${wantedByNames}) as wanted (id)
join holdfast.item t on t.namespace = $1 and t.id = wanted.id
order by t.id`

/** Built once: the identical string is also found faster among the prepared statements. */
function queriesOf(from: string): { readonly locked: Query; readonly unlocked: Query } {
  const text = `select ${columnsOf(tables.item)}\n${from}`
  const unlocked: Query = { text, values: [], youngerAt: youngerAt(tables.item) }
  return { unlocked, locked: locking(unlocked, { locks: true }, 'wait') }
}

const queriesByIds = queriesOf(byIds)
const queriesByNames = queriesOf(byNames)

export function namedItems(
  scope: Pick<PlanScope, 'namespace' | 'locks'>,
  { ids = [], keys = [], dedupeKeys = [] }: ItemNames,
): Query {
  const isByIds = keys.length === 0 && dedupeKeys.length === 0
  const values: unknown[] = [scope.namespace, texts(ids)]
  if (!isByIds) {
    values.push(
      texts(keys.map(({ queue }) => queue)),
      texts(keys.map(({ key }) => key)),
      texts(dedupeKeys.map(({ queue }) => queue)),
      texts(dedupeKeys.map(({ dedupeKey }) => dedupeKey)),
    )
  }
  const { locked, unlocked } = isByIds ? queriesByIds : queriesByNames
  return { ...(scope.locks ? locked : unlocked), values }
}
