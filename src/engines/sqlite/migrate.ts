/** Numbered migrations, applied in order inside one write transaction, because two openers may race. */
import type { Facts } from '../../error-facts.ts'
import { HoldfastError } from '../../errors.ts'
import { migrationsIn } from '../migration.ts'
import type { Connection } from './connection.ts'

/** "hold" in ASCII, in the file's header: tells our stores from other programs' SQLite files. */
const applicationId = 0x686f6c64

const readMigrations = migrationsIn(new URL('./migrations/', import.meta.url))

export function schemaVersion(): number {
  return readMigrations().at(-1)?.number ?? 0
}

/**
 * True when the store is up to date with this program; throws for a foreign, newer or damaged one. Only reads, and only
 * what no schema can redefine: a file may come from anyone, and a view or trigger in it would run with the next
 * statement.
 */
export function isCurrent(connection: Connection, location: string): boolean {
  const { version, owner, rows } = readHeader(connection, location)
  if (owner !== applicationId && (version !== 0 || rows.length > 0)) {
    throw unfit(
      `${location} is a SQLite file of another program`,
      'give the path of a new file; this one was left as it is',
      { location },
    )
  }
  if (version > schemaVersion()) {
    throw unfit(
      `${location} was made by a newer Holdfast (schema ${version}, this one knows ${schemaVersion()})`,
      'update Holdfast in this process; the store was left as it is',
      { location, schemaVersion: version, known: schemaVersion() },
    )
  }
  assertSchema(location, version, rows)
  return version === schemaVersion()
}

/** Whether there is a store of any age; throws as above. */
export function isMade(connection: Connection, location: string): boolean {
  return isCurrent(connection, location) || readHeader(connection, location).version > 0
}

interface Header {
  readonly version: number
  readonly owner: number
  readonly rows: readonly SchemaRow[]
}

/** A row of SQLite's own schema table: type, name, table, text. */
type SchemaRow = readonly [type: string, name: string, table: string, sql: string]

/** One statement, so that everything comes from one snapshot. */
function readHeader(connection: Connection, location: string): Header {
  // A table or view of the same name takes precedence over a pragma function.
  const [shadow] = connection.peek(
    "select name as text from sqlite_schema where name like 'pragma\\_%' escape '\\' limit 1",
  )
  if (shadow !== undefined) throw foreignSchema(location, [shadow])
  // Indexes without SQL text belong to a table's own keys, and SQLite itself refuses one that belongs to no table. Cast
  // to text, because a blob means the same to SQLite but JSON cannot hold it.
  const [text = '{}'] = connection.peek(`select json_object(
  'version', (select user_version from pragma_user_version),
  'owner', (select application_id from pragma_application_id),
  'rows', json((select json_group_array(json_array(cast(type as text), cast(name as text), cast(tbl_name as text), cast(sql as text))) from sqlite_schema where sql <> ''))
) as text`)
  return JSON.parse(text) as Header
}

/** Asserts that every row is one our migrations create, and that none is missing. */
function assertSchema(location: string, version: number, rows: readonly SchemaRow[]): void {
  const expected = rowsUpTo(version)
  const found = new Map(rows.map(([type, name, table, sql]) => [name, textOf([type, name, table, sql])]))
  const missing = [...expected.keys()].filter((name) => !found.has(name))
  const extra = rows.map(([, name]) => name).filter((name) => expected.get(name) !== found.get(name))
  if (missing.length > 0) {
    throw unfit(
      `the schema of ${location} is damaged (schema ${version}, missing ${missing.slice(0, namesShown).join(', ')})`,
      'restore a backup; the file was left as it is',
      { location, missing },
    )
  }
  if (extra.length > 0 || rows.length > expected.size) throw foreignSchema(location, extra)
}

const namesShown = 5

function foreignSchema(location: string, names: readonly string[]): HoldfastError {
  return unfit(
    `the schema of ${location} is not Holdfast's: somebody has added or changed tables, views or triggers in it`,
    'do not use this file unless you know who changed it; restore a backup, or remove what was added; it was left as it is',
    { location, foreign: names.slice(0, namesShown) },
  )
}

const textOf = (row: SchemaRow) => row.join('\n')

const rowsOf = new Map<number, ReadonlyMap<string, string>>()

/**
 * The rows that a store of this version has, by name, parsed from the migrations themselves: SQLite keeps the text of a
 * statement from the name on. Having SQLite create them in memory would cost every command 2 ms.
 */
function rowsUpTo(version: number): ReadonlyMap<string, string> {
  const known = rowsOf.get(version)
  if (known) return known
  const texts = readMigrations().filter(({ number }) => number <= version)
  const rows = new Map(texts.flatMap(({ sql }) => [...sql.matchAll(creation)].map(rowOf)))
  rowsOf.set(version, rows)
  return rows
}

const creation = /^create (table|(?:unique )?index) ((\w+)(?: on (\w+))?[\s\S]*?);$/gm

function rowOf([, kind = '', text = '', name = '', table = name]: RegExpMatchArray): [string, string] {
  const type = kind === 'table' ? 'table' : 'index'
  return [name, textOf([type, name, table, `CREATE ${kind.toUpperCase()} ${text}`])]
}

function unfit(what: string, next: string, facts: Facts): HoldfastError {
  return new HoldfastError('STORE_UNFIT', { what, next, facts })
}

/** Must run inside a write transaction. */
export function migrate(connection: Connection): void {
  const version = Number(connection.pragma('user_version'))
  for (const migration of readMigrations()) {
    if (migration.number > version) connection.exec(migration.sql)
  }
  connection.exec(`pragma application_id = ${applicationId}`)
  connection.exec(`pragma user_version = ${schemaVersion()}`)
}
