/** Locks, one row per slot. */
import type { Lock } from '../../../domain/lock.ts'
import { parseLockRef } from '../../lock-ref.ts'
import { pageOf } from '../../page.ts'
import type { Value } from '../driver.ts'
import {
  ofInstances,
  ofInstancesValues,
  type Source,
  select,
  selectBy,
  sparedUntil,
  unspared,
} from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectLock = select(tables.lock)
const selectReservation = selectBy(tables.lock, 'lock_reservation')
/** A slot kept during a delay has no holder to spare. */
const isDelayed = 'or delayed_since is not null'

/** A damaged reservation is skipped: it stays in the store, and blocks nothing. */
export const readableLock = 'and (patterns is null or json_valid(patterns))'

function locks(source: Source, where: string, ...values: Value[]): Lock[] {
  return source.connection
    .all(`${selectLock}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Lock>(tables.lock, row))
}

/** Refs as a single parameter, for `in (select value ->> 0, value ->> 1 from json_each(?))`. */
export function inPairs(refs: readonly string[]): string {
  return JSON.stringify(refs.map(parseLockRef).map(({ name, slot }) => [name, slot]))
}

export const lockLoaders = {
  lock: (source, { name }) => locks(source, 'where namespace = ? and name = ?\norder by slot', name),

  locksByRef: (source, { refs }) =>
    refs.length === 0
      ? []
      : locks(
          source,
          'where namespace = ? and (name, slot) in (select value ->> 0, value ->> 1 from json_each(?))',
          inPairs(refs),
        ),

  locks(source, { agent, prefix, after, limit }) {
    const from = after === null ? null : parseLockRef(after)
    const held = agent === null ? '' : 'and agent = ?'
    const rows = locks(
      source,
      `where namespace = ? and (name, slot) > (?, ?) and substr(name, 1, length(?)) = ? ${held} ${readableLock}
order by name, slot
limit ${limit + 1}`,
      from?.name ?? '',
      BigInt(from?.slot ?? -1),
      prefix,
      prefix,
      ...(agent === null ? [] : [agent]),
    )
    return pageOf(rows, limit, (last) => `${last.name}#${last.slot}`)
  },

  namedLocksOf: (source, { agent, limit }) =>
    locks(
      source,
      `where namespace = ? and agent = ? and slots is not null and delayed_since is null ${readableLock}
order by name, slot
limit ${limit}`,
      agent,
    ),

  isAnyLocked: (source) =>
    source.connection.get(
      `select exists (select 1 from lock where namespace = ? and expires_at >= ? and delayed_since is null
and slots is not null and patterns is null)`,
      source.namespace,
      BigInt(source.now),
    )?.[0] === 1,

  reservations: (source, { limit }) =>
    source.connection
      .all(
        `${selectReservation}\nwhere namespace = ? and patterns is not null and expires_at >= ? ${readableLock}\norder by name\nlimit ${limit}`,
        source.namespace,
        // Spared reservations keep others out too; the rules look more closely.
        BigInt(source.now - source.manualGraceMs),
      )
      .map((row) => decode<Lock>(tables.lock, row)),

  lapsedLocks(source, { name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and expires_at < ? ${unspared(source, 'expires_at', isDelayed)} ${one} ${readableLock}\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
      ...sparedUntil(source),
      ...names,
    )
  },

  locksOfInstances(source, { name, limit, ...whose }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? ${ofInstances} ${one} ${readableLock}\nlimit ${limit}`,
      ...ofInstancesValues(whose),
      ...names,
    )
  },
} satisfies Partial<Loaders>
