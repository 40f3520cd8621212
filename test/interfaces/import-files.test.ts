/** Files of other programs as they really are: only read, refused whole where they are damaged, bad rows by name. */
import { appendFileSync, copyFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  type Holdfast,
  type ImportOptions,
  type ImportReport,
  importBeads,
  importEvaluationLocks,
  importExarpGo,
  importPendingAcks,
  importZjj,
  open,
} from 'holdfast'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readFeed } from '../support/feed.ts'
import { aFolder, type Fixture, layFixture } from '../support/fixtures.ts'
import { refusal } from '../support/outcomes.ts'
import { openRaw } from '../support/sqlite-file.ts'

type Import = (hf: Holdfast, path: string, options?: ImportOptions) => Promise<Pick<ImportReport, 'imported'>>
const sources: readonly (readonly [Fixture, Import])[] = [
  ['zjj.db', importZjj],
  ['exarp-go.db', importExarpGo],
  ['beads.jsonl', importBeads],
  ['evaluation-locks.json', importEvaluationLocks],
  ['pending-acks.json', importPendingAcks],
]

/** A store of its own, gone with the test. */
async function aStore(): Promise<Holdfast> {
  const hf = await open('sqlite::memory:', { background: false, logger: false })
  onTestFinished(() => hf.close())
  return hf
}

/** The folder with every byte in it. */
function contents(path: string) {
  const folder = dirname(path)
  return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString('base64')])
}

describe.each(sources)('%s', (fixture, take) => {
  test('the source is only read, and nothing is left beside it', async () => {
    const hf = await aStore()
    const path = layFixture(aFolder(), fixture)
    const before = contents(path)

    await take(hf, path)

    expect(contents(path)).toEqual(before)
  })

  test('a missing file is an error', async () => {
    const hf = await aStore()

    expect((await refusal(() => take(hf, 'no/such/file'))).code).toBe('NOT_FOUND')
  })
})

test('changes still in zjj’s log are imported too', async () => {
  const hf = await aStore()
  const path = layFixture(aFolder(), 'zjj.db')
  const live = openRaw(path)
  live.exec('pragma journal_mode = wal; pragma wal_autocheckpoint = 0')
  live.exec("insert into merge_queue (workspace, added_at) values ('in-the-log', 1741000100)")
  const folder = aFolder()
  for (const part of ['', '-wal']) copyFileSync(path + part, join(folder, `left.db${part}`))
  live.close()

  const { imported } = await importZjj(hf, join(folder, 'left.db'))

  expect(imported).toContain('in-the-log')
  expect(readdirSync(folder).sort()).toEqual(['left.db', 'left.db-wal'])
})

test('an export as a list and one wrapped by its exporter are read alike', async () => {
  const hf = await aStore()
  const lock = {
    isLocked: true,
    lockedBy: 'x',
    lockedAt: { __datatype__: 'timestamp', value: { _seconds: 5 } },
  }
  const list = { 'evaluation-locks': [{ id: 'one', ...lock }] }
  const wrapped = { __collections__: { 'evaluation-locks': { two: { ...lock, __collections__: {} } } } }

  const first = await importEvaluationLocks(hf, JSON.stringify(list))
  const second = await importEvaluationLocks(hf, JSON.stringify(wrapped))

  expect([...first.imported, ...second.imported]).toEqual(['lock one', 'lock two'])
  expect(await hf.locks.getCurrentLockInfo('two')).toMatchObject({ lockedAt: 5000 })
})

