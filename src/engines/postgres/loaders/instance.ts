/** Incarnations of processes. */
import { type Instance, processesOf } from '../../../domain/instance.ts'
import { instanceCursor, instanceCursorBy, pageOf } from '../../page.ts'
import type { PlanScope, Row } from '../plan.ts'
import { decodeAll, decodeFirst, now, Parameters, query, readableItem, readableLock } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectEnd = `select t.ended_at is not null
from holdfast.instance t
where t.namespace = $1 and t.id = $2`

function registered(agent: string, scope: PlanScope) {
  const parameters = new Parameters(scope)
  const rest = `and t.agent = ${parameters.add(agent)} and t.ended_at is null and t.registered_by is not null
order by t.started_at desc
limit 1`
  return {
    names: [`agent:${agent}`],
    queries: [query(scope, tables.instance, 'wait', rest, parameters)],
    read: ([rows]: readonly (readonly Row[])[]) => decodeFirst<Instance>(tables.instance, rows),
  }
}

export const instanceLoaders = {
  instances({ ids }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(${parameters.add(ids)})\norder by t.id`
    return {
      names: ids.map((id) => `instance:${id}`),
      queries: ids.length === 0 ? [] : [query(scope, tables.instance, 'wait', rest, parameters)],
      read: ([rows]) => decodeAll<Instance>(tables.instance, rows),
    }
  },

  processes({ instances }, scope) {
    const parameters = new Parameters(scope)
    const process = "pid, boot_id, host_name, pid_namespace, coalesce(start_time, '')"
    const isPeer = `(${process}) in (
  select ${process}
  from holdfast.instance
  where namespace = $1 and id = any(${parameters.add(instances)})
)`
    const held = `select i.instance, count(*), count(i.suspected_at)
from holdfast.item i
where i.namespace = $1 and i.phase = 'held' and i.instance = any(array(
  select id from holdfast.instance where namespace = $1 and ${isPeer}
))
group by i.instance`
    return {
      // Locked before counting, so that two that take from one process see each other's record of its loss.
      queries: [
        query(scope, tables.instance, 'wait', `and ${isPeer}\norder by t.id`, parameters),
        { text: held, values: parameters.values },
      ],
      searched: ['instance', 'item'],
      read([rows, counts]) {
        const holds = (counts ?? []).map(
          ([id, items, suspects]) =>
            [id as string, { items: Number(items), suspects: Number(suspects) }] as const,
        )
        return processesOf(decodeAll<Instance>(tables.instance, rows), new Map(holds))
      },
    }
  },

  runningInstances({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.ended_at is null\norder by t.started_at\nlimit ${parameters.add(limit)}`
    return {
      // Only looked at: a command that ends an instance names it.
      queries: [query(scope, tables.instance, 'none', rest, parameters)],
      searched: ['instance'],
      read: ([rows]) => decodeAll<Instance>(tables.instance, rows),
    }
  },

  machineInstances({ machine, pid, otherBoots, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const bootId = parameters.add(machine.bootId)
    const others = otherBoots ? `or t.boot_id <> ${bootId}` : ''
    const one = pid === null ? '' : `and t.pid = ${parameters.add(pid)}`
    const [startedAt, id] = instanceCursor(after)
    const rest = `and t.ended_at is null and (t.boot_id = ${bootId} and t.host_name = ${parameters.add(machine.hostName)} and t.pid_namespace = ${parameters.add(machine.pidNamespace)} ${others}) ${one}
and (t.started_at, t.id) > (${parameters.add(startedAt)}, ${parameters.add(id)})
order by t.started_at, t.id
limit ${parameters.add(limit + 1)}`
    return {
      // Only looked at: a command that ends an instance names it.
      queries: [query(scope, tables.instance, 'none', rest, parameters)],
      searched: ['instance'],
      read: ([rows]) =>
        pageOf(decodeAll<Instance>(tables.instance, rows), limit, instanceCursorBy('startedAt')),
    }
  },

  silentInstances({ silentMs, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const [seenAt, id] = instanceCursor(after)
    const rest = `and t.ended_at is null and t.seen_at is not null and t.seen_at < ${now} - ${parameters.add(silentMs)}
and (t.seen_at, t.id) > (${parameters.add(seenAt)}, ${parameters.add(id)})
order by t.seen_at, t.id
limit ${parameters.add(limit + 1)}`
    return {
      queries: [query(scope, tables.instance, 'none', rest, parameters)],
      searched: ['instance'],
      read: ([rows]) => pageOf(decodeAll<Instance>(tables.instance, rows), limit, instanceCursorBy('seenAt')),
    }
  },

  heldByInstances({ instances }, scope) {
    const parameters = new Parameters(scope)
    const theirs = `where t.namespace = $1 and t.instance = any(${parameters.add(instances)})`
    // Nothing is locked or skipped: what somebody else is working on is held too. A damaged row cannot be given back,
    // so it must not keep its instance from ending.
    const text = `select h.instance, count(*)
from (
  select t.instance from holdfast.item t ${theirs} and t.phase = 'held' ${readableItem}
  union all
  select t.instance from holdfast.lock t ${theirs} ${readableLock}
  union all
  select t.instance from holdfast.lock_waiter t ${theirs}
  union all
  select t.instance from holdfast.delivery t ${theirs} and t.agent is not null
) h
group by h.instance`
    return {
      queries: instances.length === 0 ? [] : [{ text, values: parameters.values }],
      searched: ['item', 'lock', 'waiter', 'delivery'],
      read: ([rows]) =>
        (rows ?? []).map(([instance, count]) => ({ instance: String(instance), count: Number(count) })),
    }
  },

  // On a server, another boot id proves nothing, however old.
  awakeTimes: () => ({ queries: [], read: () => [] }),

  endedHolders({ after, limit }, scope) {
    const parameters = new Parameters(scope)
    const [endedAt, id] = instanceCursor(after)
    const rest = `and t.ended_at is not null and (t.ended_at, t.id) > (${parameters.add(endedAt)}, ${parameters.add(id)})
and t.id in (
  select h.instance from holdfast.item h where h.namespace = $1 and h.phase = 'held'
  union all
  select h.instance from holdfast.lock h where h.namespace = $1
  union all
  select h.instance from holdfast.lock_waiter h where h.namespace = $1
  union all
  select h.instance from holdfast.delivery h where h.namespace = $1 and h.agent is not null
)
order by t.ended_at, t.id
limit ${parameters.add(limit + 1)}`
    return {
      // Only looked at: a command that takes from them names them.
      queries: [query(scope, tables.instance, 'none', rest, parameters)],
      searched: ['instance', 'item', 'lock', 'waiter', 'delivery'],
      read: ([rows]) =>
        pageOf(decodeAll<Instance>(tables.instance, rows), limit, instanceCursorBy('endedAt')),
    }
  },

  claimant({ agent, instance }, scope) {
    if (instance === null) {
      const { read, ...plan } = registered(agent, scope)
      return { ...plan, read: (answers) => ({ instance: read(answers)?.id ?? null, hasEnded: false }) }
    }
    return {
      // Not locked: a process that ends it meanwhile frees what it holds then, and its own beats do not have to wait.
      queries: [{ text: selectEnd, values: [scope.namespace, instance] }],
      read: ([rows]) => ({ instance, hasEnded: rows?.[0]?.[0] === true }),
    }
  },

  registeredInstance: ({ agent }, scope) => registered(agent, scope),

  instancesEndedBefore({ before, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.ended_at <= ${parameters.add(before)}\norder by t.ended_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.instance, 'skip', rest, parameters)],
      searched: ['instance'],
      read: ([rows]) => decodeAll<Instance>(tables.instance, rows),
    }
  },
} satisfies Partial<Loaders>
