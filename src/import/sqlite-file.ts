/**
 * Tables of another program's SQLite file. A private copy is read: opening the file itself, even to read, may write
 * beside it, and a log that was not yet moved into it would have to be.
 */
import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { driver } from '../engines/sqlite/driver.ts'
import { HoldfastError } from '../errors.ts'
import { damaged, unreadable } from './source.ts'

export type Row = Readonly<Record<string, unknown>>

const rowsMax = 100_000

export interface Wanted {
  /** Whose file it is, in words. */
  readonly what: string
  /** Without these it is something else. */
  readonly needed: readonly string[]
  /** Read where they are there. */
  readonly optional: readonly string[]
}

/** All rows of the wanted tables, by table; none for a table that is not there. */
export function readTables(path: string, wanted: Wanted): ReadonlyMap<string, readonly Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-import-'))
  try {
    return readCopy(copyInto(folder, path, wanted.what), wanted)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The file with what has not yet been moved into it. */
function copyInto(folder: string, path: string, what: string): string {
  const parts = ['', '-wal', '-journal']
  const before = parts.map((part) => stampOf(path + part))
  if (before[0] === null) throw unreadable(path, what)
  const copy = join(folder, 'copy.db')
  try {
    for (const [index, part] of parts.entries()) {
      if (before[index] !== null) copyFileSync(path + part, copy + part)
    }
  } catch (cause) {
    throw unreadable(path, what, cause)
  }
  if (parts.every((part, index) => stampOf(path + part) === before[index])) return copy
  throw new HoldfastError('BUSY', {
    what: `${path} was written to while it was read`,
    next: 'stop the program that uses it, then import again',
    facts: { path },
  })
}

function stampOf(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() ? `${found.size} ${found.mtimeMs}` : null
}

function readCopy(path: string, wanted: Wanted): Map<string, readonly Row[]> {
  try {
    const database = driver().open(path, {})
    try {
      const [check] = database.prepare('pragma quick_check(1)').all() as { quick_check?: string }[]
      if (check?.quick_check !== 'ok')
        throw damaged(wanted.what, check?.quick_check ?? 'it cannot be checked')
      const rows = database.prepare("select name from sqlite_schema where type = 'table'").all() as {
        name: string
      }[]
      const there = new Set(rows.map(({ name }) => name))
      assertTables(there, wanted)
      const tables = [...wanted.needed, ...wanted.optional]
      return new Map(tables.map((name) => [name, there.has(name) ? readAll(name) : []]))
    } finally {
      database.close()
    }

    function readAll(name: string): Row[] {
      const statement = database.prepare(`select * from ${name} limit ${rowsMax + 1}`)
      // Otherwise one number that is too large for JavaScript would refuse them all.
      statement.setReadBigInts(true)
      const rows = statement.all() as Row[]
      if (rows.length <= rowsMax) return rows.map(plainNumbers)
      throw damaged(wanted.what, `its table ${name} has more than ${rowsMax} rows`)
    }
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause
    throw damaged(wanted.what, (cause as Error).message, cause)
  }
}

/** Whole numbers as numbers where they are exact, else as their digits: the row is then judged by itself. */
function plainNumbers(row: Row): Row {
  const cells = Object.entries(row).map(([name, value]) => {
    if (typeof value !== 'bigint') return [name, value]
    return [name, Number.isSafeInteger(Number(value)) ? Number(value) : String(value)]
  })
  return Object.fromEntries(cells)
}

function assertTables(there: ReadonlySet<string>, { what, needed }: Wanted): void {
  const missing = needed.find((name) => !there.has(name))
  if (missing === undefined) return
  const found = [...there].slice(0, 10).join(', ') || 'none'
  throw damaged(what, `it has no table ${missing}; its tables: ${found}`)
}
