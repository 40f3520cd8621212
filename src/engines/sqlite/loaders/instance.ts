/** Incarnations of processes. */
import type { Instance } from '../../../domain/instance.ts'
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
