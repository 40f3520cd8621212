/**
 * Reads tables of another program's SQLite file. Reads a private copy: opening the original, even for reading, may
 * create files next to it, and would have to move a pending write-ahead log into it.
 */
import { copyFileSync, mkdtempSync, rmSync, type Stats, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, driver } from '../engines/sqlite/driver.ts'
import { HoldfastError } from '../errors.ts'
import { damaged, unreadable } from './source.ts'

export type Row = Readonly<Record<string, unknown>>

const maxRows = 100_000
const maxColumns = 200
/** For all values together, in bytes: a column default can fill every row of a small file with any amount of data. */
const maxValueBytes = 128 * 1024 * 1024
/** Far more than any field that is imported. */
const maxLength = 16 * 1024 * 1024

/** Which tables to read. */
export interface Wanted {
  /** Whose file it is, in words. */
  readonly what: string
  /** Without these tables it is some other file. */
  readonly needed: readonly string[]
  /** Read if they exist. */
  readonly optional: readonly string[]
}

/** All rows of the wanted tables, by table; none for a table that does not exist. */
export function readTables(path: string, wanted: Wanted): ReadonlyMap<string, readonly Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-import-'))
  try {
    return readCopy(copyInto(folder, path, wanted.what), wanted)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Copies the file together with its log, which may hold changes that are not in the file yet. */
function copyInto(folder: string, path: string, what: string): string {
  const parts = ['', '-wal', '-journal']
  const look = () => parts.map((part) => statSync(path + part, { throwIfNoEntry: false }))
  const before = look()
  if (!before[0]?.isFile()) throw unreadable(path, what)
  const bytes = before.reduce((sum, found) => sum + (found?.size ?? 0), 0)
  if (bytes > maxCopyBytes) throw damaged(what, `it is larger than ${maxCopyBytes / 1024 / 1024} MiB`)
  const copy = join(folder, 'copy.db')
  try {
    for (const [index, part] of parts.entries()) {
      if (before[index]?.isFile()) copyFileSync(path + part, copy + part)
    }
  } catch (cause) {
    throw unreadable(path, what, cause)
  }
  if (look().every((found, index) => stampOf(found) === stampOf(before[index]))) return copy
  throw new HoldfastError('BUSY', {
    what: `${path} was written to while it was read`,
    next: 'stop the program that uses it, then import again',
    facts: { path },
  })
}

const maxCopyBytes = 1024 * 1024 * 1024

function stampOf(found: Stats | undefined): string | null {
  return found?.isFile() ? `${found.size} ${found.mtimeMs}` : null
}

function readCopy(path: string, wanted: Wanted): Map<string, readonly Row[]> {
  try {
    const database = driver().open(path, { maxLength })
    try {
      // The schema comes from whoever wrote the file, so no check constraint may be evaluated. The driver allows it no
      // functions.
      database.exec('pragma ignore_check_constraints = on')
      const there = tableNames(database, wanted)
      assertTables(there, wanted)
      const tables = [...wanted.needed, ...wanted.optional].filter((name) => there.has(name))
      const columns = new Map(tables.map((name) => [name, columnsOf(database, name, wanted)]))
      for (const name of tables) assertSound(database, name, wanted)
      let bytesLeft = maxValueBytes
      for (const name of tables) bytesLeft -= measure(database, name, columns.get(name) ?? [], wanted)
      if (bytesLeft < 0)
        throw damaged(wanted.what, `its values are more than ${maxValueBytes / 1024 / 1024} MiB`)
      const read = new Map(tables.map((name) => [name, readAll(name)]))
      return new Map([...wanted.needed, ...wanted.optional].map((name) => [name, read.get(name) ?? []]))
    } finally {
      database.close()
    }

    function readAll(name: string): Row[] {
      const statement = database.prepare(`select * from ${name}`)
      // Otherwise a single integer too large for JavaScript would make the whole read fail.
      statement.setReadBigInts(true)
      return (statement.all() as Row[]).map(plainNumbers)
    }
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause
    throw damaged(wanted.what, (cause as Error).message, cause)
  }
}

const maxTables = 1000

/** Ordinary tables only: a virtual table runs a program. */
function tableNames(database: Database, { what }: Wanted): Set<string> {
  const rows = database
    .prepare(`select name from sqlite_schema where type = 'table' and rootpage > 0 limit ${maxTables + 1}`)
    .all() as { name: string }[]
  if (rows.length > maxTables) throw damaged(what, `it has more than ${maxTables} tables`)
  return new Set(rows.map(({ name }) => name))
}

/** Stored columns only: a computed one could run for ever or fill the memory. */
function columnsOf(database: Database, table: string, { what }: Wanted): string[] {
  const columns = database.prepare(`select name, hidden from pragma_table_xinfo('${table}')`).all() as {
    name: string
    hidden: number
  }[]
  if (columns.length > maxColumns)
    throw damaged(what, `its table ${table} has more than ${maxColumns} columns`)
  const computed = columns.find(({ hidden }) => Number(hidden) !== 0)
  if (computed) throw damaged(what, `its table ${table} computes its column ${computed.name}`)
  return columns.map(({ name }) => name)
}

function assertSound(database: Database, table: string, { what }: Wanted): void {
  const [found] = database.prepare(`pragma quick_check('${table}')`).all() as { quick_check?: string }[]
  if (found?.quick_check !== 'ok') throw damaged(what, found?.quick_check ?? 'it cannot be checked')
}

/** Adds up the sizes of all values before any of them is read into memory. */
function measure(database: Database, table: string, columns: readonly string[], { what }: Wanted): number {
  const lengths = columns.map((name) => `coalesce(length(cast("${name.replaceAll('"', '""')}" as blob)), 0)`)
  const [found] = database
    .prepare(
      `select count(*) as rows, total(bytes) as bytes from (select ${lengths.join(' + ')} as bytes from ${table} limit ${maxRows + 1})`,
    )
    .all() as { rows: number; bytes: number }[]
  if ((found?.rows ?? 0) > maxRows) throw damaged(what, `its table ${table} has more than ${maxRows} rows`)
  // Column names come with every row.
  return (found?.bytes ?? 0) + (found?.rows ?? 0) * columns.length * cellBytes
}

/** What a cell costs in memory even when it is empty. */
const cellBytes = 16

/** Integers as numbers if they are exact, otherwise as their digits, so that such a row is judged on its own. */
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
