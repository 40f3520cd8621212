/** Translates a row for another store: its lease times move to the lease clock there. */
import { schema, type TableName } from '../engines/schema.ts'
import type { Cell, TransferRow, TransferTable } from '../engines/transfer.ts'

export type Translator = (row: TransferRow) => TransferRow

/** `shiftMs`: the target's lease clock minus the source's. */
export function translator(table: TransferTable, shiftMs: number): Translator {
  return shiftMs === 0 ? (row) => row : shifter(table, shiftMs)
}

/** JSON in events and images uses the same field names as the thing itself. */
const eventFields: Readonly<Record<string, readonly string[]>> = {
  event: ['change', 'detail'],
  image: ['image'],
}

function shifter(table: TransferTable, shiftMs: number): Translator {
  const { columns } = table
  const lease = table.rows === null ? [] : schema[table.rows].leaseTimes
  const inJson = eventFields[table.name] ?? []
  const subjectAt = columns.findIndex(({ name }) => name === 'subject')
  return (row) =>
    row.map((cell, index) => {
      const { field, kind } = columns[index] as TransferTable['columns'][number]
      if (cell === null) return null
      if (inJson.includes(field))
        return movedJson(cell, (value) => moveTimes(String(row[subjectAt]), value, shiftMs))
      if (!lease.includes(field)) return cell
      return kind === 'json'
        ? movedJson(cell, (value) => moveTime(value, shiftMs) as object)
        : Number(cell) + shiftMs
    })
}

/** Damaged JSON is carried unchanged. */
function movedJson(cell: Cell, move: (value: object) => object): Cell {
  try {
    const value: unknown = JSON.parse(String(cell))
    return typeof value === 'object' && value !== null ? JSON.stringify(move(value)) : cell
  } catch {
    return cell
  }
}

/** The same time on another lease clock; anything that is not a time is unchanged. */
function moveTime(value: unknown, byMs: number): unknown {
  if (typeof value === 'number') return value + byMs
  return Array.isArray(value) ? value.map((each) => moveTime(each, byMs)) : value
}

/** A thing as recorded in events and images: fields on the lease clock are shifted, the others stay. */
function moveTimes(subject: string, fields: object, byMs: number): object {
  const lease = subject in schema ? schema[subject as TableName].leaseTimes : []
  return Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      field,
      lease.includes(field) ? moveTime(value, byMs) : value,
    ]),
  )
}
