/** Reads both stores side by side, row by row in key order, to verify that the copy equals its source. */
import { createHash } from 'node:crypto'
import {
  type Position,
  positionOf,
  type Transfer,
  type TransferRow,
  type TransferTable,
  transferTables,
} from '../engines/transfer.ts'
import { HoldfastError } from '../errors.ts'
import { PageLength, Pages } from './pages.ts'
import type { CopiedTable } from './report.ts'
import { translator } from './translate.ts'

export interface DifferentTable {
  readonly table: string
  readonly source: Sum
  readonly target: Sum
  /** Key of the first row that differs, or is missing on one side. */
  readonly first: Position
}

export interface Comparing {
  readonly source: Transfer
  readonly target: Transfer
  readonly shiftMs: number
  /** Called when this many more rows of a table were compared. */
  onCompared(table: string, rows: number): void
}

export async function compareAll(comparing: Comparing) {
  const same: CopiedTable[] = []
  const different: DifferentTable[] = []
  for (const table of transferTables) {
    const { source, target, first } = await compare(table, comparing)
    if (first === null) same.push({ table: table.name, ...target })
    else different.push({ table: table.name, source, target, first })
  }
  return { same, different }
}

async function compare(table: TransferTable, { source, target, shiftMs, onCompared }: Comparing) {
  const translate = translator(table, shiftMs)
  const [left, right] = [new Side(), new Side()]
  const [leftPages, rightPages] = [new Pages(source, table), new Pages(target, table)]
  const length = new PageLength()
  let first: Position | null = null
  for (;;) {
    const [sourceRows, targetRows] = await Promise.all([
      leftPages.next(length.rows),
      rightPages.next(length.rows),
    ])
    if (sourceRows.length === 0 && targetRows.length === 0) break
    length.note(sourceRows)
    const [ours, theirs] = [left.add(sourceRows.map(translate)), right.add(targetRows)]
    first ??= firstDifference(table, ours, theirs)
    onCompared(table.name, sourceRows.length)
  }
  return { source: left.sum(), target: right.sum(), first }
}

/** Both sides' pages have the same number of rows as long as the rows are the same. */
function firstDifference(
  table: TransferTable,
  ours: readonly Written[],
  theirs: readonly Written[],
): Position | null {
  for (let index = 0; index < Math.max(ours.length, theirs.length); index++) {
    const [left, right] = [ours[index], theirs[index]]
    if (left?.text !== right?.text) return positionOf(table, (left ?? (right as Written)).row)
  }
  return null
}

interface Sum {
  readonly rows: number
  readonly digest: string
}

interface Written {
  readonly row: TransferRow
  readonly text: string
}

class Side {
  readonly #hash = createHash('sha256')
  #rows = 0

  add(rows: readonly TransferRow[]): Written[] {
    this.#rows += rows.length
    return rows.map((row) => {
      const text = JSON.stringify(row)
      this.#hash.update(text).update('\n')
      return { row, text }
    })
  }

  sum(): Sum {
    return { rows: this.#rows, digest: this.#hash.digest('hex') }
  }
}

/** Names every table that differs and its first differing row. */
export function notTheSame(location: string, tables: readonly DifferentTable[]): HoldfastError {
  const shown = tables.map(
    ({ table, source, target, first }) =>
      `${table} (${source.rows} rows and ${target.rows}, first at ${JSON.stringify(first)})`,
  )
  return new HoldfastError('STORE_UNFIT', {
    what: `the copy at ${location} differs from its source: ${shown.join(', ')}; the source stays in use`,
    next: 'run the copy again with --restart; if it differs again, please report this',
    facts: { location, tables },
  })
}
