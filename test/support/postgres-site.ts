/** A PostgreSQL store in its own schema, and ways to damage it. */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { open } from 'holdfast'
import { Client, escapeIdentifier } from 'pg'
import type { Damage, Site, Undo, UnfitPlace } from './stores.ts'
import { readTables } from './tables.ts'

export interface PostgresServer {
  /** With an empty store, or with none yet. */
  createSite(): Promise<Site>
  /** With no store yet. */
  createEmptySite(): Promise<Site>
  readonly unfit: Readonly<Record<string, () => Promise<UnfitPlace>>>
}

/**
 * The sites at this URL; they share one connection to do things behind Holdfast's back, opened by the first. Making
 * the tables of a store takes longer than most tests, so a store is emptied, repaired and used again. What is left at
 * the end of the run is known by the prefix of its schema.
 */
export function postgresServer(url: string, prefix: string): PostgresServer {
  const washed: string[] = []
  const randomSchema = () => `${prefix}${randomBytes(8).toString('hex')}`
  let admin: Promise<Client> | null = null
  const connected = () => {
    admin ??= connect(url)
    return admin
  }
  return {
    createSite: async () =>
      siteOn(await connected(), { url, schema: washed.pop() ?? randomSchema(), washed }),
    createEmptySite: async () => siteOn(await connected(), { url, schema: randomSchema(), washed }),
    unfit: Object.fromEntries(
      Object.entries(unfitPlaces).map(([what, make]) => [
        what,
        async () => make(await connected(), url, randomSchema()),
      ]),
    ),
  }
}

function siteOn(
  admin: Client,
  { url, schema, washed }: { url: string; schema: string; washed: string[] },
): Site {
  const { damage, findRepairs } = damageTo(admin, url, schema)
  return {
    url: withSchema(url, schema),
    damage,
    readTables: () =>
      readTables(async (table) => (await admin.query(`select * from ${schema}.${table}`)).rows),
    readRows: async (table) => (await admin.query(`select * from ${schema}.${table}`)).rows,
    countRows: () => countRows(admin, schema),
    whenReadable: () => whenReadable(admin),
    async remove() {
      const repairs = findRepairs()
      if (repairs === null || !(await wash(admin, schema))) return drop(admin, schema)
      if (repairs.length > 0) await admin.query(repairs.join(';'))
      washed.push(schema)
    },
  }
}

async function countRows(admin: Client, schema: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of await tablesOf(admin, schema)) {
    const { rows } = await admin.query<{ rows: number }>(`select count(*) as rows from ${schema}.${table}`)
    counts[table] = Number(rows[0]?.rows)
  }
  return counts
}

/** Events are shown once no older transaction is running, of any program on this server. */
async function whenReadable(admin: Client): Promise<void> {
  const { rows } = await admin.query<{ next: number }>(
    'select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next',
  )
  for (let waitedMs = 0; ; waitedMs += 5) {
    const answer = await admin.query<{ oldest: number }>(
      'select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest',
    )
    if (Number(answer.rows[0]?.oldest) >= Number(rows[0]?.next)) return
    if (waitedMs > 5_000) throw new Error('a transaction on this server holds the feed of events back')
    await pause(5)
  }
}

/** The same in every store. */
let emptied: readonly string[] = []

/**
 * False when no whole store is there. The branch of the server stays known, as it is to all who open a store after the
 * first: to the first, opening is much more work.
 */
async function wash(admin: Client, schema: string): Promise<boolean> {
  if (emptied.length === 0) emptied = (await tablesOf(admin, schema)).filter((name) => !kept.includes(name))
  if (emptied.length === 0) return false
  const deletes = emptied.map((name) => `${name}_gone as (delete from ${schema}.${name})`)
  // A store's own settings must not reach the next one.
  const text = `with ${deletes.join(', ')} delete from ${schema}.meta where key = 'manual_grace_ms'`
  try {
    // Named, so that the server plans it once for each schema.
    await admin.query({ name: `wash ${schema}`, text })
    return true
  } catch (error) {
    if ((error as { code?: string }).code === undefinedTable) return false
    throw error
  }
}

