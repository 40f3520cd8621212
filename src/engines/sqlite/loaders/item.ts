/** Items by id, by key, by line, by lease. */
import { sumByName } from '../../../domain/count.ts'
import type { Item, Phase } from '../../../domain/item.ts'
import type { Value } from '../driver.ts'
import { filterText, filterValues } from '../filter.ts'
import { listItems } from '../list.ts'
import {
  inList,
  item,
  items,
  ofInstances,
  ofInstancesValues,
  peersOf,
  readable,
  type Source,
  sparedUntil,
  unspared,
} from '../rows.ts'
import type { Loaders } from './loader.ts'

/** Items that others still wait for are kept, or nobody could say why those wait. */
const unneeded =
  'and not exists (select 1 from blocker where blocker.namespace = item.namespace and blocker.blocker = item.id)'

/** Each process takes one suspect at a time, whichever of its handles claims. */
const holdsNoSuspect = `not exists (
  select 1
  from item as taken
  where taken.namespace = ?1 and taken.phase = 'held' and taken.suspected_at is not null and taken.instance in (
    ${peersOf('= ?3')}
  )
)`

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

function itemById(source: Source, id: string): Item | null {
  return item(source, 'where namespace = ? and id = ?', id)
}

/** The open item, or else the one added last. */
function lastItem(source: Source, column: 'key' | 'dedupe_key', queue: string, key: string): Item | null {
  const where = `where namespace = ? and queue = ? and ${column} = ?`
  return (
    item(source, `${where} and phase <> 'closed'`, queue, key) ??
    item(source, `${where}\norder by added_at desc, id desc\nlimit 1`, queue, key)
  )
}

const inQueueByKey = 'item.namespace = ?1 and item.queue = queue.name and item.key = ?2'

function hasSuspects({ connection, namespace }: Source): boolean {
  return (
    connection.get("select 1 from item where namespace = ? and phase = 'suspect' limit 1", namespace) != null
  )
}

type Queues = readonly string[] | null

function inQueues(queues: Queues): string {
  return queues === null ? '' : 'and queue in (select value from json_each(?))'
}

function queueList(queues: Queues): string[] {
  return queues === null ? [] : [inList(queues)]
}

