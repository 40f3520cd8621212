/** Reads both stores side by side, row by row in the order of their keys: the copy is what the source is. */
import { createHash } from 'node:crypto'
import {
  type Position,
  positionOf,
  type Transfer,
  type TransferRow,
  type TransferTable,
} from '../engines/transfer.ts'
import { PageLength, Pages } from './pages.ts'
import type { Translator } from './translate.ts'

export interface VerifiedTable {
  readonly table: string
  readonly rows: number
  /** SHA-256 over the rows as the target has them. */
  readonly digest: string
}

export interface DifferentTable {
  readonly table: string
  readonly source: { readonly rows: number; readonly digest: string }
  readonly target: { readonly rows: number; readonly digest: string }
  /** Key of the first row that differs, or is missing on one side. */
  readonly first: Position
}

export type Verdict = { readonly same: VerifiedTable } | { readonly different: DifferentTable }

export interface Sides {
  readonly source: Transfer
  readonly target: Transfer
  readonly translate: Translator
}

export async function verifyTable(
  table: TransferTable,
  { source, target, translate }: Sides,
  onRows: (count: number) => void,
): Promise<Verdict> {
  const [left, right] = [new Side(), new Side()]
  const [leftPages, rightPages] = [new Pages(source, table), new Pages(target, table)]
  const length = new PageLength()
  let first: Position | null = null
  for (;;) {
    const [sourceRows, targetRows] = await Promise.all([
      leftPages.next(length.rows),
      rightPages.next(length.rows),
    ])
    length.note(sourceRows)
    if (sourceRows.length === 0 && targetRows.length === 0) break
    const [ours, theirs] = [left.add(sourceRows.map(translate)), right.add(targetRows)]
    first ??= firstDifference(table, ours, theirs)
    onRows(sourceRows.length)
  }
  const [ours, theirs] = [left.sum(), right.sum()]
  if (first === null && ours.digest === theirs.digest) return { same: { table: table.name, ...theirs } }
  return { different: { table: table.name, source: ours, target: theirs, first: first ?? [] } }
}

/** Pages of both sides have the same number of rows as long as the rows are the same. */
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

  sum(): { rows: number; digest: string } {
    return { rows: this.#rows, digest: this.#hash.digest('hex') }
  }
}
