/** Rows without repeats: the last of those that share a key, at the position of the first. */
export function uniqueBy<Row>(rows: readonly Row[], keyOf: (row: Row) => string): Row[] {
  return [...new Map(rows.map((row) => [keyOf(row), row])).values()]
}