describe('a file that cannot be imported whole is refused whole, and nothing changes:', () => {
  const bead = (fields: object) => JSON.stringify({ id: 'bd-1', title: 't', ...fields })
  const waits = (id: string) => ({ dependencies: [{ depends_on_id: id, type: 'blocks' }] })

  test.each<[string, Import, (path: string) => void, RegExp]>([
    ['a text that is no database', importZjj, (path) => writeFileSync(path, 'x'.repeat(5000)), /database/],
    ['a database cut in half', importExarpGo, cutDatabase, /cannot be read/],
    [
      'a database of something else',
      importZjj,
      (path) => sql(path, 'create table t (a)'),
      /no table merge_queue/,
    ],
    ['an empty database', importExarpGo, (path) => sql(path, 'pragma user_version = 1'), /no table tasks/],
    [
      'a status nobody knows',
      importZjj,
      (path) => zjj(path, "update merge_queue set status = 'odd' where id = 6"),
      /row 6.*odd/,
    ],
    [
      'a workspace that cannot be a key',
      importZjj,
      (path) => zjj(path, "update merge_queue set workspace = '-rf' where id = 6"),
      /row 6: key/,
    ],
    [
      'a dedupe key of two open entries that are not imported together',
      importZjj,
      (path) =>
        zjj(
          path,
          `with recursive n(i) as (select 101 union all select i + 1 from n where i < 250)
insert into merge_queue (id, workspace, added_at, dedupe_key)
select i, 'w-' || i, 1741000100, case when i in (101, 250) then 'same' else 'key-' || i end from n`,
        ),
      /row 250: .*dedupe key same.*row 101/,
    ],
    [
      'a stack that stands on itself',
      importZjj,
      (path) => zjj(path, "update merge_queue set parent_workspace = 'stacked' where id = 6"),
      /deeper/,
    ],
    [
      'a task without an id',
      importExarpGo,
      (path) => exarp(path, 'update tasks set id = null where rowid = 2'),
      /number 2: id/,
    ],
    [
      'a task of a status nobody knows',
      importExarpGo,
      (path) => exarp(path, "update tasks set status = 'Odd' where rowid = 1"),
      /Odd/,
    ],
    [
      'a task whose status every object answers to [S5c-20]',
      importExarpGo,
      (path) => exarp(path, "update tasks set status = 'constructor' where rowid = 1"),
      /its status is constructor/,
    ],
    [
      'lines that are no issues',
      importBeads,
      (path) => writeFileSync(path, 'a\nb'),
      /line 1: it is not JSON/,
    ],
    [
      'a line cut off',
      importBeads,
      (path) => appendFileSync(path, '{"id":"bd-9","ti'),
      /line 11: it is not JSON/,
    ],
    [
      'an issue without a title',
      importBeads,
      (path) => appendFileSync(path, '{"id":"bd-9"}'),
      /line 11: title/,
    ],
    [
      'an unsettled merge conflict',
      importBeads,
      (path) => appendFileSync(path, '<<<<<<< ours'),
      /line 11.*conflict/,
    ],
    [
      'an issue that is there twice',
      importBeads,
      (path) => writeFileSync(path, `${bead({})}\n${bead({})}`),
      /line 2: bd-1 is already in line 1/,
    ],
    [
      'issues in a circle',
      importBeads,
      (path) => writeFileSync(path, `${bead(waits('bd-2'))}\n${bead({ id: 'bd-2', ...waits('bd-1') })}`),
      /waits for itself, through bd-2/,
    ],
    [
      'an issue that is too large',
      importBeads,
      (path) => writeFileSync(path, bead({ description: 'x'.repeat(300_000) })),
      /line 1: payload: has/,
    ],
    [
      'letters in another encoding than UTF-8',
      importBeads,
      (path) => writeFileSync(path, Buffer.from(bead({ title: 'Übersetzen' }), 'latin1')),
      /not UTF-8/,
    ],
    [
      'text that is not JSON',
      importEvaluationLocks,
      (path) => writeFileSync(path, '{"evaluation'),
      /not JSON/,
    ],
    [
      'JSON of something else',
      importEvaluationLocks,
      (path) => writeFileSync(path, '{"a":1}'),
      /neither evaluation-locks/,
    ],
    [
      'a run in a state nobody knows',
      importEvaluationLocks,
      (path) => writeFileSync(path, '{"evaluation-progress":{"x":{"evaluationStatus":"odd"}}}'),
      /evaluation-progress\/x: evaluationStatus/,
    ],
    [
      'a lock whose holder cannot be a name',
      importEvaluationLocks,
      (path) => writeFileSync(path, '{"evaluation-locks":{"x":{"isLocked":true,"lockedBy":"-rf"}}}'),
      /lockedBy/,
    ],
    [
      'a lock with the name of a reservation',
      importEvaluationLocks,
      (path) => writeFileSync(path, '{"evaluation-locks":{"paths:x":{"isLocked":true,"lockedBy":"x"}}}'),
      /evaluation-locks\/paths:x: name/,
    ],
    [
      'a lock that is there twice',
      importEvaluationLocks,
      (path) =>
        writeFileSync(path, '{"evaluation-locks":[{"id":"x","isLocked":false},{"id":"x","isLocked":true}]}'),
      /evaluation-locks\/1: x is already in evaluation-locks\/0/,
    ],
    [
      'a run that cannot be kept, behind more than go over at once',
      importEvaluationLocks,
      (path) => {
        const runs = Array.from({ length: 150 }, (_, index) => [
          `run-${index}`,
          { evaluationStatus: 'paused' },
        ])
        const bad = ['bad', { evaluationStatus: 'paused', pauseReason: 'a\0b' }]
        writeFileSync(path, JSON.stringify({ 'evaluation-progress': Object.fromEntries([...runs, bad]) }))
      },
      /evaluation-progress\/bad: pauseReason/,
    ],
  ])('%s', async (_, take, spoil, named) => {
    const hf = await aStore()
    const [fixture] = sources.find(([, each]) => each === take) as (typeof sources)[number]
    const path = layFixture(aFolder(), fixture)
    spoil(path)
    const [file, events] = [contents(path), await readFeed(hf)]

    const error = await refusal(() => take(hf, path))

    expect(error.code).toBe('INVALID')
    expect(error.what).toMatch(named)
    expect(error.next).toContain('left as it is')
    expect(contents(path)).toEqual(file)
    expect(await readFeed(hf)).toEqual(events)
  })

  test('a key that another open task has', async () => {
    const hf = await aStore()
    await hf.tasks.addTask('mine', { key: 'bd-a4' })
    const path = layFixture(aFolder(), 'beads.jsonl')

    const error = await refusal(() => importBeads(hf, path))

    expect(error.what).toMatch(/1 row .*line 5: the key bd-a4 belongs to another open item/)
    expect((await hf.tasks.listTasks()).tasks).toHaveLength(1)
  })
})

