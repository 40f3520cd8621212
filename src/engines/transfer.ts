/**
 * The port for carrying a whole store from one engine to another. An engine hands out rows as they lie in its tables
 * and takes them as they come; what is carried, in which order, and what is believed of it is decided above. Rows are
 * not read as the rules read them: a damaged one is carried too.
 */
import { HoldfastError } from '../errors.ts'
import { type Kind, type Schema, schema, type TableName } from './schema.ts'

export type Cell = string | number | null
/** The values of a table's columns, in their order. */
export type TransferRow = readonly Cell[]

export interface TransferColumn {
  readonly name: string
  readonly field: string
  readonly kind: Kind
}

export interface TransferTable {
  /** As the tables of both engines are called. */
  readonly name: string
  /** As the rules call it; null for what only engines know of. */
  readonly rows: TableName | null
  /** The namespace first. */
  readonly columns: readonly TransferColumn[]
  /** Places of the columns that identify a row, in the order in which rows are read; the namespace first. */
  readonly key: readonly number[]
}

/** The key of the last row that was carried. */
export type Position = readonly Cell[]

/** What a copy leaves written in the stores it works on, see `marks.ts`, and options of the store itself. */
export type MarkName = 'store_id' | 'copy' | 'moved' | 'manual_grace_ms'

export interface TransferPage {
  readonly table: TransferTable
  readonly rows: readonly TransferRow[]
  /** What the mark `copy` says, and what it shall say. */
  readonly before: string
  readonly after: string
}

/** One end of a copy. Nothing is touched before `look` or `hold`. */
export interface Transfer {
  readonly engine: 'sqlite' | 'postgres'
  /** For people: without a password. */
  readonly location: string
  /** Whether there is a store; throws for anything else that lies there. */
  exists(): Promise<boolean>
  /** Begins a transaction that only reads and keeps nobody from writing. The store must be there. */
  look(): Promise<void>
  /** Begins a transaction during which nobody else writes. The store is made, or brought up to date, in it. */
  hold(): Promise<void>
  commit(): Promise<void>
  /** Throws where others would look for the store and not find what was written here. */
  assertThere(): void
  /** Ends the transaction, if there is one, without a trace. */
  rollBack(): Promise<void>
  /** The lease clock. */
  leaseNow(): Promise<number>
  wallNow(): Promise<number>
  /** The highest number of an event; 0 when there is none. */
  newestEvent(): Promise<number>
  readMark(name: MarkName): Promise<string | null>
  writeMark(name: MarkName, value: string): Promise<void>
  countRows(table: TransferTable): Promise<number>
  /** The next rows after a position, in the order of their keys. */
  readRows(table: TransferTable, after: Position | null, limit: number): Promise<readonly TransferRow[]>
  /** A page and how far it brings the copy, in a transaction of its own; refused unless the mark is as believed. */
  carry(page: TransferPage): Promise<void>
  removeAllRows(): Promise<void>
  /** After the last row: whatever the store numbers from now on comes after what was carried. */
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
  // Deliveries of a message are known by the order they were made in, which only this number tells.
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

export const eventTable = plainTable('event', ['seq'], {
  seq: 'integer',
  at: 'integer',
  kind: 'text',
  subject: 'text',
  id: 'text',
  queue: 'text',
  version: 'integer',
  agent: 'text',
  token: 'integer',
  change: 'json',
  detail: 'json',
})

/** The index of who waits for whom. */
const blockerTable = plainTable('blocker', ['blocker', 'item'], { blocker: 'text', item: 'text' })

/** The index of what ready tasks are found by. */
const readyWordTable = plainTable('ready_word', ['field', 'value', 'priority', 'added_at', 'item'], {
  field: 'text',
  value: 'text',
  priority: 'integer',
  added_at: 'integer',
  item: 'text',
})

/** The highest token a deleted row of each namespace has had. */
export const floorTable = plainTable('token_floor', [], { floor: 'integer' })

/** Items point to queues, so these are there before them. Events last: they are most of a store. */
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

/** Somebody else has changed the mark: another copy is at work, or began anew. */
export function interrupted(location: string): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `another copy to ${location} is under way; this one stopped`,
    next: 'wait for that one to finish',
    facts: { location },
  })
}
