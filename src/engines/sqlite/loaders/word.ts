/** Ready tasks by their words. The word rows lead to an item; the filter itself decides. */
import { compareInLine, type Item, type LinePosition } from '../../../domain/item.ts'
import { listsOf, type WordList, wordValue } from '../../../domain/ready-word.ts'
import { taskQueue } from '../../../domain/task.ts'
import type { ItemFilter } from '../../../port/item.ts'
import type { Value } from '../driver.ts'
import { filterText, filterValues } from '../filter.ts'
import { inList, items, packed, readable, type Source } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const claimOrder = 'w.priority, w.added_at, w.item'

/** Part of a SQL text with its values. */
interface Condition {
  readonly text: string
  readonly values: readonly Value[]
}

function valuesOf({ priority, addedAt, id }: LinePosition): Value[] {
  return [BigInt(priority), BigInt(addedAt), id]
}

/** Which part of a list is searched: from a position on, and only tasks that are urgent enough. */
interface Start {
  readonly from: LinePosition | null
  readonly filter: ItemFilter
}

const anywhere: Start = { from: null, filter: {} }

/** The rows of a list with this value. */
function under(field: string, value: string, { from, filter: { maxPriority } }: Start): Condition {
  const beyond = from === null ? '' : `and (${claimOrder}) >= (?, ?, ?)`
  const most = maxPriority === undefined ? '' : 'and w.priority <= ?'
  return {
    text: `w.namespace = ? and w.field = ? and w.value = ? ${beyond} ${most}`,
    values: [
      field,
      value,
      ...(from === null ? [] : valuesOf(from)),
      ...(maxPriority === undefined ? [] : [BigInt(maxPriority)]),
    ],
  }
}

/** The item must be in the other lists too. Each costs one index probe, which is cheaper than reading the item. */
function alsoIn({ field, values }: WordList): Condition {
  return {
    text: `and exists (
  select 1
  from ready_word as o
  where o.namespace = w.namespace and o.field = ? and o.value in (${values.map(() => '?').join(', ')})
  and o.priority = w.priority and o.added_at = w.added_at and o.item = w.item
)`,
    values: [field, ...values],
  }
}

/**
 * Where the first `window` rows end in a list that is walked value by value; null if the list is no longer than that.
 */
function endOf(
  { connection, namespace }: Source,
  { field, values }: WordList,
  from: Start,
  window: number,
): LinePosition | null {
  const ends = values.flatMap((value) => {
    const start = under(field, value, from)
    const row = connection.get(
      `select ${claimOrder} from ready_word as w where ${start.text} order by ${claimOrder} limit 1 offset ${window}`,
      namespace,
      ...start.values,
    ) as [number, number, string] | undefined
    return row ? [{ priority: row[0], addedAt: row[1], id: row[2] }] : []
  })
  return ends.sort(compareInLine)[0] ?? null
}

interface Stretch extends Start {
  readonly end: LinePosition | null
  readonly limit: number
}

function itemsUnder(
  { connection, namespace }: Source,
  { field, value }: { field: string; value: string },
  others: readonly WordList[],
  { from, filter, end, limit }: Stretch,
): Item[] {
  const start = under(field, value, { from, filter })
  const probes = others.map(alsoIn)
  const sql = `select ${packed(tables.item)}
from ready_word as w
cross join item on item.namespace = w.namespace and item.id = w.item
where ${start.text} ${end === null ? '' : `and (${claimOrder}) < (?, ?, ?)`}
${probes.map(({ text }) => text).join('\n')}
and item.queue = '${taskQueue}' and item.phase = 'ready' ${readable}
${filterText(filter)}
order by ${claimOrder}
limit ${limit}`
  const values = [
    ...start.values,
    ...(end === null ? [] : valuesOf(end)),
    ...probes.flatMap((probe) => probe.values),
    ...filterValues(filter),
  ]
  return connection.all(sql, namespace, ...values).map((row) => decode<Item>(tables.item, row))
}

/** Finds each host with ready tasks once by seeking from one to the next, not by reading all tasks of each. */
const strandedHosts = (limit: number) => `with recursive host(value) as (
  select min(value) from ready_word where namespace = ?1 and field = 'host' and value < 'null'
  union all
  select (
    select min(value)
    from ready_word
    where namespace = ?1 and field = 'host' and value > host.value and value < 'null'
  )
  from host
  where host.value is not null
)
select value
from host
where value is not null and value not in (select value from json_each(?2))
limit ${limit}`

export const wordLoaders = {
  tasksMatching(source, { filter, by, from, window, limit }) {
    const lists = listsOf(filter)
    const list = lists[by]
    if (list === undefined) return { items: firstInLine(source, filter, limit), next: null }
    const others = lists.filter((each) => each !== list)
    const end = window === null ? null : endOf(source, list, { from, filter }, window)
    // A task has one owner and one host, so no task is found twice.
    const found = list.values.flatMap((value) =>
      itemsUnder(source, { field: list.field, value }, others, { from, filter, end, limit }),
    )
    return { items: found.sort(compareInLine).slice(0, limit), next: end }
  },

  wordCounts(source, { lists, limit }) {
    const counts: number[] = []
    for (const list of lists) {
      // An even shorter list would gain nothing.
      const isFound = counts.some((count) => count < shortEnough)
      counts.push(isFound ? limit : countOf(source, list, limit))
    }
    return counts
  },

  strandedTasks(source, { hosts, limit }) {
    const values = source.connection
      .all(strandedHosts(limit), source.namespace, inList(hosts.map(wordValue)))
      .map(([value]) => value as string)
    const found = values.flatMap((value) =>
      itemsUnder(source, { field: 'host', value }, [], { ...anywhere, end: null, limit }),
    )
    return found.sort(compareInLine).slice(0, limit)
  },
} satisfies Partial<Loaders>

/** Walking this many rows takes less time than counting other lists. */
const shortEnough = 100

function countOf({ connection, namespace }: Source, { field, values }: WordList, limit: number): number {
  return values.reduce((sum, value) => {
    const start = under(field, value, anywhere)
    const sql = `select count(*) from (select 1 from ready_word as w where ${start.text} limit ${limit})`
    return sum + Number(connection.get(sql, namespace, ...start.values)?.[0])
  }, 0)
}

/** The most urgent tasks come first, so the line itself is the list. */
function firstInLine(source: Source, filter: ItemFilter, limit: number): Item[] {
  return items(
    source,
    `where namespace = ? and queue = ? and phase = 'ready'\n${filterText(filter)}\norder by priority, added_at, id\nlimit ${limit}`,
    taskQueue,
    ...filterValues(filter),
  )
}
