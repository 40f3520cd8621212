/**
 * The port for carrying a whole store from one engine to another. An engine hands out rows as they are stored and takes
 * them as they come; the layer above decides what is carried, in which order, and what to trust. Rows are not decoded
 * as the rules would: damaged ones are carried too.
 */
import { HoldfastError } from '../errors.ts'
import { eventKindOf } from './event-row.ts'
import type { Kind } from './row-code.ts'
import { type Schema, schema, type TableName } from './schema.ts'

export type Cell = string | number | null
/** The values of a table's columns, in column order. */
export type TransferRow = readonly Cell[]

export interface TransferColumn {
  readonly name: string
  readonly field: string
  readonly kind: Kind
}

export interface TransferTable {
  /** The table's name in both engines. */
  readonly name: string
  /** The rules' name for it; null for tables that only engines know. */
  readonly rows: TableName | null
  /** The namespace first. */
  readonly columns: readonly TransferColumn[]
  /** Indexes of the columns that identify a row, in the order in which rows are read; the namespace first. */
  readonly key: readonly number[]
}

/** The key of the last row carried. */
export type Position = readonly Cell[]

/** What a copy writes into the stores it works on (see `marks.ts`), and options of the store itself. */
export type MarkName = 'store_id' | 'copy' | 'moved' | 'manual_grace_ms'

export interface TransferPage {
  readonly table: TransferTable
  readonly rows: readonly TransferRow[]
  /** The value the mark `copy` must have, and the one it gets. */
  readonly before: string
  readonly after: string
}

/** One end of a copy. Nothing is touched before `look` or `hold`. */
export interface Transfer {
  readonly engine: 'sqlite' | 'postgres'
  /** For display, without a password. */
  readonly location: string
  /** Whether there is a store; throws if something else is there. */
  exists(): Promise<boolean>
  /** Begins a read-only transaction that blocks no writer. The store must exist. */
  look(): Promise<void>
  /** Begins a transaction during which nobody else can write. Creates or migrates the store in it. */
  hold(): Promise<void>
  commit(): Promise<void>
  /** Throws if others who open the store would not find what was written here. */
  assertThere(): void
  /** Ends the transaction, if there is one, and leaves no trace. */
  rollBack(): Promise<void>
  /** The lease clock. */
  leaseNow(): Promise<number>
  wallNow(): Promise<number>
  /** The highest sequence number of an event; 0 if there are no events. */
  newestEvent(): Promise<number>
  readMark(name: MarkName): Promise<string | null>
  writeMark(name: MarkName, value: string): Promise<void>
  countRows(table: TransferTable): Promise<number>
  /** The next rows after a position, in key order. */
  readRows(table: TransferTable, after: Position | null, limit: number): Promise<readonly TransferRow[]>
  /** Writes a page and the copy's new position in one transaction; refused unless the mark is as expected. */
  carry(page: TransferPage): Promise<void>
  removeAllRows(): Promise<void>
  /** Called after the last row. Whatever the store numbers from now on comes after what was carried. */
  numberOn(): Promise<void>
  close(): Promise<void>
}

const namespace: TransferColumn = { name: 'namespace', field: 'namespace', kind: 'text' }

function ofSchema(name: TableName): TransferTable {
  const { name: table, fields, columns, kindOf, key }: Schema = schema[name]
  const own = fields.map((field, index) => ({
    name: columns[index] as string,
    field,
    kind: kindOf[field] as Kind,
  }))
  // The deliveries of a message are ordered by creation, and only this number records that.
  const made: TransferColumn[] = name === 'delivery' ? [{ name: 'row', field: 'row', kind: 'integer' }] : []
  return tableOf(table, name, [...own, ...made], key)
}

function tableOf(
  name: string,
  rows: TableName | null,
  own: readonly TransferColumn[],
  key: readonly string[],
): TransferTable {
  const columns = [namespace, ...own]
  return {
    name,
    rows,
    columns,
    key: ['namespace', ...key].map((field) => columns.findIndex((column) => column.field === field)),
  }
}

function plainTable(name: string, key: readonly string[], kindOf: Record<string, Kind>): TransferTable {
  const own = Object.entries(kindOf).map(([column, kind]) => ({ name: column, field: column, kind }))
  return tableOf(name, null, own, key)
}

export const eventTable = plainTable('event', ['seq'], eventKindOf)

/** The index of which item waits for which. */
const blockerTable = plainTable('blocker', ['blocker', 'item'], { blocker: 'text', item: 'text' })

/** The index of the words by which ready tasks are found. */
const readyWordTable = plainTable('ready_word', ['field', 'value', 'priority', 'added_at', 'item'], {
  field: 'text',
  value: 'text',
  priority: 'integer',
  added_at: 'integer',
  item: 'text',
})

/** The highest token of any deleted row, per namespace. */
export const floorTable = plainTable('token_floor', [], { floor: 'integer' })

/** Queues come before the items that point to them. Events come last: they make up most of a store. */
export const transferTables: readonly TransferTable[] = [
  ...inOrder(Object.keys(schema) as TableName[]).map(ofSchema),
  blockerTable,
  readyWordTable,
  floorTable,
  eventTable,
]

function inOrder(names: readonly TableName[]): TableName[] {
  const first: TableName[] = ['workflow', 'queue']
  return [...first, ...names.filter((name) => !first.includes(name))]
}

export function positionOf(table: TransferTable, row: TransferRow): Position {
  return table.key.map((index) => row[index] as Cell)
}

/** Someone else has changed the mark: another copy is running, or has started over. */
export function interrupted(location: string): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another copy to ${location} is under way; this one stopped`,
    next: 'wait for that one to finish',
    facts: { location },
  })
}
