/** How rows as the rules see them are read from PostgreSQL; every table is aliased `t` where its rows are selected. */
import { rowOf } from '../row.ts'
import { type Schema, schema, type TableName } from '../schema.ts'
import type { Row } from './plan.ts'

export const tables: { readonly [Name in TableName]: Schema } = schema

/** Words that PostgreSQL reserves unless they are quoted. */
const reserved = new Set(['user'])

export function columnName(column: string): string {
  return reserved.has(column) ? `"${column}"` : column
}

/**
 * The transaction that wrote a row, if it seems to have begun to write after the one that reads it; else null.
 * Transaction numbers wrap around, so a row that has not changed for two billion of them may seem to come from the
 * future. Only as many count as can have begun since, and only once: see `Batch`.
 */
export function youngerWriter(table: string): string {
  return `case when age(${table}.xmin) between -1000000 and -1 then ${table}.xmin::text end`
}

/** The same for all rows of a group, separated by spaces. */
export function youngerWriters(table: string): string {
  return `string_agg(${youngerWriter(table)}, ' ')`
}

const lists = new Map<Schema, string>()

/** All columns in the order of the table's fields, then the writer of the row if it is younger than the reader. */
export function columnsOf(table: Schema): string {
  const known = lists.get(table)
  if (known !== undefined) return known
  const columns = table.columns.map((column) => `t.${columnName(column)}`)
  const list = [...columns, youngerWriter('t')].join(', ')
  lists.set(table, list)
  return list
}

/** The index at which `columnsOf` returns a younger writer. */
export function youngerAt(table: Schema): number {
  return table.columns.length
}

/** A row as the rules see it; `from` is the index of its first column. Throws for damaged JSON. */
export function decode<Result>(table: Schema, values: Row, from = 0): Result {
  return rowOf<Result>(table, values, from)
}
