/** On a server with statistics of a large store, no statement reads more the longer the store has been in use. */
import { type Holdfast, open } from 'holdfast'
import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { populate } from '../support/populated.ts'
import { postgresServer } from '../support/postgres-site.ts'
import { growing, small } from '../support/store-indexes.ts'

const [url] = [
  process.env.HOLDFAST_TEST_POSTGRES_URL ?? [],
  inject('postgresUrls' as never) ?? [],
].flat() as string[]

/** Statements that may read on and on, by a part of their text, each for a reason. */
const exceptions: readonly (readonly [part: string, because: string])[] = [
  ['group by t.state', '`queue.stats` counts every item, and says so'],
]

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly 'Recheck Cond'?: string
  readonly Filter?: string
  readonly 'Plan Rows': number
  readonly Plans?: readonly Node[]
}

test.skipIf(url === undefined)('every statement finds its rows by an index [S5e-5]', async (context) => {
  const site = await postgresServer(url as string, inject('schemaPrefix')).createEmptySite()
  onTestFinished(() => site.remove())
  const schema = new URL(site.url).searchParams.get('schema') as string
  const texts = watchStatements()
  const hf = await open(site.url, { background: false, logger: false })
  onTestFinished(() => hf.close())
  const admin = new pg.Client({ connectionString: url as string })
  await admin.connect()
  onTestFinished(() => admin.end())
  const { rows } = await admin.query<{ version: number }>(
    "select current_setting('server_version_num')::int as version",
  )
  if (Number(rows[0]?.version) < 160_000) context.skip('an older server cannot plan without values')

  await populate(hf)
  await lookAround(hf)
  await multiply(admin, schema)
  // As the engine sets them.
  for (const way of ['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan', 'material'])
    await admin.query(`set enable_${way} = off`)
  const faults: string[] = []
  const sent = [...texts].filter(
    (text) => /^(select|with|update|delete)\b/.test(text) && text.includes(schema),
  )
  for (const text of sent) {
    if (exceptions.some(([part]) => text.includes(part))) continue
    const { rows: plans } = await admin.query<{ 'QUERY PLAN': readonly { Plan: Node }[] }>(
      `explain (generic_plan, format json) ${text}`,
    )
    const fault = plans[0] && faultOf(plans[0]['QUERY PLAN'][0]?.Plan as Node)
    if (fault) faults.push(`${fault}: ${text}`)
  }

  expect(sent.length).toBeGreaterThan(120)
  expect(faults).toEqual([])
})

/** Texts that are sent to be prepared, from now on. */
function watchStatements(): Set<string> {
  const texts = new Set<string>()
  const { prototype } = pg.Connection as unknown as {
    prototype: { parse(query: { text: string }, more?: boolean): void }
  }
  const { parse } = prototype
  prototype.parse = function (query, more) {
    texts.add(query.text)
    parse.call(this, query, more)
  }
  onTestFinished(() => {
    prototype.parse = parse
  })
  return texts
}

/** What people and agents ask for; the rest was asked for while the store was filled. */
async function lookAround(hf: Holdfast): Promise<void> {
  const jobs = hf.queue('jobs')
  for (const options of [{}, { states: ['failed'] }, { states: ['running'] }, { states: ['done'] }])
    await jobs.list({ ...options, limit: 1 })
  await jobs.list({ quarantined: true })
  await hf.tasks.listTasks({ labels: ['docs'], limit: 1 })
  // One list, one of two values, several with and without a bound, and a search that goes on by reads.
  const filters = [{}, { mine: true }, { labels: ['docs'] }, { labels: ['docs', 'none'], maxPriority: 3 }]
  for (const filter of [...filters, { anyHost: true, maxPriority: 3 }, { anyHost: true, owner: 'olga' }])
    await hf.tasks.claimNext({ ...filter, agent: 'nobody' })
  for (const at of [null, { by: 0, from: { priority: 5, addedAt: 0, id: '' } }])
    await hf.execute('tasks.seek', { labels: ['docs'], mine: true, at, isWhole: false })
  await hf.tasks.detectStaleLocks()
  await hf.agents.list()
  await hf.fleet.status()
  await hf.fleet.prime()
  await hf.fleet.doctor()
  for (const ref of ['jobs', 'first', 'deploy', 'run-1', 'holder']) await hf.fleet.explain(ref)
  for (const input of [{}, { subject: 'lock' }, { kinds: ['lock.acquired'], queue: 'jobs' }] as const)
    for (const newest of [false, true]) await hf.execute('events.list', { ...input, newest })
  await hf.messages.inbox({ agent: 'bob' })
  await hf.messages.processRetries()
  await hf.recovery.getRecoveryStats()
  await hf.recovery.detectAndRecoverStale()
  await jobs.cleanup({ maxAgeMs: 3_600_000 })
  for (const options of [{}, { outcome: 'failed' as const }]) await hf.runs.outcomes('run-1', options)
  const past = { from: 1, ageMs: 0 }
  await hf.execute('retention.run', { items: past, runs: past, answers: past, instances: past })
  await hf.state.list({ prefix: 'c' })
  await hf.tasks.addTask('Print the guide', { labels: ['docs'], owner: 'olga' })
}

