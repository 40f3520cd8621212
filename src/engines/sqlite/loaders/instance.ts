/** Instances: incarnations of processes. */
import type { Held } from '../../../domain/crash.ts'
import { type Instance, processesOf } from '../../../domain/instance.ts'
import { instanceCursor, instanceCursorBy, pageOf } from '../../page.ts'
import type { Value } from '../driver.ts'
import { inList, peersOf, readable, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { readableLock } from './lock.ts'

const selectInstance = select(tables.instance)

function instances(source: Source, where: string, ...values: Value[]): Instance[] {
  return source.connection
    .all(`${selectInstance}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Instance>(tables.instance, row))
}

const ofInstances = 'where namespace = ?1 and instance in (select value from json_each(?2))'
/** A damaged row cannot be released, so it must not keep its instance from ending. */
const selectHeldBy = `select instance, count(*)
from (
  select instance from item ${ofInstances} and phase = 'held' ${readable}
  union all
  select instance from lock ${ofInstances} ${readableLock}
  union all
  select instance from lock_waiter ${ofInstances}
  union all
  select instance from delivery ${ofInstances} and agent is not null
)
group by instance`

/** Each boot has recorded the offset between the lease clock and its awake time. */
const selectAwakeTimes = `select sign.instance, max(sign.at) - clock.offset_ms
from (
  select id as instance, seen_at as at from instance where namespace = ?1 and id in (select value from json_each(?2))
  union all
  select instance, renewed_at from item ${ofInstances} and phase = 'held'
  union all
  select instance, renewed_at from lock ${ofInstances}
  union all
  select instance, renewed_at from lock_waiter ${ofInstances}
) sign
join instance on instance.namespace = ?1 and instance.id = sign.instance
join lease_clock clock on clock.boot_id = instance.boot_id
where sign.at is not null
group by sign.instance`

const selectEnd = 'select ended_at from instance where namespace = ? and id = ?'

function registered(source: Source, agent: string): Instance | null {
  const where =
    'where namespace = ? and agent = ? and ended_at is null and registered_by is not null\norder by started_at desc\nlimit 1'
  return instances(source, where, agent)[0] ?? null
}

export const instanceLoaders = {
  instances: (source, { ids }) =>
    instances(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  processes(source, { instances: ids }) {
    const peers = instances(
      source,
      `where namespace = ?1 and id in (${peersOf('in (select value from json_each(?2))')})\norder by id`,
      inList(ids),
    )
    // Forces an index: the planner has no statistics and would choose one that covers all items.
    const held = source.connection.all(
      `select instance, count(*), count(suspected_at)
from item indexed by item_held
where namespace = ? and phase = 'held' and instance in (select value from json_each(?))
group by instance`,
      source.namespace,
      inList(peers.map(({ id }) => id)),
    ) as [string, number, number][]
    const holds = held.map(([id, items, suspects]) => [id, { items, suspects }] as const)
    return processesOf(peers, new Map<string, Held>(holds))
  },

  runningInstances: (source, { limit }) =>
    instances(source, `where namespace = ? and ended_at is null\norder by started_at\nlimit ${limit}`),

  machineInstances(source, { machine, pid, otherBoots, after, limit }) {
    const others = otherBoots ? 'or boot_id <> ?2' : ''
    const one = pid === null ? '' : `and pid = ${pid}`
    const [startedAt, id] = instanceCursor(after)
    const found = instances(
      source,
      `where namespace = ?1 and ended_at is null and (boot_id = ?2 and host_name = ?3 and pid_namespace = ?4 ${others}) ${one}
and (started_at, id) > (?5, ?6)
order by started_at, id
limit ${limit + 1}`,
      machine.bootId,
      machine.hostName,
      machine.pidNamespace,
      BigInt(startedAt),
      id,
    )
    return pageOf(found, limit, instanceCursorBy('startedAt'))
  },

  silentInstances(source, { silentMs, after, limit }) {
    const [seenAt, id] = instanceCursor(after)
    const found = instances(
      source,
      `where namespace = ? and ended_at is null and seen_at is not null and seen_at < ? and (seen_at, id) > (?, ?)
order by seen_at, id
limit ${limit + 1}`,
      BigInt(source.now - silentMs),
      BigInt(seenAt),
      id,
    )
    return pageOf(found, limit, instanceCursorBy('seenAt'))
  },

  heldByInstances: (source, { instances: ids }) =>
    source.connection
      .all(selectHeldBy, source.namespace, inList(ids))
      .map(([instance, count]) => ({ instance: String(instance), count: Number(count) })),

  awakeTimes: (source, { instances: ids }) =>
    source.connection
      .all(selectAwakeTimes, source.namespace, inList(ids))
      .map(([instance, awakeAt]) => ({ instance: String(instance), awakeAt: Number(awakeAt) })),

  endedHolders(source, { after, limit }) {
    const [endedAt, id] = instanceCursor(after)
    const found = instances(
      source,
      `where namespace = ?1 and ended_at is not null and (ended_at, id) > (?2, ?3) and id in (
  select instance from item where namespace = ?1 and phase = 'held' ${readable}
  union all
  select instance from lock where namespace = ?1 ${readableLock}
  union all
  select instance from lock_waiter where namespace = ?1
  union all
  select instance from delivery where namespace = ?1 and agent is not null
)
order by ended_at, id
limit ${limit + 1}`,
      BigInt(endedAt),
      id,
    )
    return pageOf(found, limit, instanceCursorBy('endedAt'))
  },

  claimant(source, { agent, instance }) {
    if (instance === null) return { instance: registered(source, agent)?.id ?? null, hasEnded: false }
    if (source.known.running.has(instance)) return { instance, hasEnded: false }
    const row = source.connection.get(selectEnd, source.namespace, instance)
    const hasEnded = row !== undefined && row[0] !== null
    if (!hasEnded) source.known.rememberRunning(instance)
    return { instance, hasEnded }
  },

  registeredInstance: (source, { agent }) => registered(source, agent),

  instancesEndedBefore: (source, { before, limit }) =>
    instances(
      source,
      `where namespace = ? and ended_at <= ?\norder by ended_at\nlimit ${limit}`,
      BigInt(before),
    ),
} satisfies Partial<Loaders>
