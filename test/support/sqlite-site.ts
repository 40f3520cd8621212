/** A SQLite store file in its own folder, and ways to damage it. */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRaw, type RawDatabase } from './sqlite-file.ts'
import type { Damage, Site, Undo, UnfitPlace } from './stores.ts'
import { readTables } from './tables.ts'

export async function createSqliteSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  const url = join(folder, 'store.db')
  return {
    url,
    damage: damageTo(url),
    readTables: () =>
      using(url, (database) => readTables(async (table) => database.prepare(`select * from ${table}`).all())),
    readRows: (table) =>
      using(url, (database) => database.prepare(`select * from ${table}`).all() as Record<string, unknown>[]),
    countRows: () => using(url, countRows),
    whenReadable: async () => {},
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

function countRows(database: RawDatabase): Record<string, number> {
  const tables = database.prepare("select name from sqlite_schema where type = 'table'").all() as {
    name: string
  }[]
  const counts = tables.map(({ name }) => {
    const [row] = database.prepare(`select count(*) as rows from "${name}"`).all() as { rows: number }[]
    return [name, Number(row?.rows)]
  })
  return Object.fromEntries(counts)
}

export const unfitSqliteFiles: Readonly<Record<string, () => Promise<UnfitPlace>>> = {
  'a SQLite file of another program': () =>
    unfitPlace((path) =>
      using(path, (database) =>
        database.exec("create table notes (text); insert into notes values ('mine')"),
      ),
    ),
  'a SQLite file of another program that numbers its schema': () =>
    unfitPlace((path) => using(path, (database) => database.exec('pragma user_version = 7'))),
  'a file that is no database': () =>
    unfitPlace(async (path) => writeFileSync(path, 'a shopping list, and no database at all\n'.repeat(300))),
  'a store of a newer schema': () =>
    unfitPlace((path) =>
      using(path, (database) =>
        database.exec(
          `pragma journal_mode = wal; pragma application_id = ${0x686f6c64}; pragma user_version = 9999`,
        ),
      ),
    ),
}

async function unfitPlace(make: (path: string) => Promise<void>): Promise<UnfitPlace> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  const url = join(folder, 'store.db')
  await make(url)
  return {
    url,
    code: 'STORE_UNFIT',
    named: url,
    contents: async () => createHash('sha256').update(readFileSync(url)).digest('hex'),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

function damageTo(path: string): Damage {
  return {
    forgetHolder: (item) =>
      change(
        path,
        'update item set started_at = null, agent = null, granted_at = null, renewed_at = null, expires_at = null, lease_ms = null where id = ?',
        item,
      ),
    giveToStranger: (item) =>
      change(path, "update item set agent = 'nobody', instance = 'no such instance' where id = ?", item),
    misplace: (item) => change(path, "update item set state = 'a state of old' where id = ?", item),
    garble: (item) => change(path, "update item set data = '{not json' where id = ?", item),
    garbleLock: (queue) =>
      change(path, "update lock set agent = '', item = 'no such item' where name = ?", `queue:${queue}`),
    garblePatterns: (lock) => change(path, "update lock set patterns = '{not json' where name = ?", lock),
    loseLocks: () => using(path, (database) => database.exec('delete from lock')),
    garbleLocks: (prefix) =>
      change(path, "update lock set patterns = '{not json' where name glob ? || '*'", prefix, Infinity),
    garbleRuns: (prefix) =>
      change(path, "update run set cursor = '{not json' where run glob ? || '*'", prefix, Infinity),
    garbleMessage: async (message, part) =>
      change(path, `update message set ${part} = '{not json' where id = ?`, message),
    loseMessage: async (message) => change(path, 'delete from message where id = ?', message),
    garbleAllowance: async (name) =>
      change(path, "update allowance set marks = '{not json' where name = ?", name),
    failRecovery: (namespace) =>
      refuse(path, `insert on recovery_run${namespace ? ` when new.namespace = '${namespace}'` : ''}`),
    failItems: () => refuse(path, 'update on item'),
    failEvents: () => refuse(path, 'insert on event'),
    failDeliveries: () => refuse(path, 'update on delivery'),
    forgetMigration: () => using(path, (database) => database.exec('pragma user_version = 0')),
    loseTable: () => using(path, (database) => database.exec('drop table event')),
    async holdUpWriters() {
      const database = openRaw(path)
      database.exec('begin immediate')
      return async () => {
        database.exec('rollback')
        database.close()
      }
    },
    describeSchema: () =>
      using(path, (database) =>
        database
          .prepare('select sql from sqlite_schema where sql is not null order by name')
          .all()
          .map((row) => (row as { sql: string }).sql)
          .join('\n'),
      ),
  }
}

/** The table's own checks are off: a damaged row is what they exist to prevent. */
function change(path: string, sql: string, value: string, atMost = 1): Promise<void> {
  return using(path, (database) => {
    database.exec('pragma ignore_check_constraints = on')
    const { changes } = database.prepare(sql).run(value)
    if (Number(changes) < 1 || Number(changes) > atMost) throw new Error(`damaged ${changes} rows: ${sql}`)
  })
}

async function refuse(path: string, what: string): Promise<Undo> {
  await using(path, (database) =>
    database.exec(`create trigger refusal before ${what} begin select raise(abort, 'refused'); end`),
  )
  return () => using(path, (database) => database.exec('drop trigger refusal'))
}

async function using<Result>(
  path: string,
  use: (database: RawDatabase) => Result | Promise<Result>,
): Promise<Result> {
  const database = openRaw(path)
  try {
    return await use(database)
  } finally {
    database.close()
  }
}
