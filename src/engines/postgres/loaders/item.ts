/** Items by id, by key, by lease, by time. */
import { sumByName } from '../../../domain/count.ts'
import type { Item, Phase } from '../../../domain/item.ts'
import type { QueueCounts } from '../../../port/queue.ts'
import { planItems } from '../list.ts'
import { blockersName, dedupeKeyName, keyName } from '../names.ts'
import { NoSuchId, noneLapsed, type Plan, type PlanScope } from '../plan.ts'
import {
  decodeAll,
  decodeReadable,
  type Hold,
  now,
  ofInstances,
  Parameters,
  query,
  readableItem,
  unspared,
  wall,
} from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** Items that others still wait for stay, or nobody could say why those wait. */
const unneeded =
  'and not exists (select 1 from holdfast.blocker b where b.namespace = $1 and b.blocker = i.id)'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

const phases: readonly Phase[] = ['ready', 'suspect', 'waiting', 'held', 'closed']

/** The open one, else the one added last. */
function lastOf(items: readonly Item[]): Item | null {
  const [first] = items.toSorted(
    (left, right) =>
      Number(left.phase === 'closed') - Number(right.phase === 'closed') ||
      right.addedAt - left.addedAt ||
      (right.id < left.id ? -1 : 1),
  )
  return first ?? null
}

function byKey(items: readonly Item[], queue: string, key: string): Item[] {
  return items.filter((item) => item.queue === queue && item.key === key)
}

function byDedupeKey(items: readonly Item[], queue: string, dedupeKey: string): Item[] {
  return items.filter((item) => item.queue === queue && item.dedupeKey === dedupeKey)
}

function openOf(items: readonly Item[]): Item | null {
  return items.find(({ phase }) => phase !== 'closed') ?? null
}

/** Items that a condition finds. Damaged ones are left out before they are counted against a limit. */
function planSearch(
  scope: PlanScope,
  parameters: Parameters,
  rest: string,
  hold: Hold = 'skip',
): Plan<readonly Item[]> {
  return {
    queries: [query(scope, tables.item, hold, `${readableItem} ${rest}`, parameters)],
    searched: ['item'],
    read: ([rows]) => decodeReadable<Item>(tables.item, rows),
  }
}

