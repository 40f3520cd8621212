/** What is held, by expiry and by holder. */
import type { Delivery } from '../../../domain/delivery.ts'
import type { Item } from '../../../domain/item.ts'
import { thresholds } from '../../../domain/lease.ts'
import type { Lock } from '../../../domain/lock.ts'
import {
  columnsFrom,
  decodeAll,
  decodeIfReadable,
  decodeReadable,
  now,
  Parameters,
  query,
  readableItem,
  readableLock,
} from '../rows.ts'
import { tables, youngerAt, youngerWriter } from '../tables.ts'
import type { Loaders } from './loader.ts'

const lastEvent =
  "select e.at from holdfast.event e where e.namespace = t.namespace and e.subject = 'item' and e.id = t.id and e.version is not null order by e.seq desc limit 1"

/** In its last third or its last five minutes, whichever is shorter. */
const isNear = (expiry: string) =>
  `${expiry} >= ${now} and ${expiry} < ${now} + ${thresholds.nearMs} and t.expires_at < ${now} + least(${thresholds.nearMs}, t.lease_ms / 3.0)`

const isRegistered =
  'exists (select 1 from holdfast.instance p where p.namespace = t.namespace and p.id = t.instance and p.registered_by is not null)'

/** Already reported, as far as the newest thousand events of the thing show. */
const isWarned = (subject: 'item' | 'lock' | 'delivery', id: string) =>
  `exists (select 1 from (select e.kind, e.token from holdfast.event e where e.namespace = $1 and e.subject = '${subject}' and e.id = ${id} order by e.seq desc limit 1000) told where told.kind = '${subject}.expiring' and told.token = t.token)`

export const heldLoaders = {
  heldItems({ queue, isBound, limit }, scope) {
    const parameters = new Parameters(scope)
    const one = queue === null ? '' : `and t.queue = ${parameters.add(queue)}`
    const some = isBound ? 'and t.instance is not null' : ''
    const text = `select ${columnsFrom(tables.item, 't')}, ${youngerWriter('t')}, (${lastEvent})
from holdfast.item t
where t.namespace = $1 and t.phase = 'held' ${one} ${some} ${readableItem}
order by coalesce(t.expires_at, 0)
limit ${parameters.add(limit)}`
    const changedAt = youngerAt(tables.item) + 1
    return {
      // These are counted. Locking them would keep their holders from renewing, so commands that count take turns.
      names: [`held:${queue ?? ''}`],
      queries: [{ text, values: parameters.values, youngerAt: youngerAt(tables.item) }],
      searched: ['item'],
      read: ([rows]) =>
        (rows ?? []).flatMap((row) => {
          const item = decodeIfReadable<Item>(tables.item, row)
          return item === null ? [] : [{ item, changedAt: row[changedAt] as number | null }]
        }),
    }
  },

  heldLocks({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.delayed_since is null ${readableLock}\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.lock, 'none', rest, parameters)],
      searched: ['lock'],
      read: ([rows]) => decodeReadable<Lock>(tables.lock, rows),
    }
  },

  heldCounts({ queue, agent, instance, host }, scope) {
    const itsHost =
      'select own.host_name from holdfast.instance own where own.namespace = $1 and own.id = $4 and own.ended_at is null'
    const text = `select
  (select count(*) from holdfast.item t where t.namespace = $1 and t.phase = 'held' and t.queue = $2 and t.agent = $3),
  (
    select count(*)
    from (select case when $4::text is null then $5::text else (${itsHost}) end as host) asked
    join holdfast.item t on t.namespace = $1 and t.phase = 'held' and t.queue = $2 and (
      (t.instance is null and t.holder_host = asked.host)
      or t.instance in (
        select peer.id
        from holdfast.instance peer
        where peer.namespace = $1 and peer.host_name = asked.host and peer.ended_at is null
      )
    )
  )`
    return {
      // Commands that count take turns, because locking what is held would keep its holders from renewing.
      names: [`held:${queue}`],
      queries: [{ text, values: [scope.namespace, queue, agent, instance, host] }],
      searched: ['item', 'instance'],
      read: ([rows]) => ({ byAgent: Number(rows?.[0]?.[0]), onHost: Number(rows?.[0]?.[1]) }),
    }
  },

  itemsOfAgent({ agent, instance, queue, limit }, scope) {
    const parameters = new Parameters(scope)
    const holder = parameters.add(agent)
    const rest = `and t.phase = 'held' and t.queue = ${parameters.add(queue)} and t.agent = ${holder}
and (t.instance is null or t.instance is not distinct from ${parameters.add(instance)} or ${isRegistered}) ${readableItem}
order by t.id
limit ${parameters.add(limit)}`
    return {
      // Waits, because an item that is being renewed is still the agent's.
      queries: [query(scope, tables.item, 'wait', rest, parameters)],
      searched: ['item'],
      read: ([rows]) => decodeReadable<Item>(tables.item, rows),
    }
  },

  nearItems({ ids, limit }, scope) {
    const parameters = new Parameters(scope)
    const among = ids === null ? '' : `and t.id = any(${parameters.add(ids)})`
    const rest = `and t.phase = 'held' and ${isNear('coalesce(t.expires_at, 0)')} ${among}
and not ${isWarned('item', 't.id')} ${readableItem}
order by coalesce(t.expires_at, 0)
limit ${parameters.add(limit)}`
    return {
      // A warning changes no row, so two processes that warn would not meet otherwise.
      names: ['warnings'],
      queries: [query(scope, tables.item, 'skip', rest, parameters)],
      searched: ['item'],
      read: ([rows]) => decodeReadable<Item>(tables.item, rows),
    }
  },

  nearLocks({ ids, limit }, scope) {
    const parameters = new Parameters(scope)
    const among = ids === null ? '' : `and t.name || '#' || t.slot = any(${parameters.add(ids)})`
    const rest = `and ${isNear('t.expires_at')} and t.delayed_since is null ${among}
and not ${isWarned('lock', "t.name || '#' || t.slot")} ${readableLock}
order by t.expires_at
limit ${parameters.add(limit)}`
    return {
      names: ['warnings'],
      queries: [query(scope, tables.lock, 'skip', rest, parameters)],
      searched: ['lock'],
      read: ([rows]) => decodeReadable<Lock>(tables.lock, rows),
    }
  },

  nearDeliveries({ ids, limit }, scope) {
    const parameters = new Parameters(scope)
    const among = ids === null ? '' : `and t.id = any(${parameters.add(ids)})`
    const rest = `and t.agent is not null and ${isNear('t.expires_at')} ${among}
and not ${isWarned('delivery', 't.id')}
order by t.expires_at
limit ${parameters.add(limit)}`
    return {
      names: ['warnings'],
      queries: [query(scope, tables.delivery, 'skip', rest, parameters)],
      searched: ['delivery'],
      read: ([rows]) => decodeAll<Delivery>(tables.delivery, rows),
    }
  },
} satisfies Partial<Loaders>
