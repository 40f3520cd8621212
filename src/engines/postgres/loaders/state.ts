/** Versioned documents. */
import type { State, StateFloor } from '../../../domain/state.ts'
import { pageOf } from '../../page.ts'
import { decodeFirst, locking, Parameters, query } from '../rows.ts'
import { tables, youngerWriter } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const stateLoaders = {
  state({ key }, scope) {
    const parameters = new Parameters(scope)
    return {
      names: [`state:${key}`],
      queries: [query(scope, tables.state, 'wait', `and t.key = ${parameters.add(key)}`, parameters)],
      read: ([rows]) => decodeFirst<State>(tables.state, rows),
    }
  },

  stateVersion: ({ key }, scope) => ({
    names: [`state:${key}`],
    queries: [
      locking(
        {
          text: `select t.version, ${youngerWriter('t')} from holdfast.state t where t.namespace = $1 and t.key = $2`,
          values: [scope.namespace, key],
          youngerAt: 1,
        },
        scope,
        'wait',
      ),
    ],
    read: ([rows]) => Number(rows?.[0]?.[0] ?? 0),
  }),

  stateFloor: (_, scope) => ({
    // Not locked, or every document of a namespace would wait for every other. A set only has to see what deleting the
    // same document left, and it does, because a statement that locks nothing is sent after the name is held.
    queries: [query(scope, tables.stateFloor, 'none', '')],
    read: ([rows]) => decodeFirst<StateFloor>(tables.stateFloor, rows),
  }),

  states({ prefix, limit, after }, scope) {
    const parameters = new Parameters(scope)
    const start = parameters.add(prefix)
    const text = `select t.key, t.version, t.updated_at, t.updated_by
from holdfast.state t
where t.namespace = $1 and t.key >= ${start} and starts_with(t.key, ${start}) and t.key > ${parameters.add(after ?? '')}
order by t.key
limit ${parameters.add(limit + 1)}`
    return {
      queries: [{ text, values: parameters.values }],
      searched: ['state'],
      read([rows]) {
        const found = (rows ?? []).map(([key, version, updatedAt, updatedBy]) => ({
          key: String(key),
          version: Number(version),
          updatedAt: Number(updatedAt),
          updatedBy: String(updatedBy),
        }))
        return pageOf(found, limit, ({ key }) => key)
      },
    }
  },
} satisfies Partial<Loaders>
