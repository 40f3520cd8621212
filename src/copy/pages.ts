/** Walks the rows of a table in key order. */
import {
  type Position,
  positionOf,
  type Transfer,
  type TransferRow,
  type TransferTable,
} from '../engines/transfer.ts'

/** Only a few lengths, since each one is a separate statement. */
const lengths = [1_000, 500, 200, 100]
/** A payload may be 256 KiB, so the first page is small. */
const shortest = 50
const maxCharacters = 4 * 1024 * 1024

export class Pages {
  readonly #store: Transfer
  readonly #table: TransferTable
  #position: Position | null
  #isOver = false

  constructor(store: Transfer, table: TransferTable, after: Position | null = null) {
    this.#store = store
    this.#table = table
    this.#position = after
  }

  /** Empty when there are no more. */
  async next(limit: number): Promise<readonly TransferRow[]> {
    if (this.#isOver) return []
    const rows = await this.#store.readRows(this.#table, this.#position, limit)
    const last = rows.at(-1)
    this.#isOver = rows.length < limit
    if (last !== undefined) this.#position = positionOf(this.#table, last)
    return rows
  }
}

/** How long pages may be, judging by the rows seen so far. */
export class PageLength {
  rows = shortest

  note(rows: readonly TransferRow[]): void {
    const characters = rows.reduce((sum, row) => sum + lengthOf(row), 0)
    const fitting = (maxCharacters / Math.max(1, characters)) * rows.length
    this.rows = lengths.find((length) => length <= fitting) ?? shortest
  }
}

function lengthOf(row: TransferRow): number {
  return row.reduce<number>((sum, cell) => sum + (typeof cell === 'string' ? cell.length : 8), 0)
}
