/** What is held, by expiry and by holder. */

import type { Delivery } from '../../../domain/delivery.ts'
import type { Item } from '../../../domain/item.ts'
import { thresholds } from '../../../domain/lease.ts'
import type { Lock } from '../../../domain/lock.ts'
import { filterText, filterValues } from '../filter.ts'
import { inList, items, packed, readable, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { inPairs, readableLock } from './lock.ts'

const lastEvent =
  "select at from event where event.namespace = item.namespace and subject = 'item' and event.id = item.id and event.version is not null order by seq desc limit 1"

const isRegistered =
  'exists (select 1 from instance as process where process.namespace = item.namespace and process.id = item.instance and registered_by is not null)'

const selectHost = 'select host_name from instance where namespace = ? and id = ? and ended_at is null'

const isOnHost = `(
  (instance is null and holder_host = ?3)
  or instance in (select id from instance where namespace = ?1 and host_name = ?3 and ended_at is null)
)`

/** Already warned about, according to the newest thousand events of the thing. */
const isWarned = (subject: 'item' | 'lock' | 'delivery', id: string) =>
  `exists (select 1 from (select kind, token from event where event.namespace = ?1 and subject = '${subject}' and event.id = ${id} order by seq desc limit 1000) as told where told.kind = '${subject}.expiring' and told.token = ${subject}.token)`

type Ids = readonly string[] | null

/** When ids are given, they lead to the rows; the plus keeps the planner from walking everything that is held. */
function byIndex(ids: Ids, expiry: string): string {
  return ids === null ? expiry : `+${expiry}`
}

/** In the last third of the lease or its last five minutes, whichever is shorter. */
function isNear(ids: Ids, expiry: string): string {
  const at = byIndex(ids, expiry)
  return `${at} >= ?2 and ${at} < ?2 + ${thresholds.nearMs} and +expires_at < ?2 + lease_ms / 3.0`
}

/** Restricts the rows to these ids, passed as the third parameter. */
function among(ids: Ids, id: 'id' | '(name, slot)'): string {
  if (ids === null) return ''
  return id === 'id'
    ? 'and id in (select value from json_each(?3))'
    : 'and (name, slot) in (select value ->> 0, value ->> 1 from json_each(?3))'
}

function listed(ids: Ids): string[] {
  return ids === null ? [] : [inList(ids)]
}

function locks(source: Source, where: string, ...values: (string | bigint)[]): Lock[] {
  return source.connection
    .all(`${select(tables.lock)}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Lock>(tables.lock, row))
}

export const heldLoaders = {
  offered: (source, { queue, agent, filter, limit }) =>
    items(
      source,
      `where namespace = ? and queue = ? and offered_to = ? and phase = 'waiting' and waiting_for = '[]' and quarantined_at is null ${readable}\n${filterText(filter)}\norder by priority, added_at, id\nlimit ${limit}`,
      queue,
      agent,
      ...filterValues(filter),
    ),

  heldItems(source, { queue, isBound, limit }) {
    const one = queue === null ? '' : 'and queue = ?'
    const some = isBound ? 'and instance is not null' : ''
    const name = queue === null ? [] : [queue]
    const sql = `select ${packed(tables.item)}, (${lastEvent})
from item
where namespace = ? and phase = 'held' ${one} ${some} ${readable}
order by coalesce(expires_at, 0)
limit ${limit}`
    return source.connection.all(sql, source.namespace, ...name).map((row) => ({
      item: decode<Item>(tables.item, row),
      changedAt: row[1] as number | null,
    }))
  },

  heldCounts({ connection, namespace }, { queue, agent, instance, host }) {
    const held = "select count(*) from item where namespace = ?1 and phase = 'held' and queue = ?2"
    const count = (condition: string, value: string | null) =>
      value === null ? 0 : Number(connection.get(`${held} and ${condition}`, namespace, queue, value)?.[0])
    const where =
      instance === null
        ? host
        : ((connection.get(selectHost, namespace, instance)?.[0] ?? null) as string | null)
    return { byAgent: count('agent = ?3', agent), onHost: count(isOnHost, where) }
  },

  heldLocks: (source, { limit }) =>
    locks(
      source,
      `where namespace = ? and delayed_since is null ${readableLock}\norder by expires_at\nlimit ${limit}`,
    ),

  itemsOfAgent: (source, { agent, instance, queue, limit }) =>
    items(
      source,
      `where namespace = ? and phase = 'held' and queue = ? and agent = ?
and (instance is null or instance is ? or ${isRegistered}) ${readable}
limit ${limit}`,
      queue,
      agent,
      instance,
    ),

  nearItems: (source, { ids, limit }) =>
    ids?.length === 0
      ? []
      : items(
          source,
          `where namespace = ?1 and phase = 'held' and ${isNear(ids, 'coalesce(expires_at, 0)')} ${readable} ${among(ids, 'id')}
and not ${isWarned('item', 'item.id')}
order by ${byIndex(ids, 'coalesce(expires_at, 0)')}
limit ${limit}`,
          BigInt(source.now),
          ...listed(ids),
        ),

  nearLocks: (source, { ids, limit }) =>
    ids?.length === 0
      ? []
      : locks(
          source,
          `where namespace = ?1 and ${isNear(ids, 'expires_at')} and delayed_since is null ${readableLock} ${among(ids, '(name, slot)')}
and not ${isWarned('lock', "lock.name || '#' || lock.slot")}
order by ${byIndex(ids, 'expires_at')}
limit ${limit}`,
          BigInt(source.now),
          ...(ids === null ? [] : [inPairs(ids)]),
        ),

  nearDeliveries: (source, { ids, limit }) =>
    ids?.length === 0
      ? []
      : source.connection
          .all(
            `${select(tables.delivery)}
where namespace = ?1 and agent is not null and ${isNear(ids, 'expires_at')} ${among(ids, 'id')}
and not ${isWarned('delivery', 'delivery.id')}
order by ${byIndex(ids, 'expires_at')}
limit ${limit}`,
            source.namespace,
            BigInt(source.now),
            ...listed(ids),
          )
          .map((row) => decode<Delivery>(tables.delivery, row)),
} satisfies Partial<Loaders>
