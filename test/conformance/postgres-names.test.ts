/** Names that batches lock on the server: its lock table is small, and shared by all its users. */
import { type Holdfast, open } from 'holdfast'
import { Client } from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { postgresServer } from '../support/postgres-site.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

const calls = 300
const numbers = Array.from({ length: calls }, (_, number) => number)

describe.skipIf(url === undefined)('names on PostgreSQL', () => {
  const server = postgresServer(url as unknown as string, inject('schemaPrefix'))

  async function openStore(handles = 1) {
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const opened: Holdfast[] = []
    for (let count = 0; count < handles; count++) {
      const hf = await open(site.url, { background: false, agent: `agent-${count}` })
      onTestFinished(() => hf.close())
      opened.push(hf)
    }
    const schema = new URL(site.url).searchParams.get('schema') as string
    return { opened, hf: opened[0] as Holdfast, schema }
  }

  /** How many names a batch has locked by the time it begins to work; it goes on afterwards. */
  async function lockedBy(schema: string, ask: () => Promise<unknown>): Promise<number> {
    const client = new Client({ connectionString: url as unknown as string })
    await client.connect()
    onTestFinished(() => client.end())
    const counting = `select count(*)::int as locks from pg_locks
      where locktype = 'advisory' and granted and pid in (
        select pid from pg_locks where relation = '${schema}.lane'::regclass and not granted
      )`
    await client.query('begin')
    await client.query(`lock table ${schema}.lane in exclusive mode`)
    const asked = ask()
    let locks = 0
    while (locks === 0) locks = (await client.query<{ locks: number }>(counting)).rows[0]?.locks ?? 0
    await client.query('commit')
    await asked
    return locks
  }

  const all = (call: (number: number) => Promise<unknown>) => Promise.all(numbers.map(call))

  test.each<[string, (hf: Holdfast) => Promise<unknown>]>([
    ['adds with a key', (hf) => all((n) => hf.queue('q').add(n, { key: `k${n}` }))],
    ['adds with a dedupe key', (hf) => all((n) => hf.queue('q').add(n, { dedupeKey: `k${n}` }))],
    ['submissions', (hf) => all((n) => hf.queue('m').submit(`k${n}`, { headSha: 'abcd' }))],
    [
      'requests with an idempotency key',
      (hf) => all((n) => hf.queue('q').add(n, { idempotencyKey: `k${n}` })),
    ],
    ['documents', (hf) => all((n) => hf.state(`k${n}`).set(n))],
    ['locks', (hf) => all((n) => hf.locks.acquireLock(`l${n}`, { renew: false, leaseMs: 60_000 }))],
    ['adds to queues of their own', (hf) => all((n) => hf.queue(`q${n}`).add(n))],
    [
      'waits in line, each by an agent of its own',
      (hf) => all((n) => hf.execute('locks.acquireLock', { name: 'busy', wait: true }, { agent: `a${n}` })),
    ],
    [
      'runs',
      (hf) => all((n) => hf.locks.acquireLock(`l${n}`, { run: `r${n}`, renew: false, leaseMs: 60_000 })),
    ],
    ['recipients', (hf) => all((n) => hf.messages.register(`r${n}`))],
  ])(
    'a batch of many %s takes no more than a few dozen places in the lock table [S5c-24]',
    async (_, ask) => {
      const { hf, schema } = await openStore()
      await hf.locks.acquireLock('busy', { agent: 'holder', renew: false, leaseMs: 60_000 })

      const locks = await lockedBy(schema, () => ask(hf))

      expect(locks).toBeLessThanOrEqual(2 * 64 + 10)
    },
  )

  test('of many concurrent adds of one key, single and in bulk, one succeeds [S5c-24]', async () => {
    const { hf, opened } = await openStore(3)
    const [many, alsoMany, few] = opened as [Holdfast, Holdfast, Holdfast]
    const keys = numbers.slice(0, 100).map((number) => `k${number}`)
    const addAll = (each: Holdfast, some: readonly string[]) =>
      Promise.allSettled(some.map((key) => each.queue('q').add(null, { key })))

    const settled = await Promise.all([
      addAll(many, keys),
      addAll(alsoMany, keys.toReversed()),
      ...keys.map((key) => addAll(few, [key])),
    ])

    const failures = settled.flat().flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []))
    expect(failures).toHaveLength(2 * keys.length)
    expect(new Set(failures)).toEqual(new Set(['DUPLICATE']))
    expect((await hf.queue('q').list({ limit: 200 })).items).toHaveLength(keys.length)
  })
})
