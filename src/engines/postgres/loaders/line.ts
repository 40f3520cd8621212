/** What can be claimed, in claim order. */
import type { Item, LinePosition } from '../../../domain/item.ts'
import { QueryTexts } from '../../query-texts.ts'
import { filterText } from '../filter.ts'
import type { LineWant, Plan, PlanScope, Query } from '../plan.ts'
import { decodeAll, decodeReadable, Parameters, query, readableItem, skipClause } from '../rows.ts'
import { columnsOf, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Claims skip what others are claiming at the same time. */
function planClaim(want: Omit<LineWant, 'limit'>, limit: number, scope: PlanScope): Plan<readonly Item[]> {
  if (scope.locks) {
    return { line: { ...want, limit }, queries: [], read: (_, items) => items.slice(0, limit) }
  }
  return {
    queries: [want.query(limit, null, true)],
    searched: ['item'],
    read: ([rows]) => decodeAll<Item>(tables.item, rows),
  }
}

interface Start {
  readonly from: LinePosition | null
  readonly avoidsDamaged: boolean
}

const claimableTexts = new QueryTexts()

/** The text is built once for each variant, because claims come with almost every batch. */
function claimableQuery(scope: PlanScope, queue: string, limit: number, start: Start): Query {
  const values = [scope.namespace, queue, limit]
  if (start.from) values.push(start.from.priority, start.from.addedAt, start.from.id)
  const way = `${scope.locks} ${start.from !== null} ${start.avoidsDamaged}`
  const text = claimableTexts.of(way, () => claimableText(scope, start))
  return { text, values, youngerAt: youngerAt(tables.item), hold: scope.locks ? 'skip' : undefined }
}

function claimableText(scope: PlanScope, { from, avoidsDamaged }: Start): string {
  const beyond = from === null ? '' : 'and (t.priority, t.added_at, t.id) >= ($4, $5, $6)'
  return `select ${columnsOf(tables.item)}
from holdfast.item t
where t.namespace = $1 and t.queue = $2 and t.phase = 'ready' ${beyond} ${avoidsDamaged ? readableItem : ''}
order by t.priority, t.added_at, t.id
limit $3${skipClause(scope)}`
}

/** Each process takes one suspect at a time, whichever of its handles asks. */
const holdsNoSuspect = (instance: string) => `not exists (
  select 1
  from holdfast.item taken
  where taken.namespace = $1 and taken.phase = 'held' and taken.suspected_at is not null and taken.instance in (
    select peer.id
    from holdfast.instance own
    join holdfast.instance peer on peer.namespace = own.namespace and peer.pid = own.pid and peer.boot_id = own.boot_id
      and peer.host_name = own.host_name and peer.pid_namespace = own.pid_namespace
      and peer.start_time is not distinct from own.start_time
    where own.namespace = $1 and own.id = ${instance}
  )
)`

/**
 * The few items outside the line, which have an index of their own. Taking one that the same batch has already taken is
 * refused; one that it has made claimable is found by the next batch.
 */
function planIndexed(scope: PlanScope, rest: string, parameters: Parameters): Plan<readonly Item[]> {
  return {
    queries: [query(scope, tables.item, 'skip', rest, parameters)],
    searched: [],
    read: ([rows]) => decodeReadable<Item>(tables.item, rows),
  }
}

export const lineLoaders = {
  claimable: ({ queue, limit }, scope) =>
    planClaim(
      {
        queue,
        line: JSON.stringify([queue]),
        query: (most, from, avoidsDamaged) => claimableQuery(scope, queue, most, { from, avoidsDamaged }),
        fits: (item) => item.queue === queue && item.phase === 'ready',
      },
      limit,
      scope,
    ),

  suspects({ queue, filter, instance, limit }, scope) {
    const parameters = new Parameters(scope)
    const name = parameters.add(queue)
    const isFree = instance === null ? '' : `and ${holdsNoSuspect(parameters.add(instance))}`
    const rest = `and t.queue = ${name} and t.phase = 'suspect' ${isFree} ${readableItem} ${filterText(filter ?? {}, parameters)}
order by t.priority, t.added_at, t.id
limit ${parameters.add(limit)}`
    return { ...planIndexed(scope, rest, parameters), seeksSuspects: true }
  },

  offered({ queue, agent, filter, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.queue = ${parameters.add(queue)} and t.offered_to = ${parameters.add(agent)}
and t.phase = 'waiting' and t.waiting_for = '[]' and t.quarantined_at is null ${readableItem}
${filterText(filter, parameters)}
order by t.priority, t.added_at, t.id
limit ${parameters.add(limit)}`
    return planIndexed(scope, rest, parameters)
  },

  line({ queue, priority, addedAt, id, limit }, scope) {
    const parameters = new Parameters(scope)
    const most = parameters.add(limit)
    const name = parameters.add(queue)
    const before =
      addedAt === null || id === null
        ? `and t.priority <= ${parameters.add(priority)}`
        : `and (t.priority, t.added_at, t.id) < (${parameters.add(priority)}, ${parameters.add(addedAt)}, ${parameters.add(id)})`
    const count = (condition: string) =>
      `(select count(*) from (select 1 from holdfast.item t where t.namespace = $1 and t.queue = ${name} and t.phase = 'ready' ${condition} limit ${most}) counted)`
    return {
      queries: [{ text: `select ${count(before)}, ${count('')}`, values: parameters.values }],
      // A position is only advice: what the same batch adds or claims may be missing from it.
      searched: [],
      read: ([rows]) => ({ ahead: Number(rows?.[0]?.[0]), total: Number(rows?.[0]?.[1]) }),
    }
  },
} satisfies Partial<Loaders>
