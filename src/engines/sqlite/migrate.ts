/** Numbered migrations, applied in order inside one write transaction; two openers may race. */
import { readdirSync, readFileSync } from 'node:fs'
import { type Facts, HoldfastError } from '../../errors.ts'
import type { Connection } from './connection.ts'

/** "hold" in ASCII, in the file's header: tells our stores from other programs' SQLite files. */
const applicationId = 0x686f6c64

interface Migration {
  readonly number: number
  readonly sql: string
}

let migrations: readonly Migration[] | undefined

function readMigrations(): readonly Migration[] {
  const folder = new URL('./migrations/', import.meta.url)
  migrations ??= readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ number: Number.parseInt(name, 10), sql: readFileSync(new URL(name, folder), 'utf8') }))
  return migrations
}

export function schemaVersion(): number {
  return readMigrations().at(-1)?.number ?? 0
}

/** True when the store is as new as this program; throws for a foreign, newer or damaged one. Reads only. */
export function isCurrent(connection: Connection, location: string): boolean {
  const { version, owner, tables: found } = readHeader(connection)
  if (owner !== applicationId && (version !== 0 || found.length > 0)) {
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
  const missing = tablesUpTo(version).filter((name) => !found.includes(name))
  const extra = version === 0 ? found : []
  if (missing.length > 0 || extra.length > 0) {
    throw unfit(
      `the schema of ${location} is damaged (schema ${version}, tables ${found.join(', ')})`,
      'restore a backup; the file was left as it is',
      { location, missing },
    )
  }
  return version === schemaVersion()
}

/** Whether there is a store of any age; throws as above. */
export function isMade(connection: Connection, location: string): boolean {
  return isCurrent(connection, location) || readHeader(connection).version > 0
}

interface Header {
  readonly version: number
  readonly owner: number
  readonly tables: readonly string[]
}

/** In one statement, so all of it is of one moment. */
function readHeader(connection: Connection): Header {
  const [text = '{}'] = connection.peek(`select json_object(
  'version', (select user_version from pragma_user_version),
  'owner', (select application_id from pragma_application_id),
  'tables', json((select json_group_array(name) from sqlite_schema where type = 'table'))
) as text`)
  return JSON.parse(text) as Header
}

/** Tables a store of this version must have, read off the migrations themselves. */
function tablesUpTo(version: number): string[] {
  const texts = readMigrations().filter(({ number }) => number <= version)
  return texts.flatMap(({ sql }) =>
    [...sql.matchAll(/^create table (\w+)/gm)].map(([, name]) => String(name)),
  )
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