const kept = ['meta', 'timeline']
const undefinedTable = '42P01'

const unfitPlaces: Readonly<
  Record<string, (admin: Client, url: string, schema: string) => Promise<UnfitPlace>>
> = {
  async 'a schema of another program'(admin, url, schema) {
    await admin.query(`create schema ${schema}; create table ${schema}.notes (text text);
      insert into ${schema}.notes values ('mine')`)
    return {
      url: withSchema(url, schema),
      code: 'STORE_UNFIT',
      named: schema,
      contents: () => describe(admin, schema, ['notes']),
      remove: () => drop(admin, schema),
    }
  },

  async 'a store of a newer schema'(admin, url, schema) {
    const store = await open(withSchema(url, schema), { logger: false, background: false })
    await store.close()
    await admin.query(`update ${schema}.meta set value = '9999' where key = 'schema_version'`)
    return {
      url: withSchema(url, schema),
      code: 'STORE_UNFIT',
      named: schema,
      contents: () => describe(admin, schema, ['meta', 'instance', 'event']),
      remove: () => drop(admin, schema),
    }
  },

  async 'a database that is missing'(admin, url, database) {
    const place = new URL(url)
    place.pathname = `/${database}`
    return {
      url: place.href,
      code: 'STORE_UNFIT',
      named: database,
      contents: () => listDatabases(admin, database),
      remove: async () => {},
    }
  },

  async 'a server that is not there'(_admin, url) {
    const place = new URL(url)
    // Of no service, and below those a server is given by entropy.
    place.port = '1'
    place.hostname = '127.0.0.1'
    return {
      url: place.href,
      code: 'STORE_UNAVAILABLE',
      named: '127.0.0.1:1',
      contents: async () => 'nothing',
      remove: async () => {},
    }
  },
}

/** `findRepairs` returns what mends the schema of a store whose rows are gone; null when it is beyond that. */
function damageTo(
  admin: Client,
  url: string,
  schema: string,
): { damage: Damage; findRepairs: () => readonly string[] | null } {
  const repairs: string[] = []
  let isWhole = true
  const change = async (table: string, sql: string, value: string, atMost = 1) => {
    repairs.push(...(await dropChecks(admin, `${schema}.${table}`)))
    const { rowCount } = await admin.query(`update ${schema}.${table} ${sql}`, [value])
    if (!rowCount || rowCount > atMost) throw new Error(`damaged ${rowCount} rows: ${sql}`)
  }
  const refuse = (what: string, table: string, namespace?: string) => {
    repairs.push(`drop function if exists ${schema}.refuse() cascade`)
    const some = namespace ? ` when (new.namespace = '${namespace}')` : ''
    return refuseEach(admin, `${what} on ${schema}.${table} for each row${some}`, schema)
  }
  const damage: Damage = {
    forgetHolder: (item) =>
      change(
        'item',
        'set started_at = null, agent = null, granted_at = null, renewed_at = null, expires_at = null, lease_ms = null where id = $1',
        item,
      ),
    giveToStranger: (item) =>
      change('item', "set agent = 'nobody', instance = 'no such instance' where id = $1", item),
    misplace: (item) => change('item', "set state = 'a state of old' where id = $1", item),
    garble: (item) => change('item', "set data = '{not json' where id = $1", item),
    garbleLock: (queue) =>
      change('lock', "set agent = '', item = 'no such item' where name = $1", `queue:${queue}`),
    garblePatterns: (lock) => change('lock', "set patterns = '{not json' where name = $1", lock),
    loseLocks: async () => {
      await admin.query(`delete from ${schema}.lock`)
    },
    garbleLocks: (prefix) =>
      change('lock', "set patterns = '{not json' where starts_with(name, $1)", prefix, Infinity),
    garbleRuns: (prefix) =>
      change('run', "set cursor = '{not json' where starts_with(run, $1)", prefix, Infinity),
    garbleMessage: (message, part) => change('message', `set ${part} = '{not json' where id = $1`, message),
    loseMessage: async (message) => {
      await admin.query(`delete from ${schema}.message where id = $1`, [message])
    },
    garbleAllowance: (name) => change('allowance', "set marks = '{not json' where name = $1", name),
    failRecovery: (namespace) => refuse('insert', 'recovery_run', namespace),
    failItems: () => refuse('update', 'item'),
    failEvents: () => refuse('insert', 'event'),
    failDeliveries: () => refuse('update', 'delivery'),
    async forgetMigration() {
      isWhole = false
      await admin.query(`delete from ${schema}.meta where key = 'schema_version'`)
    },
    async loseTable() {
      isWhole = false
      await admin.query(`drop table ${schema}.event`)
    },
    holdUpWriters: () => holdUpWriters(url, schema),
    describeSchema: () => describe(admin, schema, []),
  }
  return { damage, findRepairs: () => (isWhole ? repairs : null) }
}

