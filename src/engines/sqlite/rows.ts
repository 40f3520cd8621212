/** Rows as the rules see them, read from a connection at a moment. */
import type { Item } from '../../domain/item.ts'
import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import type { Known } from './known.ts'
import { decode, type Table, tables } from './tables.ts'

export interface Source {
  readonly connection: Connection
  readonly namespace: string
  /** Lease clock. */
  readonly now: number
  readonly wall: number
  readonly known: Known
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

const selectItem = select(tables.item)
const itemQueries = new Map<string, string>()

/** The whole text of a query, made once: looking a statement up by a long new string costs as much as running it. */
function itemQuery(where: string): string {
  const known = itemQueries.get(where)
  if (known !== undefined) return known
  const text = `${selectItem}\n${where}`
  itemQueries.set(where, text)
  return text
}

/**
 * `where` begins with the namespace; the other values follow in order. Limits are written into the text: SQLite
 * prepares a statement with a bound limit anew at every run, ten times the cost of running it.
 */
export function items(source: Source, where: string, ...values: Value[]): Item[] {
  return source.connection
    .all(itemQuery(where), source.namespace, ...values)
    .map((row) => decode<Item>(tables.item, row))
}

export function item(source: Source, where: string, ...values: Value[]): Item | null {
  const row = source.connection.get(itemQuery(where), source.namespace, ...values)
  return row ? decode<Item>(tables.item, row) : null
}
