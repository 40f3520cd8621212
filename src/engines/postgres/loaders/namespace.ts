/**
 * What is due in any namespace. There is no list of namespaces: the indexes of what may be due are walked by seeks, one
 * per index and namespace, however many rows there are.
 */
import type { Instance } from '../../../domain/instance.ts'
import { pageOf, processCursor, processCursorOf } from '../../page.ts'
import { type DueSource, endedDelays, isDueIn, lapsedLeases, orphanedRuns, otherLosses } from '../due.ts'
import type { PlanScope } from '../plan.ts'
import { decodeAll, now, Parameters } from '../rows.ts'
import { columnsOf, decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

/** What may need healing, and when: the same as what `recovery.run` loads. */
function healed({ manualGraceMs, isDoubtful }: PlanScope): DueSource[] {
  // While the clock is in doubt, nothing counts as lapsed.
  const lapsed = isDoubtful ? [] : [...lapsedLeases(manualGraceMs), ...otherLosses]
  return [...lapsed, ...endedDelays, orphanedRuns]
}

const beating = 't.ended_at is null and t.seen_at is not null'

const silent = (silentMs: string): DueSource => ({
  table: 'instance',
  rows: beating,
  isDue: `t.seen_at < ${now} - ${silentMs}`,
  order: 't.seen_at',
})

const sent: readonly DueSource[] = [
  {
    table: 'delivery',
    rows: 't.next_due_at is not null',
    isDue: `t.next_due_at <= ${now}`,
    order: 't.adapter, t.next_due_at',
  },
  {
    table: 'delivery',
    rows: 't.gives_up_at is not null and t.agent is null',
    isDue: `t.gives_up_at <= ${now}`,
    order: 't.gives_up_at',
  },
  { table: 'message', rows: 't.due_at is not null', isDue: `t.due_at <= ${now}`, order: 't.due_at' },
]

/** The next namespace after a given one in which any of these has rows. */
function nextIn(sources: readonly DueSource[], after: string): string {
  const next = sources.map(
    ({ table, rows }) =>
      `(select t.namespace from holdfast.${table} t where ${rows} and t.namespace > ${after} order by t.namespace limit 1)`,
  )
  return `least(${next.join(',\n')})`
}

function walk(
  sources: readonly DueSource[],
  { after, columns, limit }: { after: string; columns: string; limit: string },
): string {
  return `with recursive found (name, number) as (
  select ${nextIn(sources, after)}, 1
  union all
  select ${nextIn(sources, 'f.name')}, f.number + 1 from found f where f.name is not null and f.number < ${limit}
)
select found.name, found.name <> $1, ${columns}
from found
where found.name is not null
order by found.number`
}

export const namespaceLoaders = {
  isHealingDue: (_, scope) => ({
    queries: [{ text: `select ${isDueIn(healed(scope), '$1')}`, values: [scope.namespace] }],
    read: ([rows]) => rows?.[0]?.[0] === true,
  }),

  dueNamespaces({ after, silentMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const sources = [...healed(scope), silent(parameters.add(silentMs))]
    const text = walk(sources, {
      after: `${parameters.add(after)}::text`,
      columns: isDueIn(sources, 'found.name'),
      limit: parameters.add(limit),
    })
    return {
      queries: [{ text, values: parameters.values }],
      read([rows = []]) {
        const due = rows.filter(([, isOther, isDue]) => isOther === true && isDue === true)
        const last = rows.at(-1)?.[0]
        return { due: due.map(([name]) => String(name)), next: rows.length < limit ? null : String(last) }
      },
    }
  },

  neglectedNamespaces({ silentMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const since = `${now} - ${parameters.add(silentMs)}`
    const isServed = `exists (select 1 from holdfast.instance t where t.namespace = found.name and ${beating} and t.seen_at >= ${since})`
    const text = walk([...healed(scope), ...sent], {
      after: "''",
      columns: `${isDueIn(healed(scope), 'found.name')}, (${isDueIn(sent, 'found.name')}) and not ${isServed}`,
      limit: parameters.add(limit),
    })
    return {
      queries: [{ text, values: parameters.values }],
      read: ([rows = []]) =>
        rows
          .filter(([, isOther]) => isOther === true)
          .map(([namespace, , healing, sending]) => ({
            namespace: String(namespace),
            isHealingDue: healing === true,
            isSendingDue: sending === true,
          }))
          .filter(({ isHealingDue, isSendingDue }) => isHealingDue || isSendingDue),
    }
  },

  healers({ machine, silentMs, limit }) {
    const { bootId, hostName, pidNamespace } = machine
    const text = `select ${columnsOf(tables.instance)}
from holdfast.instance t
where t.boot_id = $1 and t.host_name = $2 and t.pid_namespace = $3 and t.ended_at is null and t.swept_at is not null
and t.seen_at >= ${now} - $4
order by t.started_at, t.id
limit $5`
    return {
      queries: [{ text, values: [bootId, hostName, pidNamespace, silentMs, limit] }],
      read: ([rows]) => decodeAll<Instance>(tables.instance, rows),
    }
  },

  otherProcesses({ machine, otherBoots, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const bootId = parameters.add(machine.bootId)
    const others = otherBoots ? `or t.boot_id <> ${bootId}` : ''
    const from = processCursor(after).map((value) => parameters.add(value))
    const text = `select t.namespace, ${columnsOf(tables.instance)}
from holdfast.instance t
where t.namespace <> $1 and t.ended_at is null
and (t.boot_id = ${bootId} and t.host_name = ${parameters.add(machine.hostName)} and t.pid_namespace = ${parameters.add(machine.pidNamespace)} ${others})
and (t.namespace, t.started_at, t.id) > (${from.join(', ')})
order by t.namespace, t.started_at, t.id
limit ${parameters.add(limit + 1)}`
    return {
      queries: [{ text, values: parameters.values }],
      read([rows = []]) {
        const found = rows.map(([namespace, ...columns]) => ({
          namespace: String(namespace),
          instance: decode<Instance>(tables.instance, columns),
          // On a server, another boot id proves nothing, however old.
          awakeAt: null,
        }))
        return pageOf(found, limit, processCursorOf)
      },
    }
  },
} satisfies Partial<Loaders>
