/** Incarnations of processes. */
import type { Held } from '../../../domain/crash.ts'
import { type Instance, processesOf } from '../../../domain/instance.ts'
import type { Value } from '../driver.ts'
import { inList, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectInstance = select(tables.instance)

function instances(source: Source, where: string, ...values: Value[]): Instance[] {
  return source.connection
    .all(`${selectInstance}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Instance>(tables.instance, row))
}

export const instanceLoaders = {
  instances: (source, { ids }) =>
    instances(source, 'where namespace = ? and id in (select value from json_each(?))', inList(ids)),

  processes(source, { instances: ids }) {
    const peers = instances(
      source,
      `where namespace = ?1 and (pid, boot_id, host_name, pid_namespace, coalesce(start_time, '')) in (
  select pid, boot_id, host_name, pid_namespace, coalesce(start_time, '')
  from instance
  where namespace = ?1 and id in (select value from json_each(?2))
)
order by id`,
      inList(ids),
    )
    const held = source.connection.all(
      `select instance, count(*), count(suspected_at)
from item
where namespace = ? and standing = 'held' and instance in (select value from json_each(?))
group by instance`,
      source.namespace,
      inList(peers.map(({ id }) => id)),
    ) as [string, number, number][]
    const holds = held.map(([id, items, suspects]) => [id, { items, suspects }] as const)
    return processesOf(peers, new Map<string, Held>(holds))
  },

  runningInstances: (source, { limit }) =>
    instances(source, `where namespace = ? and ended_at is null\norder by started_at\nlimit ${limit}`),

  registeredInstance: (source, { agent }) =>
    instances(
      source,
      'where namespace = ? and agent = ? and ended_at is null and registered_by is not null\norder by started_at desc\nlimit 1',
      agent,
    )[0] ?? null,

  instancesEndedBefore: (source, { ageMs, limit }) =>
    instances(
      source,
      `where namespace = ? and ended_at < ?\norder by ended_at\nlimit ${limit}`,
      BigInt(source.wall - ageMs),
    ),
} satisfies Partial<Loaders>