/** Thousands of rows of everything that grows, so that the planner knows it. */
async function multiply(admin: pg.Client, schema: string): Promise<void> {
  const copies = [
    ['item', 'id', "phase = 'closed' and state = 'done'", 10_000],
    ['item', 'id', "phase = 'ready'", 4000],
    ['ready_word', 'item', "field = 'owner'", 4000],
    ['ready_word', 'item', "field = 'host'", 4000],
    ['event', 'seq', "kind = 'item.claimed'", 10_000],
    ['event', 'seq', "subject = 'state'", 1000],
    ['message', 'id', 'closed_at is null', 3000],
    ['message', 'id', 'closed_at is not null', 3000],
    ['delivery', 'id', 'true', 3000],
    ['answer', 'key', 'true', 3000],
    ['outcome', 'id', 'true', 3000],
    ['image', 'id', 'true', 3000],
    ['state', 'key', 'true', 3000],
  ] as const
  for (const [table, key, condition, count] of copies) {
    const { rows } = await admin.query<{ name: string }>(
      'select column_name as name from information_schema.columns where table_schema = $1 and table_name = $2',
      [schema, table],
    )
    const columns = rows.map(({ name }) => name).filter((name) => name !== 'row')
    const values = columns.map((name) => {
      if (name === 'key' || name === 'dedupe_key') return 'gen_random_uuid()::text'
      if (table === 'delivery' && name === 'message') return 'gen_random_uuid()::text'
      if (name !== key) return `model.${name}`
      return key === 'seq' ? "nextval('copies')" : 'gen_random_uuid()::text'
    })
    if (key === 'seq') await admin.query(`create temporary sequence if not exists copies minvalue -1000000`)
    await admin.query(
      `insert into ${schema}.${table} (${columns.join(', ')})
       select ${values.join(', ')} from (select * from ${schema}.${table} where ${condition} limit 1) model, generate_series(1, ${count})`,
    )
  }
  const grown = new Set(copies.map(([table]) => `${schema}.${table}`))
  await admin.query(`analyze ${[...grown].join(', ')}`)
}

/** What stands right below a limit is in order, and read no further than that. */
function faultOf(node: Node, isLimited = false): string | null {
  const { 'Node Type': type, 'Relation Name': table = '' } = node
  const index = node['Index Name'] ?? node.Plans?.[0]?.['Index Name'] ?? ''
  const condition = node['Index Cond'] ?? node['Recheck Cond'] ?? ''
  const isWide = type === 'Seq Scan' || /^\(namespace = [^)]*\)$/.test(condition)
  if (growing.includes(table) && isWide && !(isLimited && node.Filter === undefined) && !small.test(index))
    return `${type} on ${table} by ${index}`
  if (type.includes('Sort') && node['Plan Rows'] > 2000) return `${type} of ${node['Plan Rows']} rows`
  return (
    (node.Plans ?? []).map((part) => faultOf(part, type === 'Limit')).find((fault) => fault !== null) ?? null
  )
}
