/** Writers of one row: one that waited for another notices that the row has changed since it was read. */
import { open } from 'holdfast'
import { Client } from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { postgresServer } from '../support/postgres-site.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('writers that wait for each other on PostgreSQL', () => {
  const server = postgresServer(url as unknown as string, inject('schemaPrefix'))

  async function openStores() {
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const openOne = async () => {
      const hf = await open(site.url, { background: false, logger: false })
      onTestFinished(() => hf.close())
      return hf
    }
    const schema = new URL(site.url).searchParams.get('schema') as string
    return { left: await openOne(), right: await openOne(), schema }
  }

  async function connect() {
    const client = new Client({ connectionString: url as unknown as string })
    await client.connect()
    onTestFinished(() => client.end())
    return client
  }

  async function untilWaiting(client: Client, schema: string, count: number): Promise<void> {
    const asked = `select count(*)::int as waiting from pg_stat_activity
      where wait_event_type = 'Lock' and query like '%' || $1 || '%state_floor%' and pid <> pg_backend_pid()`
    for (;;) {
      const { rows } = await client.query<{ waiting: number }>(asked, [schema])
      if (Number(rows[0]?.waiting) >= count) return
    }
  }

  test('of two concurrent deletes, the one with the lower version does not lower the floor [S5b-1]', async () => {
    const { left, right, schema } = await openStores()
    await left.state('first').set(0)
    await left.state('first').delete()
    const [much, little] = [left.state('much'), right.state('little')]
    for (let version = 0; version < 5; version++) await much.set(version)
    const { version: highest } = await much.set('its first life')
    await little.set(0)
    const [holder, watcher] = [await connect(), await connect()]
    await holder.query('begin')
    await holder.query(`select * from ${schema}.state_floor for update`)

    const first = much.delete()
    await untilWaiting(watcher, schema, 1)
    const second = little.delete()
    await untilWaiting(watcher, schema, 2)
    await holder.query('commit')
    await Promise.all([first, second])
    const reborn = await much.set('its second life')
    const late = await refusal(() => right.state('much').set('late', { expectedVersion: highest }))

    expect(reborn.version).toBeGreaterThan(highest)
    expect(late).toMatchObject({ code: 'VERSION_MISMATCH' })
  })

  test('any number of documents can be deleted in one batch [S5b-1]', async () => {
    const { left } = await openStores()
    const names = Array.from({ length: 20 }, (_, number) => `document ${number}`)
    for (const [number, name] of names.entries()) {
      await left.state(name).set(0)
      if (number === 7) for (let version = 0; version < 30; version++) await left.state(name).set(version)
    }
    const highest = (await left.state('document 7').get())?.version ?? 0

    const deleted = await Promise.all(names.map((name) => left.state(name).delete()))
    const reborn = await left.state('document 3').set(0)

    expect(deleted).toEqual(names.map(() => true))
    expect(reborn.version).toBeGreaterThan(highest)
  })
})
