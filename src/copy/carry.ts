/** Carries every row, page by page in key order, starting where an earlier copy stopped. */
import type { CopyMark } from '../engines/marks.ts'
import { positionOf, type Transfer, type TransferRow, transferTables } from '../engines/transfer.ts'
import { PageLength, Pages } from './pages.ts'
import { translator } from './translate.ts'

export interface Carrying {
  readonly source: Transfer
  readonly target: Transfer
  readonly mark: CopyMark
  /** Called when this many more rows of a table are in the target. */
  onCarried(table: string, rows: number): void
}

/** Returns the target's mark as the last page left it. */
export async function carryAll({ source, target, mark, onCarried }: Carrying): Promise<string> {
  const positions = { ...mark.positions }
  let before = JSON.stringify(mark)
  for (const table of transferTables) {
    const from = positions[table.name] ?? null
    if (from === 'done') continue
    const translate = translator(table, mark.shiftMs)
    const pages = new Pages(source, table, from)
    const length = new PageLength()
    for (let rows = await pages.next(length.rows); rows.length > 0; ) {
      length.note(rows)
      positions[table.name] = positionOf(table, rows.at(-1) as TransferRow)
      const after = JSON.stringify({ ...mark, positions })
      const page = { table, rows: rows.map(translate), before, after }
      // Reads the next page while this one is written.
      const [next] = await Promise.all([pages.next(length.rows), target.carry(page)])
      onCarried(table.name, rows.length)
      before = after
      rows = next
    }
    positions[table.name] = 'done'
  }
  return before
}