export const itemLoaders = {
  item(source, { queue, ref }) {
    const byId = source.known.items.get(ref) ?? (uuid.test(ref) ? itemById(source, ref) : null)
    if (byId) return queue === null || byId.queue === queue ? byId : null
    if (queue === null) return null
    return lastItem(source, 'key', queue, ref)
  },

  itemsById: (source, { ids }) =>
    items(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  openItemByKey: (source, { queue, key }) =>
    item(source, "where namespace = ? and queue = ? and key = ? and phase <> 'closed'", queue, key),

  openItemByDedupeKey: (source, { queue, dedupeKey }) =>
    item(
      source,
      "where namespace = ? and queue = ? and dedupe_key = ? and phase <> 'closed'",
      queue,
      dedupeKey,
    ),

  lastItemByDedupeKey: (source, { queue, dedupeKey }) => lastItem(source, 'dedupe_key', queue, dedupeKey),

  claimable: (source, { queue, limit }) =>
    items(
      source,
      `where namespace = ? and queue = ? and phase = 'ready'\norder by priority, added_at, id\nlimit ${limit}`,
      queue,
    ),

  suspects(source, { queue, filter, instance, limit }) {
    // There are almost never any, and every claim asks.
    source.known.hasSuspects ??= hasSuspects(source)
    if (!source.known.hasSuspects) return []
    return items(
      source,
      `where namespace = ?1 and queue = ?2 and phase = 'suspect' and (?3 is null or ${holdsNoSuspect}) ${filterText(filter)}
order by priority, added_at, id
limit ${limit}`,
      queue,
      instance,
      ...filterValues(filter),
    )
  },

  itemsByKey: (source, { key, limit }) =>
    items(
      source,
      `where namespace = ?1 and id in (
  select coalesce(
    (select id from item where ${inQueueByKey} and phase <> 'closed'),
    (select id from item where ${inQueueByKey} order by added_at desc, id desc limit 1)
  ) as last
  from queue
  where queue.namespace = ?1 and last is not null
  limit ${limit}
)`,
      key,
    ),

  lockedItems: (source, { name }) =>
    items(
      source,
      'where namespace = ?1 and id in (select item from lock where lock.namespace = ?1 and name = ?2)',
      name,
    ),

  lapsedItems: (source, { queues, limit }) =>
    items(
      source,
      `where namespace = ? and phase = 'held' and coalesce(expires_at, 0) < ? ${unspared(source, 'coalesce(expires_at, 0)')} ${inQueues(queues)} ${readable}\norder by coalesce(expires_at, 0)\nlimit ${limit}`,
      BigInt(source.now),
      ...sparedUntil(source),
      ...queueList(queues),
    ),

  itemsOfInstances(source, { queue, limit, ...whose }) {
    const one = queue === null ? '' : 'and queue = ?'
    const name = queue === null ? [] : [queue]
    return items(
      source,
      `where namespace = ? and phase = 'held' ${ofInstances} ${one} ${readable}\nlimit ${limit}`,
      ...ofInstancesValues(whose),
      ...name,
    )
  },

  silentItems: (source, { queue, thresholdMs, limit }) =>
    items(
      source,
      `where namespace = ? and phase = 'held' and queue = ? and max(coalesce(granted_at, 0), coalesce(renewed_at, 0)) <= ? ${readable}\norder by max(coalesce(granted_at, 0), coalesce(renewed_at, 0))\nlimit ${limit}`,
      queue,
      BigInt(source.now - thresholdMs),
    ),

  dueItems: (source, { queues, limit }) =>
    items(
      source,
      `where namespace = ? and run_at <= ? ${inQueues(queues)} ${readable}\norder by run_at\nlimit ${limit}`,
      BigInt(source.wall),
      ...queueList(queues),
    ),

  nextDueAt: (source, { queue }) =>
    (source.connection.get(
      `select run_at from item indexed by item_due_in_queue where namespace = ? and queue = ? and run_at is not null ${readable} order by run_at limit 1`,
      source.namespace,
      queue,
    )?.[0] ?? null) as number | null,

  items: listItems,

  line(source, { queue, priority, addedAt, id, limit }) {
    const ready = "select 1 from item where namespace = ? and queue = ? and phase = 'ready'"
    const count = (condition: string, ...values: Value[]) =>
      Number(
        source.connection.get(
          `select count(*) from (${ready} ${condition} limit ${limit})`,
          source.namespace,
          queue,
          ...values,
        )?.[0],
      )
    const ahead =
      addedAt === null || id === null
        ? count('and priority <= ?', BigInt(priority))
        : count('and (priority, added_at, id) < (?, ?, ?)', BigInt(priority), BigInt(addedAt), id)
    return { ahead, total: count('') }
  },

  counts(source, { queue }) {
    const states: [string, number][] = []
    const byPhase: Record<Phase, number> = { ready: 0, suspect: 0, waiting: 0, held: 0, closed: 0 }
    for (const phase of Object.keys(byPhase) as Phase[]) {
      const sql = `select state, count(*) from item where namespace = ? and queue = ? and phase = '${phase}' group by state`
      for (const [state, count] of source.connection.all(sql, source.namespace, queue) as [
        string,
        number,
      ][]) {
        states.push([state, count])
        byPhase[phase] += count
      }
    }
    const quarantined = source.connection.all(
      'select state, count(*) from item where namespace = ? and queue = ? and quarantined_at is not null group by state',
      source.namespace,
      queue,
    ) as [string, number][]
    const oldest = source.connection.get(
      // Separate queries, since each phase has its own index.
      `select min(added_at) from (
  select min(added_at) as added_at from item where namespace = ?1 and queue = ?2 and phase = 'ready'
  union all
  select min(added_at) from item where namespace = ?1 and queue = ?2 and phase = 'suspect'
)`,
      source.namespace,
      queue,
    )
    return {
      byState: sumByName(states),
      byPhase,
      quarantinedByState: sumByName(quarantined),
      oldestReadyAt: (oldest?.[0] ?? null) as number | null,
    }
  },

  closedBefore(source, { queue, before: last, limit }) {
    const before = BigInt(last)
    const oldest = `order by closed_at, id\nlimit ${limit}`
    const closed = (of: string) => `queue = ${of} and phase = 'closed' and closed_at <= ? ${unneeded}`
    if (queue !== null)
      return items(source, `where namespace = ? and ${closed('?')}\n${oldest}`, queue, before)
    // Queue by queue, since an index orders each queue's closed items: a single search would sort all of them.
    const ofEach = `select item.id from item where item.namespace = q.namespace and ${closed('q.name')}\n${oldest}`
    return items(
      source,
      `where namespace = ? and id in (
  select one.id
  from queue q
  join item one on one.namespace = q.namespace and one.id in (${ofEach})
  where q.namespace = ?
)
${oldest}`,
      before,
      source.namespace,
    )
  },
} satisfies Partial<Loaders>