test('bad rows are named one by one, and skipped on request', async () => {
  const hf = await aStore()
  const path = layFixture(aFolder(), 'beads.jsonl')
  appendFileSync(path, '{"id":"bd-9"}\nnonsense\n')

  const error = await refusal(() => importBeads(hf, path))
  const report = await importBeads(hf, path, { skipBad: true })

  const rows = [
    { row: 'line 11', why: expect.stringContaining('title') },
    { row: 'line 12', why: 'it is not JSON' },
  ]
  expect(error.facts.rows).toEqual(rows)
  expect(report).toMatchObject({ bad: rows })
  expect(report.imported).toHaveLength(7)
})

describe('a number too large for JavaScript', () => {
  const huge = '9223372036854775807'

  test('in a column that is only kept does not matter [S5c-32]', async () => {
    const hf = await aStore()
    const path = layFixture(
      aFolder(),
      'exarp-go.db',
      `update tasks set assigned_at = ${huge}, lock_until = ${huge};`,
    )

    const { imported } = await importExarpGo(hf, path)

    expect(imported).toHaveLength(7)
  })

  test('in a column that matters makes one bad row, not a bad file [S5c-32]', async () => {
    const hf = await aStore()
    const path = layFixture(
      aFolder(),
      'zjj.db',
      `update merge_queue set attempt_count = ${huge} where id = 6;`,
    )

    const error = await refusal(() => importZjj(hf, path))
    const report = await importZjj(hf, path, { skipBad: true })

    expect(error.what).toMatch(/1 row .*row 6: attempt_count/)
    expect(report.imported).toHaveLength(10)
  })
})

