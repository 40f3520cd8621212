/** Pages of a queue: what is open in working order, then what is closed, newest first. */
import { type Item, inWorkingOrder, type Standing } from '../../domain/item.ts'
import type { Selectors } from '../engine.ts'
import { cursorOf, type ItemCursor, itemCursor } from '../item-cursor.ts'
import { pageOf } from '../page.ts'
import type { Value } from './driver.ts'
import { filterText, filterValues as valuesOfFilter } from './filter.ts'
import { items, type Source } from './rows.ts'

type Request = Selectors['items'][0]

const openStandings: readonly Standing[] = ['ready', 'waiting', 'held']

export function listItems(source: Source, request: Request): Selectors['items'][1] {
  const cursor = itemCursor(request.after)
  const wanted = request.limit + 1
  const open = cursor?.[0] === 'closed' ? [] : openItems(source, request, cursor, wanted)
  const rest = wanted - open.length
  const closed =
    rest > 0 && wantsStanding(request, 'closed') ? closedItems(source, request, cursor, rest) : []
  const rows = [...open, ...closed]
  return pageOf(rows, request.limit, cursorOf)
}

function wantsStanding(request: Request, standing: Standing): boolean {
  return request.standing === null || request.standing === standing
}

/** Each kind of open item has an index of its own; three short lists are merged. */
function openItems(source: Source, request: Request, cursor: ItemCursor | null, limit: number): Item[] {
  const from = cursor?.[0] === 'open' ? cursor : null
  const condition = from ? 'and (priority, added_at, id) > (?, ?, ?)' : ''
  const values: Value[] = from ? [BigInt(from[1]), BigInt(from[2]), from[3]] : []
  const lists = openStandings
    .filter((standing) => wantsStanding(request, standing))
    .map((standing) =>
      items(
        source,
        `where namespace = ? and queue = ? and standing = '${standing}' ${condition} ${filters(request)}\norder by priority, added_at, id\nlimit ${limit}`,
        request.queue,
        ...values,
        ...filterValues(request),
      ),
    )
  return lists.flat().sort(inWorkingOrder).slice(0, limit)
}

function closedItems(source: Source, request: Request, cursor: ItemCursor | null, limit: number): Item[] {
  const from = cursor?.[0] === 'closed' ? cursor : null
  const condition = from ? 'and (closed_at, id) < (?, ?)' : ''
  const values: Value[] = from ? [BigInt(from[1]), from[2]] : []
  return items(
    source,
    `where namespace = ? and queue = ? and standing = 'closed' ${condition} ${filters(request)}\norder by closed_at desc, id desc\nlimit ${limit}`,
    request.queue,
    ...values,
    ...filterValues(request),
  )
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
