/** Locks, one row a slot. */
import type { Lock } from '../../../domain/lock.ts'
import type { Value } from '../driver.ts'
import { pageOf } from '../page.ts'
import { inList, type Source, select, selectBy } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectLock = select(tables.lock)
const selectReservation = selectBy(tables.lock, 'lock_reservation')
/** A damaged reservation is set aside: it stays, and stops nothing. */
const readable = 'and (patterns is null or json_valid(patterns))'

function locks(source: Source, where: string, ...values: Value[]): Lock[] {
  return source.connection
    .all(`${selectLock}\n${where}`, source.namespace, ...values)
    .map((row) => decode<Lock>(tables.lock, row))
}

/** A name may hold `#`, the slot never does. */
function pairOf(ref: string): [name: string, slot: number] {
  const split = ref.lastIndexOf('#')
  return [ref.slice(0, split), Number(ref.slice(split + 1))]
}

export const lockLoaders = {
  lock: (source, { name }) => locks(source, 'where namespace = ? and name = ?\norder by slot', name),

  locksByRef: (source, { refs }) =>
    refs.length === 0
      ? []
      : locks(
          source,
          'where namespace = ? and (name, slot) in (select value ->> 0, value ->> 1 from json_each(?))',
          JSON.stringify(refs.map(pairOf)),
        ),

  locks(source, { agent, prefix, after, limit }) {
    const [name, slot] = after === null ? ['', -1] : pairOf(after)
    const held = agent === null ? '' : 'and agent = ?'
    const rows = locks(
      source,
      `where namespace = ? and (name, slot) > (?, ?) and substr(name, 1, length(?)) = ? ${held} ${readable}
order by name, slot
limit ${limit + 1}`,
      name,
      BigInt(slot),
      prefix,
      prefix,
      ...(agent === null ? [] : [agent]),
    )
    return pageOf(rows, limit, (last) => `${last.name}#${last.slot}`)
  },

  namedLocksOf: (source, { agent, limit }) =>
    locks(
      source,
      `where namespace = ? and agent = ? and slots is not null and delayed_since is null ${readable}
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
        `${selectReservation}\nwhere namespace = ? and patterns is not null and expires_at >= ? ${readable}\norder by name\nlimit ${limit}`,
        source.namespace,
        BigInt(source.now),
      )
      .map((row) => decode<Lock>(tables.lock, row)),

  lapsedLocks(source, { name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and expires_at < ? ${one} ${readable}\norder by expires_at\nlimit ${limit}`,
      BigInt(source.now),
      ...names,
    )
  },

  locksOfInstances(source, { instances, name, limit }) {
    const one = name === null ? '' : 'and name = ?'
    const names = name === null ? [] : [name]
    return locks(
      source,
      `where namespace = ? and instance in (select value from json_each(?)) ${one} ${readable}\nlimit ${limit}`,
      inList(instances),
      ...names,
    )
  },
} satisfies Partial<Loaders>
