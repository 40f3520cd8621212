/** SQLite statements, built from the description of each table. */
import { renewalFields } from '../../domain/event.ts'
import { jsonField } from '../difference.ts'
import { rowOf, rowWithoutDamage } from '../row.ts'
import type { Kind } from '../row-code.ts'
import { columnOf, differing, jsonText, replacing, type Schema, schema, type TableName } from '../schema.ts'
import type { Value } from './driver.ts'

export interface Table extends Schema {
  readonly whereAsRead: string
  readonly insert: string
  readonly remove: string
  /** Update statements by the fields they set. */
  readonly updates: UpdateBranch
}

/**
 * A tree with one level for each field an update sets, in the order of the table's fields; the text is at the last
 * node. Walking the tree is cheaper than building a key and looking it up.
 */
interface UpdateBranch {
  readonly next: (UpdateBranch | undefined)[]
  readonly columns: readonly string[]
  text: string | null
}

function tableOf(described: Schema): Table {
  const { name, columns, asRead } = described
  const whereAsRead = `where namespace = ?\n${asRead.map((field) => `and ${columnOf(field)} = ?`).join('\n')}`
  return {
    ...described,
    whereAsRead,
    insert: `insert into ${name} (namespace, ${columns.join(', ')})\nvalues (?${', ?'.repeat(columns.length)})${replacing(described)}`,
    remove: `delete from ${name}\n${whereAsRead}`,
    updates: { next: [], columns: [], text: null },
  }
}

export const tables = Object.fromEntries(
  Object.entries(schema).map(([name, described]) => [name, tableOf(described)]),
) as { readonly [Name in TableName]: Table }

/** Integers are bound as BigInt: some drivers bind every JS number as a floating-point value. */
function encode(kind: Kind, value: unknown): Value {
  if (value === null || value === undefined) return null
  if (kind === 'integer') return BigInt(value as number)
  return kind === 'json' ? jsonText(value) : (value as string)
}

/** The same encoding, for whole rows. */
const encoders = {
  integer: BigInt,
  text: (value: string) => value,
  json: jsonText,
} as const

/** All values of a row, for an insert. */
export function encodeRow({ code }: Table, row: object): Value[] {
  return code().values(row, encoders) as Value[]
}

/** The values that a write must find unchanged. */
export function encodeAsRead({ code }: Table, row: object): Value[] {
  return code().asRead(row, encoders) as Value[]
}

/** Decodes a row from its first column: a JSON array of values in the order of the table's columns. */
export function decode<Row>(table: Table, [packed]: readonly unknown[]): Row {
  return rowOf<Row>(table, JSON.parse(packed as string) as unknown[])
}

/** The same for tables whose rules can do without damaged fields: unreadable JSON becomes null. */
export function decodeDamaged<Row>(table: Table, [packed]: readonly unknown[]): Row {
  return rowWithoutDamage<Row>(table, JSON.parse(packed as string) as unknown[])
}

/** What differs between two rows of a table: the update that writes it, its values, and the same as JSON. */
export interface Difference {
  readonly update: string
  readonly values: Value[]
  /** Without renewal times, which no event records. */
  readonly json: string
}

/** A single pass over the fields, since every change to every row goes through it. Null when the rows are equal. */
export function differenceOf(table: Table, before: object, after: object): Difference | null {
  const now = after as Record<string, unknown>
  let branch = table.updates
  let json = ''
  const values: Value[] = []
  for (const index of differing(table, before, after)) {
    const field = table.fields[index] as string
    const kind = table.kinds[index] as Kind
    const encoded = encode(kind, now[field])
    values.push(encoded)
    if (!renewalFields.has(field)) json += jsonField(json, field, kind, encoded)
    branch = branch.next[index] ?? grow(branch, table, index)
  }
  if (values.length === 0) return null
  branch.text ??= `update ${table.name}\nset ${branch.columns.map((name) => `${name} = ?`).join(', ')}\n${table.whereAsRead}`
  return { update: branch.text, values, json: `{${json}}` }
}

function grow(branch: UpdateBranch, table: Table, index: number): UpdateBranch {
  const columns = [...branch.columns, table.columns[index] as string]
  const grown = { next: [], columns, text: null }
  branch.next[index] = grown
  return grown
}
