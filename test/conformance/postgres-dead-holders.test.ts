/** Recovery skips rows that other transactions have locked, and must not forget them. */
import { open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { Client } from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { claimed } from '../support/outcomes.ts'
import { postgresServer } from '../support/postgres-site.ts'
import { machine } from '../support/processes.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('a dead holder on PostgreSQL', () => {
  const server = postgresServer(url as unknown as string, inject('schemaPrefix'))

  test('whose item another transaction has locked is healed once that ends [S5c-1]', async () => {
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const env = new MovableEnvironment()
    const host = machine(env)
    const opened = async (agent: string, pid: number) => {
      const hf = await open(site.url, {
        agent,
        environment: host.process(pid),
        leaseMs: 3_600_000,
        recovery: false,
        logger: false,
      })
      onTestFinished(() => hf.close())
      return hf
    }
    const victim = await opened('victim', 101)
    const survivor = await opened('survivor', 102)
    const q = survivor.queue('jobs')
    await q.addMany([{ payload: 1 }, { payload: 2 }])
    const { item } = await claimed(victim.queue('jobs').next())
    await claimed(victim.queue('jobs').next())
    const schema = new URL(site.url).searchParams.get('schema')
    const other = new Client({ connectionString: url as unknown as string })
    await other.connect()
    onTestFinished(() => other.end())
    await other.query('begin')
    await other.query(`select 1 from ${schema}.item where id = $1 for update`, [item.id])
    host.kill(101)

    const first = await survivor.recovery.detectAndRecoverStale()
    const stats = await survivor.recovery.getRecoveryStats()
    await other.query('rollback')
    const second = await survivor.recovery.detectAndRecoverStale()

    expect(first).toMatchObject({ entriesReclaimed: 1, instancesEnded: 0 })
    expect(stats.entriesReclaimed).toBe(1)
    expect(second).toMatchObject({ entriesReclaimed: 1, instancesEnded: 1, ids: [item.id] })
    expect(await q.stats()).toMatchObject({ pending: 2, processing: 0 })
  })
})
