/** Locks, one row per slot. */
import type { Lock } from '../../../domain/lock.ts'
import { parseLockRef } from '../../lock-ref.ts'
import { pageOf } from '../../page.ts'
import { noneLapsed, type Plan, type PlanScope } from '../plan.ts'
import {
  decodeAll,
  decodeReadable,
  type Hold,
  isDelayed,
  locking,
  now,
  ofInstances,
  Parameters,
  query,
  readableLock,
  unspared,
} from '../rows.ts'
import { columnsOf, tables, youngerAt } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Locks that a condition finds. Damaged reservations are left out before they are counted against a limit. */
function planSearch(
  scope: PlanScope,
  parameters: Parameters,
  rest: string,
  hold: Hold = 'skip',
): Plan<readonly Lock[]> {
  return {
    queries: [query(scope, tables.lock, hold, `${readableLock} ${rest}`, parameters)],
    searched: ['lock'],
    read: ([rows]) => decodeReadable<Lock>(tables.lock, rows),
  }
}

export const lockLoaders = {
  lock({ name }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.name = ${parameters.add(name)}\norder by t.slot`
    return {
      names: [`lock:${name}`],
      queries: [query(scope, tables.lock, 'wait', rest, parameters)],
      read: ([rows]) => decodeAll<Lock>(tables.lock, rows),
    }
  },

  locksByRef({ refs }, scope) {
    const wanted = refs.map(parseLockRef).filter(({ slot }) => slot !== null)
    const parameters = new Parameters(scope)
    const names = parameters.add(wanted.map(({ name }) => name))
    const slots = parameters.add(wanted.map(({ slot }) => slot))
    const text = `select ${columnsOf(tables.lock)}
from unnest(${names}::text[], ${slots}::bigint[]) as wanted (name, slot)
join holdfast.lock t on t.namespace = $1 and t.name = wanted.name and t.slot = wanted.slot
order by t.name, t.slot`
    const found = { text, values: parameters.values, youngerAt: youngerAt(tables.lock) }
    return {
      names: [...new Set(wanted.map(({ name }) => `lock:${name}`))],
      queries: wanted.length === 0 ? [] : [locking(found, scope, 'wait')],
      read: ([rows]) => decodeAll<Lock>(tables.lock, rows),
    }
  },

  locks({ agent, prefix, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const from = after === null ? null : parseLockRef(after)
    const start = parameters.add(prefix)
    const held = agent === null ? '' : `and t.agent = ${parameters.add(agent)}`
    const rest = `and (t.name, t.slot) > (${parameters.add(from?.name ?? '')}, ${parameters.add(from?.slot ?? -1)}) and t.name >= ${start} and starts_with(t.name, ${start}) ${held}
order by t.name, t.slot
limit ${parameters.add(limit + 1)}`
    return {
      queries: [query(scope, tables.lock, 'none', rest, parameters)],
      searched: ['lock'],
      read([rows]) {
        // The rows found decide where the page ends, even if some of them cannot be read.
        const page = pageOf(rows ?? [], limit, ([name, slot]) => `${name}#${slot}`)
        return { rows: decodeReadable<Lock>(tables.lock, page.rows), next: page.next }
      },
    }
  },

  namedLocksOf({ agent, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.agent = ${parameters.add(agent)} and t.slots is not null and t.delayed_since is null
order by t.name, t.slot
limit ${parameters.add(limit)}`
    // Waits, because a lock that is being renewed is still the agent's.
    return planSearch(scope, parameters, rest, 'wait')
  },

  isAnyLocked: (_, scope) => ({
    queries: [
      {
        text: `select exists (
  select 1
  from holdfast.lock t
  where t.namespace = $1 and t.expires_at >= ${now} and t.delayed_since is null and t.slots is not null and t.patterns is null
)`,
        values: [scope.namespace],
      },
    ],
    searched: ['lock'],
    read: ([rows]) => rows?.[0]?.[0] === true,
  }),

  reservations({ limit }, scope) {
    const parameters = new Parameters(scope)
    // Leases that are spared keep others out too; the rules look closer.
    const live = scope.isDoubtful ? '' : `and t.expires_at >= ${now} - ${scope.manualGraceMs}`
    const rest = `and t.patterns is not null ${live}\norder by t.name, t.slot\nlimit ${parameters.add(limit)}`
    // Reservations are made one at a time, because what does not exist yet cannot be locked.
    return { names: ['reservations'], ...planSearch(scope, parameters, rest, 'wait') }
  },

  lapsedLocks({ name, limit }, scope) {
    if (scope.isDoubtful) return noneLapsed
    const parameters = new Parameters(scope)
    const one = name === null ? '' : `and t.name = ${parameters.add(name)}`
    const rest = `and t.expires_at < ${now} ${unspared(scope.manualGraceMs, 't.expires_at', isDelayed)} ${one}\norder by t.expires_at\nlimit ${parameters.add(limit)}`
    return planSearch(scope, parameters, rest)
  },

  locksOfInstances({ name, limit, waits, ...whose }, scope) {
    const parameters = new Parameters(scope)
    const one = name === null ? '' : `and t.name = ${parameters.add(name)}`
    const rest = `${ofInstances(whose, parameters)} ${one}\norder by t.name, t.slot\nlimit ${parameters.add(limit)}`
    return planSearch(scope, parameters, rest, waits ? 'wait' : 'skip')
  },
} satisfies Partial<Loaders>
