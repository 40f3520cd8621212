/** Numbered migrations, applied in order inside one write transaction; two openers may race. */
import { readdirSync, readFileSync } from 'node:fs'
import { HoldfastError } from '../../errors.ts'
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

/** True when the store is as new as this program; throws for a foreign or newer one. Reads only. */
export function isCurrent(connection: Connection, location: string): boolean {
  const version = Number(connection.pragma('user_version'))
  const owner = Number(connection.pragma('application_id'))
  const objects = Number(connection.get('select count(*) from sqlite_schema')?.[0])
  if (owner !== applicationId && (version !== 0 || objects > 0)) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${location} is a SQLite file of another program`,
      next: 'give the path of a new file; this one was left as it is',
      facts: { location },
    })
  }
  if (version > schemaVersion()) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${location} was made by a newer Holdfast (schema ${version}, this one knows ${schemaVersion()})`,
      next: 'update Holdfast in this process; the store was left as it is',
      facts: { location, schemaVersion: version, known: schemaVersion() },
    })
  }
  return version === schemaVersion()
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
