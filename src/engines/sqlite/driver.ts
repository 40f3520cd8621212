/**
 * The SQLite driver: the `node:sqlite` API, from Node itself if its SQLite is recent enough, otherwise from the package
 * with the same API. Chosen once per process: two copies of SQLite on one file in one process would drop each other's
 * POSIX locks.
 */
import { createRequire } from 'node:module'
import { HoldfastError } from '../../errors.ts'

export type Value = null | string | bigint

export interface Statement {
  run(...values: Value[]): { changes: number | bigint; lastInsertRowid: number | bigint }
  get(...values: Value[]): unknown
  all(...values: Value[]): unknown[]
  iterate(...values: Value[]): Iterable<unknown>
  setReturnArrays(on: boolean): void
  setReadBigInts(on: boolean): void
}

export interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  function(name: string, options: { directOnly: boolean }, call: (value: unknown) => null): void
  close(): void
  readonly isTransaction: boolean
  readonly limits: { length: number; sqlLength: number }
}

interface Driver {
  readonly name: string
  readonly sqliteVersion: string
  open(path: string, options: OpenOptions): Database
}

interface OpenOptions {
  readonly readOnly?: boolean
  /** The longest value and row, in bytes. */
  readonly maxLength: number
}

interface SqliteModule {
  DatabaseSync: new (path: string, options?: { readOnly?: boolean; timeout?: number }) => Database
}

/** Below 3.51.3 a race between writers and checkpoints can corrupt a WAL store; 3.52 was withdrawn. */
function isFitVersion(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major !== 3 || minor === 52) return false
  return minor > 51 || (minor === 51 && patch >= 3)
}

let chosen: Driver | undefined

export function driver(): Driver {
  chosen ??= choose()
  return chosen
}

const nodeMajor = Number(process.versions.node.split('.')[0])

function choose(): Driver {
  const require = createRequire(import.meta.url)
  const unfit: string[] = []
  for (const name of isOwnFit() ? ['node:sqlite', '@photostructure/sqlite'] : ['@photostructure/sqlite']) {
    const { DatabaseSync } = require(name) as SqliteModule
    const { version, hasLimits } = lookAt(DatabaseSync)
    // Node's own driver has had limits since 24.15. Without them, one value of a stranger's file could fill the memory.
    if (isFitVersion(version) && hasLimits) {
      return {
        name,
        sqliteVersion: version,
        open: (path, { maxLength, ...options }) =>
          guarded(new DatabaseSync(path, { ...options, timeout: 0 }), maxLength),
      }
    }
    unfit.push(`${name} has ${version}${hasLimits ? '' : ' without limits'}`)
  }
  throw new HoldfastError('STORE_UNFIT', {
    what: `no usable SQLite: ${unfit.join(', ')}`,
    next: 'update Node or @photostructure/sqlite; 3.51.3 or newer (not 3.52) is needed, older ones can corrupt a shared store',
    facts: { unfit },
  })
}

/** Our longest statement is a few kilobytes. */
const maxSqlLength = 1_000_000

/**
 * A file may come from anyone: nothing in its schema may call a function with side effects, and no page is trusted
 * unchecked.
 */
function guarded(database: Database, maxLength: number): Database {
  database.exec('pragma trusted_schema = off; pragma cell_size_check = on')
  database.limits.length = maxLength
  database.limits.sqlLength = maxSqlLength
  return database
}

/**
 * Checked before the module is loaded: early versions print a warning on every start. Node 22 has the module too, but
 * binds values less strictly.
 */
function isOwnFit(): boolean {
  return nodeMajor >= 24 && isFitVersion(process.versions.sqlite ?? '')
}

function lookAt(DatabaseSync: SqliteModule['DatabaseSync']): { version: string; hasLimits: boolean } {
  const database = new DatabaseSync(':memory:')
  const { version } = database.prepare('select sqlite_version() as version').get() as { version: string }
  // Node's own driver has them on each database, the package on the class.
  const hasLimits = 'limits' in database
  database.close()
  return { version, hasLimits }
}
