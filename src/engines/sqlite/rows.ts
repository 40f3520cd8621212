/** Rows as the rules see them, read from a connection at a moment. */
import type { Item } from '../../domain/item.ts'
import type { Outage } from '../../domain/outage.ts'
import { isHoldfastError } from '../../errors.ts'
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
  /** When others last kept this process from writing for long. */
  readonly outage: Outage | null
  /** How long leases that nobody renews are spared after their end. */
  readonly manualGraceMs: number
  readonly known: RowCache
}

/** One column a row, packed as a JSON array: the driver pays for every column it hands over. */
export function packed(table: Table): string {
  return `json_array(${table.columns.map((column) => `${table.name}.${column}`).join(', ')})`
}

export function select(table: Table): string {
  return `select ${packed(table)}\nfrom ${table.name}`
}

/** By an index that the planner, which knows no counts, would pass over for one that reads everything there is. */
export function selectBy(table: Table, index: string): string {
  return `${select(table)} indexed by ${index}`
}

/** A list as one parameter, for `in (select value from json_each(?))`. */
export function inList(values: readonly string[]): string {
  return JSON.stringify(values)
}

/** Without leases that nobody renews and that the store still spares; nothing where it spares none. */
export function unspared({ manualGraceMs }: Source, expiry: string, unless = ''): string {
  return manualGraceMs === 0 ? '' : `and (instance is not null ${unless} or ${expiry} < ?)`
}

/** The value that goes with it. */
export function sparedUntil({ now, manualGraceMs }: Source): bigint[] {
  return manualGraceMs === 0 ? [] : [BigInt(now - manualGraceMs)]
}

/** Ids of all instances of the processes whose instances these are; the cross join keeps the planner from all others. */
export function peersOf(ids: string): string {
  return `select peer.id
from instance as own cross join instance as peer indexed by instance_process
where own.namespace = ?1 and own.id ${ids} and peer.namespace = ?1 and peer.pid = own.pid
and peer.boot_id = own.boot_id and peer.host_name = own.host_name and peer.pid_namespace = own.pid_namespace
and peer.start_time is own.start_time`
}

const selectItem = select(tables.item)
const itemQueries = new Map<string, string>()
/** Limits are part of a text. */
const maxItemQueries = 1000

/** The whole text of a query, made once: looking a statement up by a long new string costs as much as running it. */
function itemQuery(where: string): string {
  const known = itemQueries.get(where)
  if (known !== undefined) return known
  const text = `${selectItem}\n${where}`
  if (itemQueries.size >= maxItemQueries) itemQueries.clear()
  itemQueries.set(where, text)
  return text
}

/**
 * `where` begins with the namespace; the other values follow in order. Limits are written into the text: SQLite
 * prepares a statement with a bound limit anew at every run, ten times the cost of running it.
 */
export function items(source: Source, where: string, ...values: Value[]): Item[] {
  const query = (text: string) =>
    source.connection
      .all(itemQuery(text), source.namespace, ...values)
      .map((row) => decode<Item>(tables.item, row))
  try {
    return query(where)
  } catch (error) {
    if (!isHoldfastError(error)) throw error
    // One of them is damaged: it is set aside, and others come in its place.
    return query(withReadable(where))
  }
}

/** A row whose JSON was damaged cannot be decided on; it must not keep others from healing. */
export const readable =
  'and json_valid(data) and json_valid(waiting_for) and json_valid(ancestors) and json_valid(blockers)'

/** The condition stands before what orders and limits the rows, which begins a line. */
function withReadable(where: string): string {
  const end = /\n(?:order by|limit) /.exec(where)?.index ?? where.length
  return `${where.slice(0, end)} ${readable}${where.slice(end)}`
}

export function item(source: Source, where: string, ...values: Value[]): Item | null {
  const row = source.connection.get(itemQuery(where), source.namespace, ...values)
  return row ? decode<Item>(tables.item, row) : null
}
