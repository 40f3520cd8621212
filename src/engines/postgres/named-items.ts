/** All items a batch names, by one statement in order of their ids: two batches cannot hold one each and want both. */
import type { ItemNames, Place, Query } from './plan.ts'
import { lockClause } from './rows.ts'
import { columnsOf, tables, youngerAt } from './tables.ts'

/** Joined, so that each is looked up by its id: a plan made when the table was small would read all of it. */
const wanted = 'select distinct id from unnest($2::text[]) as given (id)'

const openByKey = (column: string, queues: string, keys: string) => `select i.id
from unnest(${queues}::text[], ${keys}::text[]) as wanted (queue, key)
join holdfast.item i on i.namespace = $1 and i.queue = wanted.queue and i.${column} = wanted.key and i.standing <> 'closed'`

const closedByKey = (column: string, queues: string, keys: string) => `select last.id
from unnest(${queues}::text[], ${keys}::text[]) as wanted (queue, key)
cross join lateral (
  select i.id
  from holdfast.item i
  where i.namespace = $1 and i.queue = wanted.queue and i.${column} = wanted.key and i.standing = 'closed'
  order by i.added_at desc, i.id desc
  limit 1
) last`

const wantedByNames = `select unnest($2::text[])
union ${openByKey('key', '$3', '$4')}
union ${closedByKey('key', '$3', '$4')}
union ${openByKey('dedupe_key', '$5', '$6')}
union ${closedByKey('dedupe_key', '$5', '$6')}`

export function namedItems(place: Place, { ids = [], keys = [], dedupeKeys = [] }: ItemNames): Query {
  const isByIds = keys.length === 0 && dedupeKeys.length === 0
  const values: unknown[] = [place.namespace, ids]
  if (!isByIds) {
    values.push(
      keys.map(({ queue }) => queue),
      keys.map(({ key }) => key),
      dedupeKeys.map(({ queue }) => queue),
      dedupeKeys.map(({ dedupeKey }) => dedupeKey),
    )
  }
  return {
    text: `select ${columnsOf(tables.item)}
from (${isByIds ? wanted : wantedByNames}) as wanted (id)
join holdfast.item t on t.namespace = $1 and t.id = wanted.id
order by t.id${lockClause(place, 'wait')}`,
    values,
    youngerAt: youngerAt(tables.item),
  }
}
