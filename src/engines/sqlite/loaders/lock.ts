/** Locks, one row a slot. */
import type { Lock } from '../../../domain/lock.ts'
import type { Value } from '../driver.ts'
import { inList, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectLock = select(tables.lock)

function locks(source: Source, where: string, ...values: Value[]): Lock[] {
  return source.connection
    .all(`${selectLock}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Lock>(tables.lock, row))
}

export const lockLoaders = {
  lock: (source, { name }) => locks(source, 'where namespace = ? and name = ?\norder by slot', name),

  locksByRef: (source, { refs }) =>
    refs.length === 0
      ? []
      : locks(
          source,
          "where namespace = ? and name || '#' || slot in (select value from json_each(?))",
          inList(refs),
        ),

  lapsedLocks(source, { name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and expires_at < ? ${one}\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
      ...names,
    )
  },

  locksOfInstances(source, { instances, name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and instance in (select value from json_each(?)) ${one}\nlimit ${limit}`,
      inList(instances),
      ...names,
    )
  },
} satisfies Partial<Loaders>
