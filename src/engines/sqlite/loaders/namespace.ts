/**
 * What is due in any namespace. There is no list of namespaces. Instead, the indexes of what may be due are walked by
 * seeks, one per index and namespace, however many rows there are.
 */
import type { Instance } from '../../../domain/instance.ts'
import { pageOf, processCursor, processCursorOf } from '../../page.ts'
import { QueryTexts } from '../../query-texts.ts'
import { packed, readable, type Source, select } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'
import { readableLock } from './lock.ts'

/** ?2 is the lease clock, ?3 the wall clock, ?4 the lease clock minus the grace for manual leases. */
const lapsed = (expiry: string) => `${expiry} < ?2 and (instance is not null or ${expiry} < ?4)`
const lapsedLock =
  'expires_at < ?2 and (instance is not null or delayed_since is not null or expires_at < ?4)'

/** Where there may be something to heal, and when it is due: the same as what `recovery.run` loads. */
const healed = [
  ["item indexed by item_held where phase = 'held'", `${lapsed('coalesce(expires_at, 0)')} ${readable}`],
  ['item indexed by item_due where run_at is not null', `run_at <= ?3 ${readable}`],
  ['lock indexed by lock_expiry where true', `${lapsedLock} ${readableLock}`],
  ['lock_waiter indexed by lock_waiter_expiry where true', 'expires_at < ?2'],
  ['delivery indexed by delivery_held where agent is not null', 'expires_at < ?2'],
  ['cascade where true', 'true'],
  [
    "run indexed by run_running where status = 'running'",
    `(cursor is null or json_valid(cursor)) and not exists (
  select 1 from lock where lock.namespace = run.namespace and lock.name = run.lock and lock.token = run.token
)`,
  ],
] as const

const beating = 'instance indexed by instance_silent where ended_at is null and seen_at is not null'
const silent = (silentMs: number) => [beating, `seen_at < ?2 - ${silentMs}`] as const

const sent = [
  ['delivery indexed by delivery_due where next_due_at is not null', 'next_due_at <= ?2'],
  [
    'delivery indexed by delivery_expiry where gives_up_at is not null and agent is null',
    'gives_up_at <= ?2',
  ],
  ['message indexed by message_due where due_at is not null', 'due_at <= ?2'],
] as const

type Sources = readonly (readonly [rows: string, isDue: string])[]

function isDueIn(sources: Sources, namespace: string): string {
  return sources
    .map(([rows, isDue]) => `exists (select 1 from ${rows} and namespace = ${namespace} and ${isDue})`)
    .join('\nor ')
}

/** The next namespace, after the given one, in which any of these sources has rows. */
function nextIn(sources: Sources, after: string): string {
  const next = sources.map(([rows]) => `select min(namespace) as name from ${rows} and namespace > ${after}`)
  return `(select min(name) from (${next.join(' union all ')}))`
}

/** The walk starts after ?1. */
function walk(sources: Sources, columns: string, limit: number): string {
  return `with recursive found (name, number) as (
  select ${nextIn(sources, '?1')}, 1
  union all
  select ${nextIn(sources, 'found.name')}, number + 1 from found where name is not null and number < ${limit}
)
select name, ${columns}
from found
where name is not null`
}

function moments({ now, wall, manualGraceMs }: Source): bigint[] {
  return [BigInt(now), BigInt(wall), BigInt(now - manualGraceMs)]
}

const texts = new QueryTexts()

const dueHere = `select ${isDueIn(healed, '?1')}`

export const namespaceLoaders = {
  isHealingDue: (source) => source.connection.get(dueHere, source.namespace, ...moments(source))?.[0] === 1,

  dueNamespaces(source, { after, silentMs, limit }) {
    const text = texts.of(`due ${silentMs} ${limit}`, () => {
      const sources = [...healed, silent(silentMs)]
      return walk(sources, isDueIn(sources, 'found.name'), limit)
    })
    const found = source.connection.all(text, after, ...moments(source)) as [string, number][]
    const due = found.filter(([name, isDue]) => isDue === 1 && name !== source.namespace)
    return { due: due.map(([name]) => name), next: found.length < limit ? null : (found.at(-1)?.[0] ?? null) }
  },

  neglectedNamespaces(source, { silentMs, limit }) {
    const text = texts.of(`neglected ${silentMs} ${limit}`, () => {
      const isServed = `exists (select 1 from ${beating} and namespace = found.name and seen_at >= ?2 - ${silentMs})`
      const columns = `${isDueIn(healed, 'found.name')}, (${isDueIn(sent, 'found.name')}) and not ${isServed}`
      return walk([...healed, ...sent], columns, limit)
    })
    const found = source.connection.all(text, '', ...moments(source)) as [string, number, number][]
    return found
      .map(([namespace, healing, sending]) => ({
        namespace,
        isHealingDue: healing === 1,
        isSendingDue: sending === 1,
      }))
      .filter((each) => each.namespace !== source.namespace && (each.isHealingDue || each.isSendingDue))
  },

  healers: (source, { machine, silentMs, limit }) =>
    source.connection
      .all(
        `${select(tables.instance)} indexed by instance_healer
where boot_id = ? and host_name = ? and pid_namespace = ? and ended_at is null and swept_at is not null and seen_at >= ?
order by started_at, id
limit ${limit}`,
        machine.bootId,
        machine.hostName,
        machine.pidNamespace,
        BigInt(source.now - silentMs),
      )
      .map((row) => decode<Instance>(tables.instance, row)),

  otherProcesses(source, { machine, otherBoots, after, limit }) {
    const others = otherBoots ? 'or instance.boot_id <> ?2' : ''
    const [namespace, startedAt, id] = processCursor(after)
    const rows = source.connection.all(
      `select ${packed(tables.instance)}, namespace, instance.seen_at - clock.offset_ms
from instance indexed by instance_running left join lease_clock clock on clock.boot_id = instance.boot_id
where instance.ended_at is null and namespace <> ?1
and (instance.boot_id = ?2 and instance.host_name = ?3 and instance.pid_namespace = ?4 ${others})
and (namespace, started_at, id) > (?5, ?6, ?7)
order by namespace, started_at, id
limit ${limit + 1}`,
      source.namespace,
      machine.bootId,
      machine.hostName,
      machine.pidNamespace,
      namespace,
      BigInt(startedAt),
      id,
    )
    const found = rows.map(([row, name, awakeAt]) => ({
      namespace: String(name),
      instance: decode<Instance>(tables.instance, [row]),
      awakeAt: awakeAt as number | null,
    }))
    return pageOf(found, limit, processCursorOf)
  },
} satisfies Partial<Loaders>
