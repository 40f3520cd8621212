/** Versioned documents. */
import type { State, StateFloor } from '../../../domain/state.ts'
import { pageOf } from '../../page.ts'
import { select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectOne = `${select(tables.state)}\nwhere namespace = ? and key = ?`
const selectVersion = 'select version from state where namespace = ? and key = ?'
const selectFloor = `${select(tables.stateFloor)}\nwhere namespace = ?`

/** Sorts above every key with the prefix: no name contains the last code point. */
const lastCodePoint = '\u{10FFFF}'

export const stateLoaders = {
  state(source, { key }) {
    const row = source.connection.get(selectOne, source.namespace, key)
    return row ? decode<State>(tables.state, row) : null
  },

  stateVersion: (source, { key }) =>
    Number(source.connection.get(selectVersion, source.namespace, key)?.[0] ?? 0),

  stateFloor(source) {
    const row = source.connection.get(selectFloor, source.namespace)
    return row ? decode<StateFloor>(tables.stateFloor, row) : null
  },

  states(source, { prefix, limit, after }) {
    const rows = source.connection
      .all(
        `select key, version, updated_at, updated_by
from state
where namespace = ? and key >= ? and key < ? and key > ?
order by key
limit ${limit + 1}`,
        source.namespace,
        prefix,
        `${prefix}${lastCodePoint}`,
        after ?? '',
      )
      .map(([key, version, updatedAt, updatedBy]) => ({
        key: String(key),
        version: Number(version),
        updatedAt: Number(updatedAt),
        updatedBy: String(updatedBy),
      }))
    return pageOf(rows, limit, ({ key }) => key)
  },
} satisfies Partial<Loaders>
