/** Builds a row, as the rules see it, from its values in the order of the table's fields. */
import { HoldfastError } from '../errors.ts'
import { parseJson, type Schema } from './schema.ts'

/** Throws for unreadable JSON. `from` is the index of the first value. */
export function rowOf<Row>(
  table: Schema,
  values: readonly unknown[],
  from = 0,
  readJson: typeof parseJson = parseJson,
): Row {
  try {
    return table.code().read(values, from, readJson) as Row
  } catch (cause) {
    throw new DamagedRowError(table, values, from, cause)
  }
}

/** The same for tables whose rules can do without damaged fields: unreadable JSON becomes null. */
export function rowWithoutDamage<Row>(table: Schema, values: readonly unknown[]): Row {
  try {
    return rowOf<Row>(table, values)
  } catch {
    return rowOf<Row>(table, values, 0, parseJsonOrNull)
  }
}

function parseJsonOrNull(text: string | null): unknown {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

export class DamagedRowError extends HoldfastError {
  constructor(table: Schema, values: readonly unknown[], from: number, cause: unknown) {
    const id = table.key.map((field) => values[from + table.fields.indexOf(field)]).join(' ')
    super('STORE_UNFIT', {
      what: `the ${table.name} ${id} was damaged in the store and cannot be read`,
      next: 'restore it from a backup; nothing was changed',
      facts: { table: table.name, id },
      cause,
    })
  }
}
