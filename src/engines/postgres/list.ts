/** Pages of a queue: what is open in working order, then what is closed, newest first. */
import { type Item, inWorkingOrder, type Standing } from '../../domain/item.ts'
import type { Selectors } from '../engine.ts'
import { cursorOf, type ItemCursor, itemCursor } from '../item-cursor.ts'
import { pageOf } from '../page.ts'
import { filterText } from './filter.ts'
import type { Place, Plan, Query } from './plan.ts'
import { decodeFound, Parameters, query } from './rows.ts'
import { tables } from './tables.ts'

type Request = Selectors['items'][0]

const openStandings: readonly Standing[] = ['ready', 'waiting', 'held']

/** Each kind of item has an index of its own; four short lists are merged. */
export function planItems(request: Request, place: Place): Plan<Selectors['items'][1]> {
  const cursor = itemCursor(request.after)
  const open = cursor?.[0] === 'closed' ? [] : openStandings.filter(isWanted)
  const queries = [
    ...open.map((standing) => openItems(standing, request, cursor, place)),
    ...(isWanted('closed') ? [closedItems(request, cursor, place)] : []),
  ]
  return {
    queries,
    searched: ['item'],
    read(answers) {
      const lists = answers.map((rows) => decodeFound<Item>(tables.item, rows))
      const inOrder = lists
        .slice(0, open.length)
        .flat()
        .sort((left, right) => inWorkingOrder(left.row, right.row))
      const found = [...inOrder, ...lists.slice(open.length).flat()]
      const page = pageOf(found, request.limit, ({ row }) => cursorOf(row))
      return { rows: page.rows.flatMap(({ row, isWhole }) => (isWhole ? [row] : [])), next: page.next }
    },
  }

  function isWanted(standing: Standing): boolean {
    return request.standing === null || request.standing === standing
  }
}

function openItems(standing: Standing, request: Request, cursor: ItemCursor | null, place: Place): Query {
  const parameters = new Parameters(place)
  const queue = parameters.add(request.queue)
  const from =
    cursor?.[0] === 'open'
      ? `and (t.priority, t.added_at, t.id) > (${parameters.add(cursor[1])}, ${parameters.add(cursor[2])}, ${parameters.add(cursor[3])})`
      : ''
  const rest = `and t.queue = ${queue} and t.standing = '${standing}' ${from} ${filters(request, parameters)}
order by t.priority, t.added_at, t.id
limit ${parameters.add(request.limit + 1)}`
  return query(place, tables.item, 'none', rest, parameters)
}

function closedItems(request: Request, cursor: ItemCursor | null, place: Place): Query {
  const parameters = new Parameters(place)
  const queue = parameters.add(request.queue)
  const from =
    cursor?.[0] === 'closed'
      ? `and (t.closed_at, t.id) < (${parameters.add(cursor[1])}, ${parameters.add(cursor[2])})`
      : ''
  const rest = `and t.queue = ${queue} and t.standing = 'closed' ${from} ${filters(request, parameters)}
order by t.closed_at desc, t.id desc
limit ${parameters.add(request.limit + 1)}`
  return query(place, tables.item, 'none', rest, parameters)
}

function filters(request: Request, parameters: Parameters): string {
  const states = request.states === null ? '' : `and t.state = any(${parameters.add(request.states)})`
  const quarantined =
    request.quarantined === null ? '' : `and t.quarantined_at is ${request.quarantined ? 'not ' : ''}null`
  return `${states} ${quarantined} ${filterText(request.filter, parameters)}`
}
