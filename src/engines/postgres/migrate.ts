/** Numbered migrations, applied in order inside one transaction; any number of processes may open at once. */
import type { Facts } from '../../error-facts.ts'
import { HoldfastError } from '../../errors.ts'
import { migrationsIn, noStoreAt } from '../migration.ts'
import type { Address } from './address.ts'
import { isLockedOut } from './classify.ts'
import { assertOwnSchema } from './ownership.ts'
import { type Query, type Row, scriptOf } from './plan.ts'
import { inSchema, quoted } from './schema-name.ts'

/** Runs a query inside the transaction of the migration, which must be READ COMMITTED; rows are arrays. */
export type Run = (query: Query | string, values?: readonly unknown[]) => Promise<readonly Row[]>

const readMigrations = migrationsIn(new URL('./migrations/', import.meta.url))

export function schemaVersion(): number {
  return readMigrations().at(-1)?.number ?? 0
}

/**
 * Creates the schema of a store or brings it up to date. Throws for a foreign, newer or damaged one; the caller rolls
 * back and nothing was changed. A role that may not create anything can open a store that is as new as this program.
 */
export async function migrate(
  run: Run,
  address: Address,
  { wasThere = false, mustExist = false }: { wasThere?: boolean; mustExist?: boolean | undefined } = {},
): Promise<void> {
  const { schema } = address
  const look = async () => {
    // A store that was there has been found to be ours. Otherwise a stranger may have made the schema since.
    const asserted = wasThere ? [] : assertOwnSchema(address).map((each) => run(scriptOf(each)))
    const [found] = await Promise.all([findSchema(run, schema), ...asserted])
    return found
  }
  // First without the lock: anybody who may connect can hold it, and an existing store must still open.
  const there = await look()
  if (isCurrent(there)) return
  if (mustExist && there.version === 0) {
    assertFit(there, schema)
    throw noStoreAt(address.shown)
  }
  const lock = run('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`holdfast schema ${schema}`])
  const [, found] = await Promise.all([lock, look()]).catch((error) => {
    throw isLockedOut(error) ? lockedOut(schema, error) : error
  })
  assertFit(found, schema)
  if (found.version === schemaVersion()) return
  if (!found.exists) await run(`create schema ${quoted(schema)}`)
  for (const { number, sql } of readMigrations()) {
    if (number > found.version) await run(scriptOf(inSchema(sql, schema)))
  }
  await run(
    inSchema(
      "insert into holdfast.meta (key, value)\nvalues ('schema_version', $1)\non conflict (key) do update set value = excluded.value",
      schema,
    ),
    [String(schemaVersion())],
  )
  // The default privileges of the role may have given others rights to what was just created.
  for (const each of assertOwnSchema(address)) await run(scriptOf(each))
}

/** The version of the store's schema, 0 when there is no store; throws as above. Reads only. */
export async function findVersion(run: Run, schema: string): Promise<number> {
  const found = await findSchema(run, schema)
  assertFit(found, schema)
  return found.version
}

interface Found {
  readonly exists: boolean
  readonly encoding: string
  readonly tables: readonly string[]
  /** 0 when there is no store. */
  readonly version: number
}

/**
 * Correct behind the lock too: a statement sees what was committed before it began, and it begins only when the one
 * before it has ended.
 */
async function findSchema(run: Run, schema: string): Promise<Found> {
  const [row] = await run(
    `select
  exists (select 1 from pg_namespace where nspname = $1),
  current_setting('server_encoding'),
  array(
    select c.relname::text
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind in ('r', 'p', 'v', 'm', 'f')
    order by 1
  ),
  (
    select count(*)::int
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relname = 'meta' and a.attname in ('key', 'value') and a.atttypid = 'text'::regtype
  )`,
    [schema],
  )
  const [exists, encoding, tables, metaColumns] = row as [boolean, string, string[], number]
  const meta =
    metaColumns === 2
      ? await run(inSchema("select value from holdfast.meta where key = 'schema_version'", schema))
      : []
  return { exists, encoding, tables, version: Number(meta[0]?.[0] ?? 0) }
}

function assertFit({ encoding, tables, version }: Found, schema: string): void {
  if (encoding !== 'UTF8') {
    throw unfit(
      `the database stores text as ${encoding}, which cannot hold every name`,
      'create a database with encoding UTF8; this one was left as it is',
      { schema, encoding },
    )
  }
  if (tables.length > 0 && version === 0) {
    throw unfit(
      `the schema ${schema} holds tables of another program (${tables.slice(0, 5).join(', ')})`,
      'give the store a schema of its own; this one was left as it is',
      { schema, tables: tables.slice(0, 50) },
    )
  }
  if (version > schemaVersion()) {
    throw unfit(
      `the schema ${schema} was made by a newer Holdfast (schema ${version}, this one knows ${schemaVersion()})`,
      'update Holdfast in this process; the store was left as it is',
      { schema, schemaVersion: version, known: schemaVersion() },
    )
  }
  const missing = missingFrom({ tables, version })
  if (missing.length > 0) {
    throw unfit(
      `the schema ${schema} is damaged (schema ${version}, without ${missing.join(', ')})`,
      'restore a backup; the store was left as it is',
      { schema, missing },
    )
  }
}

/** As new as this program, and complete. A schema that is older or looks damaged may be about to be migrated. */
function isCurrent(found: Found): boolean {
  return found.version === schemaVersion() && missingFrom(found).length === 0
}

function missingFrom({ tables, version }: Pick<Found, 'tables' | 'version'>): string[] {
  return tablesUpTo(version).filter((name) => !tables.includes(name))
}

/** Tables that a store of this version must have, taken from the migrations themselves. */
function tablesUpTo(version: number): string[] {
  const texts = readMigrations().filter(({ number }) => number <= version)
  return texts.flatMap(({ sql }) =>
    [...sql.matchAll(/^create table holdfast\.(\w+)/gm)].map(([, name]) => String(name)),
  )
}

function lockedOut(schema: string, cause: unknown): HoldfastError {
  return new HoldfastError('BUSY', {
    what: `the store in schema ${schema} was not created or updated: somebody else holds the advisory lock for that`,
    next: 'try again; if it persists, see pg_locks for who holds it, and revoke connect on the database from other roles',
    facts: { schema },
    cause,
  })
}

function unfit(what: string, next: string, facts: Facts): HoldfastError {
  return new HoldfastError('STORE_UNFIT', { what, next, facts })
}
