/** Rows as the rules see them, read from one connection at one point in time. */
import type { Item } from '../../domain/item.ts'
import type { Outage } from '../../domain/outage.ts'
import { isHoldfastError } from '../../errors.ts'
import type { OfInstances } from '../../port/instance.ts'
import { QueryTexts } from '../query-texts.ts'
import { isTooLong } from './classify.ts'
import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import type { RowCache } from './row-cache.ts'
import { decode, type Table, tables } from './tables.ts'

export interface Source {
  readonly connection: Connection
  readonly namespace: string
  /** Lease clock. */
  readonly now: number
  readonly wall: number
  /** When others last kept this process from writing for a long time. */
  readonly outage: Outage | null
  /** How long leases that nobody renews are spared after they expire. */
  readonly manualGraceMs: number
  readonly known: RowCache
}

/** One JSON array per row: the driver charges for every column it returns. */
export function packed(table: Table): string {
  return `json_array(${table.columns.map((column) => `${table.name}.${column}`).join(', ')})`
}

export function select(table: Table): string {
  return `select ${packed(table)}\nfrom ${table.name}`
}

/** Forces an index. The planner has no statistics and would choose one that reads everything. */
export function selectBy(table: Table, index: string): string {
  return `${select(table)} indexed by ${index}`
}

/** A list as a single parameter, for `in (select value from json_each(?))`. */
export function inList(values: readonly string[]): string {
  return JSON.stringify(values)
}

/** What these processes hold, all of it or one agent's; two parameters. */
export const ofInstances = 'and instance in (select value from json_each(?)) and agent is coalesce(?, agent)'

export function ofInstancesValues({
  instances,
  agent,
}: Pick<OfInstances, 'instances' | 'agent'>): [string, string | null] {
  return [inList(instances), agent ?? null]
}

/** Excludes leases that nobody renews and that the store still spares; empty if it spares none. */
export function unspared({ manualGraceMs }: Source, expiry: string, unless = ''): string {
  return manualGraceMs === 0 ? '' : `and (instance is not null ${unless} or ${expiry} < ?)`
}

/** The parameter for `unspared`. */
export function sparedUntil({ now, manualGraceMs }: Source): bigint[] {
  return manualGraceMs === 0 ? [] : [BigInt(now - manualGraceMs)]
}

/**
 * The ids of all instances of the processes that these instances belong to. The cross join keeps the planner from
 * reading all other instances.
 */
export function peersOf(ids: string): string {
  return `select peer.id
from instance as own cross join instance as peer indexed by instance_process
where own.namespace = ?1 and own.id ${ids} and peer.namespace = ?1 and peer.pid = own.pid
and peer.boot_id = own.boot_id and peer.host_name = own.host_name and peer.pid_namespace = own.pid_namespace
and peer.start_time is own.start_time`
}

const selectItem = select(tables.item)
const itemQueries = new QueryTexts()

function itemQuery(where: string): string {
  return itemQueries.of(where, () => `${selectItem}\n${where}`)
}

/**
 * `where` starts with the namespace; the other values follow in order. Limits are written into the SQL: SQLite prepares
 * a statement with a bound limit again at every run, at ten times the cost of running it.
 */
export function items(source: Source, where: string, ...values: Value[]): Item[] {
  const query = (text: string) =>
    source.connection
      .all(itemQuery(text), source.namespace, ...values)
      .map((row) => decode<Item>(tables.item, row))
  try {
    return query(where)
  } catch (error) {
    // One of the rows is damaged or too long. Skip it, and let others take its place.
    if (isTooLong(error)) return query(withCondition(where, `${shorterThan(source.connection)} ${readable}`))
    if (isHoldfastError(error)) return query(withCondition(where, readable))
    throw error
  }
}

/** No decision can be made on a row with damaged JSON, and it must not keep others from being healed. */
export const readable =
  'and json_valid(data) and json_valid(waiting_for) and json_valid(ancestors) and json_valid(blockers)'

const longColumns = [
  'payload',
  'data',
  'result',
  'error',
  'progress',
  'progress_at_loss',
  'waiting_for',
  'blockers',
]

/**
 * Only items whose row can be read. Their lengths are in the heads of the rows, so nothing long is read to learn them.
 * Inside a JSON array, a text is at most twice as long; half of the rest is for everything else.
 */
function shorterThan({ maxLength }: Connection): string {
  const length = longColumns.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ')
  return `and ${length} < ${Math.floor(maxLength / 4)}`
}

/** Inserts the condition before the `order by` or `limit` clause, which starts on its own line. */
function withCondition(where: string, condition: string): string {
  const end = /\n(?:order by|limit) /.exec(where)?.index ?? where.length
  return `${where.slice(0, end)} ${condition}${where.slice(end)}`
}

export function item(source: Source, where: string, ...values: Value[]): Item | null {
  const row = source.connection.get(itemQuery(where), source.namespace, ...values)
  return row ? decode<Item>(tables.item, row) : null
}
