/** Ready tasks by their words. The rows kept for the words lead to an item; the filter itself decides. */
import type { Item, LinePosition } from '../../../domain/item.ts'
import { listsOf, type WordList, wordValue } from '../../../domain/ready-word.ts'
import { taskQueue } from '../../../domain/task.ts'
import type { ItemFilter } from '../../../port/item.ts'
import type { Selectors } from '../../../port/selector.ts'
import { filterText, passes } from '../filter.ts'
import type { LineWant, PlanScope, Query, Row } from '../plan.ts'
import { decodeAll, decodeReadable, Parameters, readableItem, skipClause } from '../rows.ts'
import { columnsOf, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'

type Wanted = Selectors['tasksMatching'][0]

const claimOrder = 'w.priority, w.added_at, w.item'

function positionIn(parameters: Parameters, { priority, addedAt, id }: LinePosition): string {
  return `(${parameters.add(priority)}::bigint, ${parameters.add(addedAt)}::bigint, ${parameters.add(id)}::text)`
}

/** One value of a list, from a position on. */
function under(field: string, value: string, from: LinePosition | null, parameters: Parameters): string {
  const beyond = from === null ? '' : `and (${claimOrder}) >= ${positionIn(parameters, from)}`
  return `w.namespace = $1 and w.field = ${parameters.add(field)} and w.value = ${parameters.add(value)} ${beyond}`
}

/**
 * The first rows of a list. Each value is read in index order and no further than needed, so that the values are
 * merged, not sorted.
 */
function firstOf(
  { field, values }: WordList,
  from: LinePosition | null,
  { maxPriority }: ItemFilter,
  rows: string,
  parameters: Parameters,
): string {
  const most = maxPriority === undefined ? '' : `and w.priority <= ${parameters.add(maxPriority)}`
  const each = values.map(
    (value) => `(
  select ${claimOrder}
  from holdfast.ready_word w
  where ${under(field, value, from, parameters)} ${most}
  order by ${claimOrder}
  limit ${rows}
)`,
  )
  return `select ${claimOrder} from (${each.join(' union all ')}) w order by ${claimOrder}`
}

/**
 * Whether the row is in another list too. The limit keeps it an index probe per row; a join might read a whole list.
 */
function alsoIn({ field, values }: WordList, parameters: Parameters): string {
  return `(
  select true
  from holdfast.ready_word o
  where o.namespace = $1 and o.field = ${parameters.add(field)} and o.value = any(${parameters.add(values)}::text[])
  and o.priority = w.priority and o.added_at = w.added_at and o.item = w.item
  limit 1
)`
}

function alsoInAll(lists: readonly WordList[], list: WordList, parameters: Parameters): string {
  const probes = lists.filter((each) => each !== list).map((other) => alsoIn(other, parameters))
  return probes.length === 0 ? '' : `where ${probes.join(' and ')}`
}

interface Start {
  readonly from: LinePosition | null
  readonly avoidsDamaged: boolean
}

/**
 * How many rows of its list a claim of `limit` items looks at. More than it wants, because others are claiming too and
 * what they have locked is skipped. If that is not enough, the batch finds out and runs again. A power of two, so that
 * there are few texts to prepare.
 */
function rowsFor(limit: number): number {
  return 2 ** Math.ceil(Math.log2(limit + 200))
}

function matchingQuery(at: PlanScope, wanted: Wanted, limit: number, start: Start): Query {
  const parameters = new Parameters(at)
  const { filter, by, window } = wanted
  const lists = listsOf(filter)
  const list = lists[by]
  const from = start.from ?? wanted.from
  const rows = window ?? (lists.length > 1 ? 'all' : rowsFor(limit))
  const text =
    list === undefined
      ? lineText(at, filter, from, limit, start, parameters)
      : `select found.*
from (
  ${firstOf(list, from, filter, `${rows}`, parameters)}
  limit ${rows}
) w
${itemText(at, filter, start, parameters)}
${alsoInAll(lists, list, parameters)}
order by ${claimOrder}
limit ${parameters.add(limit)}`
  const hold = at.locks ? 'skip' : undefined
  return { text, values: parameters.values, youngerAt: youngerAt(tables.item), hold }
}

/**
 * Looks items up one by one, for as long as any is wanted. With a plain join, the planner may take all ready items at
 * once and lock what is not claimed; and the condition on their phase must not lead it to the index of all ready items.
 */
function itemText(at: PlanScope, filter: ItemFilter, start: Start, parameters: Parameters): string {
  return `cross join lateral (
  select ${columnsOf(tables.item)}
  from holdfast.item t
  where t.namespace = $1 and t.id = w.item and t.phase || '' = 'ready' ${start.avoidsDamaged ? readableItem : ''}
  ${filterText(filter, parameters)}${skipClause(at)}
) found`
}

/** The most urgent come first, so the line itself is the list. */
function lineText(
  at: PlanScope,
  filter: ItemFilter,
  from: LinePosition | null,
  limit: number,
  start: Start,
  parameters: Parameters,
): string {
  const beyond = from === null ? '' : `and (t.priority, t.added_at, t.id) >= ${positionIn(parameters, from)}`
  return `select ${columnsOf(tables.item)}
from holdfast.item t
where t.namespace = $1 and t.queue = '${taskQueue}' and t.phase = 'ready' ${beyond} ${start.avoidsDamaged ? readableItem : ''}
${filterText(filter, parameters)}
order by t.priority, t.added_at, t.id
limit ${parameters.add(limit)}${skipClause(at)}`
}

/** Where that many rows of a list end; no row if the list is no longer than that. */
function endQuery(at: PlanScope, { filter, by, from, window }: Wanted): Query[] {
  const list = listsOf(filter)[by]
  if (list === undefined || window === null) return []
  const parameters = new Parameters(at)
  const text = `${firstOf(list, from, filter, `${window + 1}`, parameters)} limit 1 offset ${window}`
  return [{ text, values: parameters.values }]
}

function placeOf(row: Row | undefined): LinePosition | null {
  return row ? { priority: Number(row[0]), addedAt: Number(row[1]), id: String(row[2]) } : null
}

/** Each host of a ready task once, by seeking from one to the next instead of reading all tasks of each. */
const hosts = `with recursive host as (
  select min(w.value) as value
  from holdfast.ready_word w
  where w.namespace = $1 and w.field = 'host' and w.value < 'null'
  union all
  select (
    select min(w.value)
    from holdfast.ready_word w
    where w.namespace = $1 and w.field = 'host' and w.value > host.value and w.value < 'null'
  )
  from host
  where host.value is not null
)`

const stranded = `${hosts}
select ${columnsOf(tables.item)}
from (
  select host.value
  from host
  where host.value is not null and host.value <> all($2::text[])
  limit $3
) away
cross join lateral (
  select ${claimOrder}
  from holdfast.ready_word w
  where w.namespace = $1 and w.field = 'host' and w.value = away.value and exists (
    select 1 from holdfast.item t where t.namespace = $1 and t.id = w.item ${readableItem}
  )
  order by ${claimOrder}
  limit $3
) w
join holdfast.item t on t.namespace = $1 and t.id = w.item
order by ${claimOrder}
limit $3`

export const wordLoaders = {
  tasksMatching(wanted, at) {
    const { filter, limit } = wanted
    const ends = endQuery(at, wanted)
    if (at.locks) {
      const line: LineWant = {
        queue: taskQueue,
        line: JSON.stringify([taskQueue, filter, wanted.by, wanted.from]),
        limit,
        query: (most, from, avoidsDamaged) => matchingQuery(at, wanted, most, { from, avoidsDamaged }),
        fits: (item) => item.queue === taskQueue && item.phase === 'ready' && passes(item, filter),
      }
      return {
        line,
        queries: ends,
        read: ([end], items) => ({ items: items.slice(0, limit), next: placeOf(end?.[0]) }),
      }
    }
    return {
      queries: [matchingQuery(at, wanted, limit, { from: null, avoidsDamaged: true }), ...ends],
      searched: ['item'],
      read: ([rows, end]) => ({ items: decodeAll<Item>(tables.item, rows), next: placeOf(end?.[0]) }),
    }
  },

  wordCounts({ lists, limit }, at) {
    const queries = lists.map((list) => {
      const parameters = new Parameters(at)
      const counts = list.values.map(
        (value) =>
          `(select count(*) from (select 1 from holdfast.ready_word w where ${under(list.field, value, null, parameters)} limit ${limit}) counted)`,
      )
      return { text: `select ${counts.join(' + ')}`, values: parameters.values }
    })
    return { queries, searched: ['item'], read: (answers) => answers.map((rows) => Number(rows[0]?.[0])) }
  },

  strandedTasks: ({ hosts: running, limit }, { namespace }) => ({
    queries: [{ text: stranded, values: [namespace, running.map(wordValue), limit] }],
    searched: ['item'],
    read: ([rows]) => decodeReadable<Item>(tables.item, rows),
  }),
} satisfies Partial<Loaders>