/** Drops the checks of a table, which exist to prevent damaged rows. Returns the statements that restore them. */
async function dropChecks(admin: Client, table: string): Promise<string[]> {
  const { rows } = await admin.query<{ name: string; definition: string }>(
    `select conname as name, pg_get_constraintdef(oid) as definition
     from pg_constraint
     where contype = 'c' and conrelid = '${table}'::regclass`,
  )
  const checks = rows.map(({ name, definition }) => ({ name: escapeIdentifier(name), definition }))
  if (checks.length === 0) return []
  await admin.query(`alter table ${table} ${checks.map(({ name }) => `drop constraint ${name}`).join(', ')}`)
  return [
    `alter table ${table} ${checks.map(({ name, definition }) => `add constraint ${name} ${definition}`).join(', ')}`,
  ]
}

async function refuseEach(admin: Client, what: string, schema: string): Promise<Undo> {
  await admin.query(`create or replace function ${schema}.refuse() returns trigger language plpgsql as
    $$ begin raise exception 'refused'; end $$;
    create trigger refusal before ${what} execute function ${schema}.refuse()`)
  return async () => {
    await admin.query(`drop function ${schema}.refuse() cascade`)
  }
}

/** Reads continue; writes, and row locks for them, wait. */
async function holdUpWriters(url: string, schema: string): Promise<Undo> {
  const holder = await connect(url)
  const tables = await tablesOf(holder, schema)
  await holder.query('begin')
  await holder.query(`lock table ${tables.map((name) => `${schema}.${name}`).join(', ')} in exclusive mode`)
  return async () => {
    await holder.query('rollback')
    await holder.end()
  }
}

/** The definitions of a schema, by whatever name it goes, and the rows of some tables. */
async function describe(admin: Client, schema: string, tables: readonly string[]): Promise<string> {
  const { rows: definitions } = await admin.query<{ line: string }>(
    `select format('create table %s %s %s %s %s', table_name, ordinal_position, column_name, data_type, is_nullable) as line
     from information_schema.columns
     where table_schema = $1
     union all
     select indexdef
     from pg_indexes
     where schemaname = $1
     order by 1`,
    [schema],
  )
  const contents = []
  for (const table of tables)
    contents.push((await admin.query(`select * from ${schema}.${table} as row order by row::text`)).rows)
  const lines = [...definitions.map(({ line }) => line), JSON.stringify(contents)]
  return lines.join('\n').toLowerCase().replaceAll(schema, 'holdfast')
}

async function tablesOf(client: Client, schema: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'select tablename as name from pg_tables where schemaname = $1',
    [schema],
  )
  return rows.map(({ name }) => name)
}

async function listDatabases(admin: Client, name: string): Promise<string> {
  const { rows } = await admin.query('select datname from pg_database where datname = $1', [name])
  return JSON.stringify(rows)
}

async function drop(admin: Client, schema: string): Promise<void> {
  await admin.query(`drop schema if exists ${schema} cascade`)
}

function withSchema(url: string, schema: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}schema=${schema}`
}

/** Returns bigint columns as numbers: every value that the rules use fits. */
async function connect(url: string): Promise<Client> {
  const client = new Client({
    connectionString: url,
    types: { getTypeParser: (oid: number) => (oid === int8 ? Number : asText) } as never,
  })
  await client.connect()
  return client
}

const int8 = 20
const asText = (text: string) => text