export const itemLoaders = {
  item({ queue, ref, stacks }, { locks, alsoSearchesKeys }) {
    const isId = uuid.test(ref)
    // Most refs are ids, and searching the keys as well would double the cost.
    const isNarrow = isId && locks && !alsoSearchesKeys
    return {
      ...(stacks ? { sharedNames: [blockersName] } : {}),
      items: { ids: isId ? [ref] : [], keys: queue === null || isNarrow ? [] : [{ queue, key: ref }] },
      queries: [],
      read(_, items) {
        const byId = items.find(({ id }) => isId && id === ref)
        if (byId) return queue === null || byId.queue === queue ? byId : null
        if (queue === null) return null
        if (isNarrow) throw new NoSuchId()
        return lastOf(byKey(items, queue, ref))
      },
    }
  },

  itemsById: ({ ids }) => ({
    items: { ids },
    queries: [],
    read: (_, items) => items.filter(({ id }) => ids.includes(id)),
  }),

  openItemByKey: ({ queue, key }) => ({
    names: [keyName(queue, key)],
    items: { keys: [{ queue, key }] },
    queries: [],
    read: (_, items) => openOf(byKey(items, queue, key)),
  }),

  openItemByDedupeKey: ({ queue, dedupeKey }) => ({
    names: [dedupeKeyName(queue, dedupeKey)],
    items: { dedupeKeys: [{ queue, dedupeKey }] },
    queries: [],
    read: (_, items) => openOf(byDedupeKey(items, queue, dedupeKey)),
  }),

  lastItemByDedupeKey: ({ queue, dedupeKey }) => ({
    names: [dedupeKeyName(queue, dedupeKey)],
    items: { dedupeKeys: [{ queue, dedupeKey }] },
    queries: [],
    read: (_, items) => lastOf(byDedupeKey(items, queue, dedupeKey)),
  }),

  itemsByKey({ key, limit }, scope) {
    const parameters = new Parameters(scope)
    const inQueue = `from holdfast.item i where i.namespace = $1 and i.queue = q.name and i.key = ${parameters.add(key)}`
    const rest = `and t.id = any(array(
  select last.id
  from holdfast.queue q
  cross join lateral (
    select coalesce(
      (select i.id ${inQueue} and i.phase <> 'closed'),
      (select i.id ${inQueue} order by i.added_at desc, i.id desc limit 1)
    ) as id
  ) last
  where q.namespace = $1 and last.id is not null
  limit ${parameters.add(limit)}
))`
    return planSearch(scope, parameters, rest, 'none')
  },

  lockedItems({ name }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(array(select l.item from holdfast.lock l where l.namespace = $1 and l.name = ${parameters.add(name)} and l.item is not null))\norder by t.id`
    return {
      names: [`lock:${name}`],
      queries: [query(scope, tables.item, 'wait', rest, parameters)],
      searched: ['item', 'lock'],
      read: ([rows]) => decodeAll<Item>(tables.item, rows),
    }
  },

  lapsedItems({ queues, limit }, scope) {
    if (scope.isDoubtful) return noneLapsed
    const parameters = new Parameters(scope)
    const some = queues === null ? '' : `and t.queue = any(${parameters.add(queues)})`
    const rest = `and t.phase = 'held' and coalesce(t.expires_at, 0) < ${now} ${unspared(scope.manualGraceMs, 'coalesce(t.expires_at, 0)')} ${some}\norder by coalesce(t.expires_at, 0)\nlimit ${parameters.add(limit)}`
    return planSearch(scope, parameters, rest)
  },

  itemsOfInstances({ queue, limit, waits, ...whose }, scope) {
    const parameters = new Parameters(scope)
    const one = queue === null ? '' : `and t.queue = ${parameters.add(queue)}`
    const rest = `and t.phase = 'held' ${ofInstances(whose, parameters)} ${one}\norder by t.id\nlimit ${parameters.add(limit)}`
    return planSearch(scope, parameters, rest, waits ? 'wait' : 'skip')
  },

  silentItems({ queue, thresholdMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const lastSign = 'greatest(coalesce(t.granted_at, 0), coalesce(t.renewed_at, 0))'
    const rest = `and t.phase = 'held' and t.queue = ${parameters.add(queue)} and ${lastSign} <= ${now} - ${parameters.add(thresholdMs)}\norder by ${lastSign}\nlimit ${parameters.add(limit)}`
    return planSearch(scope, parameters, rest)
  },

  dueItems({ queues, limit }, scope) {
    const parameters = new Parameters(scope)
    const some = queues === null ? '' : `and t.queue = any(${parameters.add(queues)})`
    const rest = `and t.run_at <= ${wall} ${some} ${readableItem}\norder by t.run_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.item, 'skip', rest, parameters)],
      searched: ['item'],
      read: ([rows]) => decodeAll<Item>(tables.item, rows),
    }
  },

  nextDueAt: ({ queue }, scope) => ({
    queries: [
      {
        text: `select t.run_at from holdfast.item t where t.namespace = $1 and t.queue = $2 and t.run_at is not null ${readableItem} order by t.run_at limit 1`,
        values: [scope.namespace, queue],
      },
    ],
    // Only advice for those who wait; an item that the same batch delays wakes them by itself.
    searched: [],
    read: ([rows]) => (rows?.[0]?.[0] ?? null) as number | null,
  }),

  items: planItems,

  counts: ({ queue }, scope) => ({
    queries: [
      {
        // One by one, because each phase has its own index.
        text: phases
          .map(
            (phase) =>
              `select '${phase}', t.state, count(*) from holdfast.item t where t.namespace = $1 and t.queue = $2 and t.phase = '${phase}' group by t.state`,
          )
          .join('\nunion all\n'),
        values: [scope.namespace, queue],
      },
      {
        text: 'select t.state, count(*) from holdfast.item t where t.namespace = $1 and t.queue = $2 and t.quarantined_at is not null group by t.state',
        values: [scope.namespace, queue],
      },
      {
        text: `select least(
  (select min(t.added_at) from holdfast.item t where t.namespace = $1 and t.queue = $2 and t.phase = 'ready'),
  (select min(t.added_at) from holdfast.item t where t.namespace = $1 and t.queue = $2 and t.phase = 'suspect')
)`,
        values: [scope.namespace, queue],
      },
    ],
    searched: ['item'],
    read([states, quarantined, oldest]): QueueCounts {
      const byPhase: Record<Phase, number> = { ready: 0, suspect: 0, waiting: 0, held: 0, closed: 0 }
      for (const [phase, , count] of states ?? []) byPhase[phase as Phase] += Number(count)
      return {
        byState: sumByName((states ?? []).map(([, state, count]) => [String(state), Number(count)])),
        byPhase,
        quarantinedByState: sumByName(
          (quarantined ?? []).map(([state, count]) => [String(state), Number(count)]),
        ),
        oldestReadyAt: (oldest?.[0]?.[0] ?? null) as number | null,
      }
    },
  }),

  closedBefore({ queue, before, limit }, scope) {
    const parameters = new Parameters(scope)
    const one = queue === null ? '' : `and q.name = ${parameters.add(queue)}`
    const most = parameters.add(limit)
    // Queue by queue, because each has its closed items in order: one search over all queues would sort everything.
    const rest = `and t.phase = 'closed' and t.id = any(array(
  select closed.id
  from holdfast.queue q
  cross join lateral (
    select i.id, i.closed_at
    from holdfast.item i
    where i.namespace = $1 and i.queue = q.name and i.phase = 'closed' and i.closed_at <= ${parameters.add(before)} ${unneeded}
    order by i.closed_at, i.id
    limit ${most}
  ) closed
  where q.namespace = $1 ${one}
  order by closed.closed_at, closed.id
  limit ${most}
))`
    return {
      queries: [query(scope, tables.item, 'skip', rest, parameters)],
      searched: ['item'],
      read: ([rows]) =>
        decodeAll<Item>(tables.item, rows).sort(
          (left, right) => (left.closedAt ?? 0) - (right.closedAt ?? 0) || (left.id < right.id ? -1 : 1),
        ),
    }
  },
} satisfies Partial<Loaders>
