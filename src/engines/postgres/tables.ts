/** How rows of the rules are read from PostgreSQL; every table is called `t` where its rows are selected. */
import { rowOf } from '../row.ts'
import { type Schema, schema, type TableName } from '../schema.ts'
import type { Row } from './plan.ts'

export const tables: { readonly [Name in TableName]: Schema } = schema

/** Words PostgreSQL takes for its own unless they are in quotes. */
const reserved = new Set(['user'])

export function columnName(column: string): string {
  return reserved.has(column) ? `"${column}"` : column
}

/**
 * Whether a row was written by a transaction that began to write after the one that reads it. Numbers of transactions
 * run in a circle: a row that has not changed for two thousand million of them would seem to come from the future, so
 * only as many count as can have begun since.
 */
export function isYounger(table: string): string {
  return `age(${table}.xmin) between -1000000 and -1`
}

const lists = new Map<Schema, string>()

/** All columns in the order of the table's fields, and whether the row is younger than its reader. */
export function columnsOf(table: Schema): string {
  const known = lists.get(table)
  if (known !== undefined) return known
  const columns = table.columns.map((column) => `t.${columnName(column)}`)
  const list = [...columns, isYounger('t')].join(', ')
  lists.set(table, list)
  return list
}

/** Where `columnsOf` says whether a row is younger. */
export function youngerAt(table: Schema): number {
  return table.columns.length
}

/** A row as the rules see it; `from` is the place of its first column. Throws for damaged JSON. */
export function decode<Result>(table: Schema, values: Row, from = 0): Result {
  return rowOf<Result>(table, values, from)
}