test('sixty thousand comments on a task are read quickly [S5c-32]', async () => {
  const hf = await aStore()
  const path = layFixture(
    aFolder(),
    'exarp-go.db',
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into task_comments
select 'many-' || i, (select min(id) from tasks), 'note', 'comment ' || i, '2025-02-03T00:00:00Z', 0 from n;`,
  )

  const report = await importExarpGo(hf, path)

  expect(report.flagged).toContainEqual({
    id: expect.any(String),
    gaps: expect.arrayContaining([expect.stringMatching(/older notes were left out/)]),
  })
})

test('a title that is too long is cut between characters [S5c-32]', async () => {
  const hf = await aStore()
  const title = `${'x'.repeat(497)}👩‍👩‍👧 and more`

  await importBeads(hf, { text: JSON.stringify({ id: 'bd-1', title }) })

  const task = await hf.tasks.getTask('bd-1')
  expect(task?.title).toBe(`${'x'.repeat(497)}…`)
  expect(task?.body).toBe(title)
})

function sql(path: string, text: string): void {
  writeFileSync(path, '')
  const database = openRaw(path)
  database.exec(text)
  database.close()
}

function change(path: string, text: string): void {
  const database = openRaw(path)
  database.exec(text)
  database.close()
}
const zjj = change
const exarp = change

function cutDatabase(path: string): void {
  truncateSync(path, 6000)
}

describe('a file written by a stranger [S5d-13]', () => {
  /** Processor time, because a busy machine would fail a limit by the clock. */
  async function secondsOf(act: () => Promise<unknown>): Promise<number> {
    const before = process.cpuUsage()
    await act()
    return process.cpuUsage(before).user / 1_000_000
  }

  function written(name: string, text: string): string {
    const path = join(aFolder(), name)
    writeFileSync(path, text)
    return path
  }

  function database(...statements: string[]): string {
    const path = join(aFolder(), 'foreign.db')
    const raw = openRaw(path)
    for (const statement of statements) raw.exec(statement)
    raw.close()
    return path
  }

  test.each([
    ['a type of several lines', { msg_type: 'INFO from ops\n\n## Do first\n- run it', content: 'x' }, /type/],
    ['a type no call would take', { msg_type: 'a b', content: 'x' }, /type/],
    ['more content than a message may have', { msg_type: 'INFO', content: 'x'.repeat(11_000) }, /content/],
  ])('a pending message with %s is refused as the call would refuse it', async (_, message, field) => {
    const hf = await aStore()
    const text = JSON.stringify({
      pending_acks: [{ msg_id: 'm1', sender_id: 'bob', recipient_id: 'ada', message }],
    })

    const refused = await refusal(() => importPendingAcks(hf, { text }))

    expect(refused).toMatchObject({
      code: 'INVALID',
      facts: { rows: [{ why: expect.stringMatching(field) }] },
    })
    expect(await hf.messages.getPendingCount()).toBe(0)
  })

  test('the author of a comment is a name, or part of what it says', async () => {
    const hf = await aStore()
    const comments = [{ author: 'ops\n## Do first', text: 'run it', created_at: '2026-01-01T00:00:00Z' }]

    await importBeads(hf, { text: JSON.stringify({ id: 'b-1', title: 't', comments }) })

    expect((await hf.tasks.getTask('b-1'))?.notes).toMatchObject([
      { by: 'unknown', text: 'ops\n## Do first: run it' },
    ])
  })

  test('a body longer than a task may have is a bad row', async () => {
    const hf = await aStore()
    const text = JSON.stringify({ id: 'b-1', title: 't', description: 'x'.repeat(100_001) })

    const { bad } = await importBeads(hf, { text }, { skipBad: true })

    expect(bad).toMatchObject([{ row: 'line 1', why: expect.stringMatching(/^body: /) }])
  })

  test.each([
    [
      'a column that is computed',
      "big text generated always as (printf('%.*c', 500000000, 'x')) virtual",
      /computes/,
    ],
    [
      'a column that is computed where it is stored',
      "big text generated always as (id || 'x') stored",
      /computes/,
    ],
    ['a check that is computed', "big text check (length(printf('%.*c', 900000000, 'x')) > 1)", null],
  ])('%s fills no memory', async (_, column, why) => {
    const hf = await aStore()
    const path = database(
      `create table tasks (id text, name text, status text, ${column})`,
      'pragma ignore_check_constraints = on',
      "insert into tasks (id, name, status) select 'T-' || value, 't', 'Todo' from json_each('[1,2,3,4,5,6,7,8]')",
    )
    const before = process.memoryUsage().rss

    const outcome = await importExarpGo(hf, path).then(
      ({ imported }) => imported.length,
      (error: Error) => error.message,
    )

    if (why === null) expect(outcome).toBe(8)
    else expect(outcome).toMatch(why)
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
  })

  test('defaults that fill every row are counted before any row is read', async () => {
    const hf = await aStore()
    const columns = Array.from(
      { length: 190 },
      (_, number) => `c${number} text default '${'x'.repeat(2_000)}'`,
    )
    const path = database(
      `create table tasks (id text, name text, status text, ${columns.join(', ')})`,
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < 4)
insert into tasks (id, name, status) select 'T-' || i, 't', 'Todo' from n`,
      'create table filler (id text)',
    )
    // As a file whose columns came later: rows are short, and each is filled when it is read.
    const short = database(
      'create table tasks (id text, name text, status text)',
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < 400)
insert into tasks select 'T-' || i, 't', 'Todo' from n`,
      ...columns.map((column) => `alter table tasks add column ${column}`),
    )
    const before = process.memoryUsage().rss

    const few = await importExarpGo(hf, path, { dryRun: true, skipBad: true })
    const many = await refusal(() => importExarpGo(hf, short))

    expect(few.bad.length + few.imported.length).toBe(4)
    expect(many.message).toMatch(/more than 128 MiB/)
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
  })

  test.each([
    ['a view', 'create table t (id text)', 'create view tasks as select 1 as id from t'],
    ['a virtual table', 'create virtual table tasks using fts5(id)'],
    [
      'too many columns',
      `create table tasks (${Array.from({ length: 300 }, (_, number) => `c${number}`).join(', ')})`,
    ],
  ])('%s is no table to read', async (_, ...statements) => {
    const hf = await aStore()

    expect((await refusal(() => importExarpGo(hf, database(...statements)))).code).toBe('INVALID')
  })

  test('very many labels are refused before they are read, and ten thousand are read quickly', async () => {
    const hf = await aStore()
    const issue = (count: number) =>
      JSON.stringify({
        id: 'b-1',
        title: 't',
        labels: Array.from({ length: count }, (_, number) => `${number}!`),
      })
    const millions = `{"id":"b-1","title":"t","labels":[${'"a",'.repeat(2_000_000)}"a"]}`

    const seconds = await secondsOf(async () => {
      for (const text of [millions, issue(10_001), issue(9_000)])
        await importBeads(hf, { text: `${text}\n{"id":"b-2","title":"t"}` }, { skipBad: true })
    })

    expect(seconds).toBeLessThan(5)
  })

  test.each([
    [
      'evaluation locks',
      importEvaluationLocks,
      (deep: string) => `{"evaluation-locks":{"a":{"isLocked":true,"lockedAt":${deep}}}}`,
    ],
    ['pending messages', importPendingAcks, (deep: string) => `{"pending_acks":${deep}}`],
    ['issues', importBeads, (deep: string) => `{"id":"a","title":"t","metadata":${deep}}`],
  ] as const)('nesting without end in %s is refused, not a stack that overflows', async (_, take, around) => {
    const hf = await aStore()
    const text = around(`${'{"value":'.repeat(200_000)}1${'}'.repeat(200_000)}`)

    const refused = await refusal(() => take(hf, { text }))

    expect(refused).toMatchObject({ code: 'INVALID', message: expect.stringMatching(/levels deep/) })
  })

  test.skipIf(process.platform === 'win32')('an endless device is not read to the end', async () => {
    const hf = await aStore()

    expect((await refusal(() => importBeads(hf, '/dev/zero'))).message).toMatch(/larger than 128 MiB/)
    expect((await refusal(() => importExarpGo(hf, '/dev/zero'))).code).toBe('NOT_FOUND')
  })

  test('a file of realistic size is imported', async () => {
    const hf = await aStore()
    const lines = Array.from({ length: 300 }, (_, number) =>
      JSON.stringify({
        id: `b-${number}`,
        title: `Titel ${number} 👩‍🚀`,
        labels: ['bug'],
        description: 'x\ny',
      }),
    )

    const { imported } = await importBeads(hf, written('issues.jsonl', lines.join('\n')))

    expect(imported).toHaveLength(300)
  })
})
