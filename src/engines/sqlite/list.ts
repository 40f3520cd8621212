/** Pages of a queue: open items in working order, then closed ones, newest first. */
import { compareInLine, type Item } from '../../domain/item.ts'
import type { Selectors } from '../../port/selector.ts'
import { compareClosed, type ItemCursor, itemCursor, itemCursorOf, pageOf } from '../page.ts'
import type { Value } from './driver.ts'
import { filterText, filterValues as valuesOfFilter } from './filter.ts'
import { inList, items, type Source } from './rows.ts'

type Request = Selectors['items'][0]

/** Indexes are forced: the planner has no statistics and would read every item of a namespace to find the held ones. */
const openLines = {
  ready: 'item_ready',
  suspect: 'item_suspect',
  waiting: 'item_waiting',
  held: 'item_held',
} as const

const amongFreed = `and id in (
  select blocker.item
  from blocker
  where blocker.namespace = ? and blocker.blocker in (select value from json_each(?))
  limit 10000
)`

export function listItems(source: Source, request: Request): Selectors['items'][1] {
  const cursor = itemCursor(request.after)
  const wanted = request.limit + 1
  const open = cursor?.[0] === 'closed' ? [] : openItems(source, request, cursor, wanted)
  const rest = wanted - open.length
  const closed =
    rest > 0 && request.lines.includes('closed') ? closedItems(source, request, cursor, rest) : []
  return pageOf([...open, ...closed], request.limit, itemCursorOf)
}

/** Each kind of open item has its own index, so a few short lists are merged. */
function openItems(source: Source, request: Request, cursor: ItemCursor | null, limit: number): Item[] {
  const from = cursor?.[0] === 'open' ? cursor : null
  const condition = from ? 'and (priority, added_at, id) > (?, ?, ?)' : ''
  const values: Value[] = from ? [BigInt(from[1]), BigInt(from[2]), from[3]] : []
  const lists = request.lines
    .filter((line) => line !== 'closed')
    .map((line) => {
      const isAside = request.quarantined === true || (line === 'waiting' && request.quarantinedOnly)
      const freedBy = line === 'waiting' ? request.freedBy : null
      const index = freedBy ? 'item_id' : openLines[line]
      return items(
        source,
        `indexed by ${isAside ? 'item_quarantined' : index}
where namespace = ? and queue = ? and phase = '${line}' ${isAside ? 'and quarantined_at is not null' : ''} ${freedBy ? amongFreed : ''} ${condition} ${filters(request)}
order by priority, added_at, id
limit ${limit}`,
        request.queue,
        ...(freedBy ? [source.namespace, inList(freedBy)] : []),
        ...values,
        ...filterValues(request),
      )
    })
  return lists.flat().sort(compareInLine).slice(0, limit)
}

function closedItems(source: Source, request: Request, cursor: ItemCursor | null, limit: number): Item[] {
  const from = cursor?.[0] === 'closed' ? cursor : null
  const condition = from ? 'and (closed_at, id) < (?, ?)' : ''
  const values: Value[] = from ? [BigInt(from[1]), from[2]] : []
  const order = `order by closed_at desc, id desc\nlimit ${limit}`
  if (!request.failedOnly)
    return items(
      source,
      `indexed by item_closed
where namespace = ? and queue = ? and phase = 'closed' ${condition} ${filters(request)}
${order}`,
      request.queue,
      ...values,
      ...filterValues(request),
    )
  // State by state, since the index orders the items of each state: failures are few among closed items.
  const lists = [...new Set(request.states)].map((state) =>
    items(
      source,
      `indexed by item_failed
where namespace = ? and queue = ? and outcome = 'failed' and state = ? ${condition} ${filters({ ...request, states: null })}
${order}`,
      request.queue,
      state,
      ...values,
      ...filterValues({ ...request, states: null }),
    ),
  )
  return lists.flat().sort(compareClosed).slice(0, limit)
}

function filters(request: Request): string {
  const states = request.states === null ? '' : 'and state in (select value from json_each(?))'
  const quarantined =
    request.quarantined === null ? '' : `and quarantined_at is ${request.quarantined ? 'not ' : ''}null`
  return `${states} ${quarantined} ${filterText(request.filter)}`
}

function filterValues(request: Request): Value[] {
  const states = request.states === null ? [] : [JSON.stringify(request.states)]
  return [...states, ...valuesOfFilter(request.filter)]
}
