/** Pages of a queue: open items in working order, then closed ones, newest first. */
import { compareInLine, type Item, type Phase } from '../../domain/item.ts'
import type { Selectors } from '../../port/selector.ts'
import { compareClosed, type ItemCursor, itemCursor, itemCursorOf, pageOf } from '../page.ts'
import { filterText } from './filter.ts'
import type { Plan, PlanScope, Query } from './plan.ts'
import { decodeFound, Parameters, query } from './rows.ts'
import { tables } from './tables.ts'

type Request = Selectors['items'][0]

/** Each kind of item has its own index; a few short lists are merged. */
export function planItems(request: Request, scope: PlanScope): Plan<Selectors['items'][1]> {
  const cursor = itemCursor(request.after)
  const open = cursor?.[0] === 'closed' ? [] : request.lines.filter((line) => line !== 'closed')
  const queries = [
    ...open.map((phase) => openItems(phase, request, cursor, scope)),
    ...(request.lines.includes('closed') ? closedItems(request, cursor, scope) : []),
  ]
  return {
    queries,
    searched: ['item'],
    read(answers) {
      const lists = answers.map((rows) => decodeFound<Item>(tables.item, rows))
      const inOrder = lists
        .slice(0, open.length)
        .flat()
        .sort((left, right) => compareInLine(left.row, right.row))
      const closed = lists
        .slice(open.length)
        .flat()
        .sort((left, right) => compareClosed(left.row, right.row))
      const found = [...inOrder, ...closed]
      const page = pageOf(found, request.limit, ({ row }) => itemCursorOf(row))
      return { rows: page.rows.flatMap(({ row, isWhole }) => (isWhole ? [row] : [])), next: page.next }
    },
  }
}

function openItems(phase: Phase, request: Request, cursor: ItemCursor | null, scope: PlanScope): Query {
  const parameters = new Parameters(scope)
  const queue = parameters.add(request.queue)
  const from =
    cursor?.[0] === 'open'
      ? `and (t.priority, t.added_at, t.id) > (${parameters.add(cursor[1])}, ${parameters.add(cursor[2])}, ${parameters.add(cursor[3])})`
      : ''
  const aside = phase === 'waiting' && request.quarantinedOnly ? 'and t.quarantined_at is not null' : ''
  const freed = phase === 'waiting' ? amongFreed(request.freedBy, parameters) : ''
  const rest = `and t.queue = ${queue} and t.phase = '${phase}' ${aside} ${freed} ${from} ${filters(request, parameters)}
order by t.priority, t.added_at, t.id
limit ${parameters.add(request.limit + 1)}`
  return query(scope, tables.item, 'none', rest, parameters)
}

function amongFreed(freedBy: Request['freedBy'], parameters: Parameters): string {
  if (freedBy === null) return ''
  const item = `select b.item from holdfast.blocker b where b.namespace = $1 and b.blocker = any(${parameters.add(freedBy)}) limit 10000`
  return `and t.id = any(array(${item}))`
}

function closedItems(request: Request, cursor: ItemCursor | null, scope: PlanScope): Query[] {
  if (!request.failedOnly) return [closedQuery(request, cursor, scope, "t.phase = 'closed'")]
  // State by state, because each state has its items in order: failures are few among closed items.
  return [...new Set(request.states)].map((state) =>
    closedQuery({ ...request, states: [state] }, cursor, scope, "t.outcome = 'failed'"),
  )
}

function closedQuery(
  request: Request,
  cursor: ItemCursor | null,
  scope: PlanScope,
  condition: string,
): Query {
  const parameters = new Parameters(scope)
  const queue = parameters.add(request.queue)
  const from =
    cursor?.[0] === 'closed'
      ? `and (t.closed_at, t.id) < (${parameters.add(cursor[1])}, ${parameters.add(cursor[2])})`
      : ''
  const rest = `and t.queue = ${queue} and ${condition} ${from} ${filters(request, parameters)}
order by t.closed_at desc, t.id desc
limit ${parameters.add(request.limit + 1)}`
  return query(scope, tables.item, 'none', rest, parameters)
}

function filters(request: Request, parameters: Parameters): string {
  const states = stateFilter(request.states, parameters)
  const quarantined =
    request.quarantined === null ? '' : `and t.quarantined_at is ${request.quarantined ? 'not ' : ''}null`
  return `${states} ${quarantined} ${filterText(request.filter, parameters)}`
}

/** A single state is compared by equality: only then does an index by state return rows in order of time. */
function stateFilter(states: Request['states'], parameters: Parameters): string {
  if (states === null) return ''
  return states.length === 1
    ? `and t.state = ${parameters.add(states[0])}`
    : `and t.state = any(${parameters.add(states)})`
}
