/** The SQL fence in a database of the user's own on a real PostgreSQL server: its statement, and its rows as locks. */
import { randomBytes } from 'node:crypto'
import { createSqlFence, type Grant, type SqlFence } from 'holdfast/fences'
import { Client } from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { refusal, refusalCode } from '../support/outcomes.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('a SQL fence on PostgreSQL', () => {
  test('refuses the whole transaction of a late holder, and keeps what its successor wrote [Z7]', async () => {
    const { fence, balance, connect } = await createAccounts()
    const client = await connect()
    await setBalance(client, fence, r(6), 200)

    const refused = await refusal(() => setBalance(client, fence, r(5), 100))

    expect(refused).toMatchObject({ code: 'LEASE_LOST', facts: { subject: 'r', token: 5, currentToken: 6 } })
    expect(await balance()).toBe(200)
  })

  test('lets the same holder through again, and its successor, with tokens as large as those of a store', async () => {
    const { fence, balance, connect } = await createAccounts()
    const client = await connect()

    await setBalance(client, fence, r(5), 1)
    await setBalance(client, fence, r(5), 2)
    await setBalance(client, fence, r(1_800_000_000_000_001), 3)

    expect(await balance()).toBe(3)
    expect(await refusalCode(() => setBalance(client, fence, r(1_800_000_000_000_000), 4))).toBe('LEASE_LOST')
  })

  test.each([
    ['has a row', r(1)],
    ['is new to the fence', null],
  ])(
    'of two at once on a resource that %s, the late one waits for the other and is refused [Z7]',
    async (_, before) => {
      const { fence, balance, connect } = await createAccounts()
      const [ahead, late] = [await connect(), await connect()]
      if (before) await setBalance(ahead, fence, before, 1)
      await ahead.query('begin')
      await pass(ahead, fence, r(6))

      const waiting = refusal(() => setBalance(late, fence, r(5), 100))
      await untilItWaits(ahead, late)
      await setIn(ahead, 200)
      await ahead.query('commit')

      expect(await waiting).toMatchObject({ code: 'LEASE_LOST' })
      expect(await balance()).toBe(200)
    },
  )

  test('of two at once, the earlier holder may finish first; its successor acts after it', async () => {
    const { fence, balance, connect } = await createAccounts()
    const [earlier, successor] = [await connect(), await connect()]
    await earlier.query('begin')
    await pass(earlier, fence, r(5))

    const waiting = setBalance(successor, fence, r(6), 200)
    await untilItWaits(earlier, successor)
    await setIn(earlier, 100)
    await earlier.query('commit')
    await waiting

    expect(await balance()).toBe(200)
    expect(await refusalCode(() => setBalance(earlier, fence, r(5), 100))).toBe('LEASE_LOST')
  })

  test.each(['rolls back', 'dies'])('a holder that raised and %s has raised nothing [Z7]', async (how) => {
    const { fence, balance, connect } = await createAccounts()
    const [victim, other] = [await connect(), await connect()]
    await victim.query('begin')
    await pass(victim, fence, r(6))
    await setIn(victim, 200)

    const waiting = setBalance(other, fence, r(5), 100)
    await untilItWaits(victim, other)
    if (how === 'rolls back') await victim.query('rollback')
    else victim.connection.stream.destroy()
    await waiting

    expect(await balance()).toBe(100)
  })

  test.each(['repeatable read', 'serializable'])(
    'under %s the late one gets an error and has no effect',
    async (isolation) => {
      const { fence, balance, connect } = await createAccounts()
      const [ahead, late] = [await connect(), await connect()]
      await setBalance(ahead, fence, r(1), 1)
      await late.query(`begin isolation level ${isolation}`)
      await late.query('select 1 from account')
      await setBalance(ahead, fence, r(6), 200)

      const acting = pass(late, fence, r(5)).then(() => setIn(late, 100))

      await expect(acting).rejects.toMatchObject({ code: '40001' })
      await late.query('rollback')
      expect(await balance()).toBe(200)
    },
  )

  test('keeps resources with any characters apart, and executes none of them', async () => {
    const { fence, connect, table } = await createAccounts()
    const client = await connect()
    const names = ["r'; drop table account; --", 'R', 'r', 'größe 東京 %_', '$1', 'r'.repeat(512)]

    for (const resource of names) await setBalance(client, fence, { resource, token: 5 }, 1)

    const { rows } = await client.query<{ resource: string }>(`select resource from ${table}`)
    expect(rows.map(({ resource }) => resource).toSorted()).toEqual([...new Set(names)].toSorted())
  })

  test('its table is created once, however often it is asked for, and refuses invalid tokens', async () => {
    const { fence, connect, table } = await createAccounts()
    const client = await connect()

    await client.query(fence.createTable)

    await expect(client.query(`insert into ${table} values ('r', 0)`)).rejects.toMatchObject({
      code: '23514',
    })
    await expect(client.query(`insert into ${table} values (null, 1)`)).rejects.toMatchObject({
      code: '23502',
    })
  })
})

function r(token: number): Grant {
  return { resource: 'r', token }
}

/** An account in a schema of its own, guarded by a fence beside it. */
async function createAccounts() {
  const schema = `fence_${randomBytes(8).toString('hex')}`
  const table = `${schema}.guard`
  const fence = createSqlFence({ dialect: 'postgres', table })
  const clients: Client[] = []
  const connect = async () => {
    const client = new Client({ connectionString: url ?? '' })
    // A test may end a connection behind its back.
    client.on('error', () => {})
    await client.connect()
    await client.query(`set search_path to ${schema}`)
    clients.push(client)
    return client as Connected
  }
  const admin = await connect()
  await admin.query(`create schema ${schema}`)
  await admin.query(fence.createTable)
  await admin.query('create table account (balance integer); insert into account values (0)')
  onTestFinished(async () => {
    for (const client of clients.slice(1)) await client.end().catch(() => {})
    await admin.query(`drop schema ${schema} cascade`)
    await admin.end()
  })
  const balance = async () => (await admin.query('select balance from account')).rows[0]?.balance
  return { fence, table, connect, balance }
}

/** With what its types leave out. */
type Connected = Client & {
  readonly processID: number
  readonly connection: { readonly stream: { destroy(): void } }
}

function pass(client: Client, fence: SqlFence, grant: Grant): Promise<void> {
  return fence.pass(grant, async ({ text, values }) => (await client.query(text, [...values])).rows)
}

function setIn(client: Client, balance: number) {
  return client.query('update account set balance = $1', [balance])
}

/** The user's own transaction: the fence, then the effect. */
async function setBalance(client: Client, fence: SqlFence, grant: Grant, balance: number): Promise<void> {
  await client.query('begin')
  try {
    await pass(client, fence, grant)
    await setIn(client, balance)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

/** The server says so itself, asked over a connection that does not wait. */
async function untilItWaits(free: Connected, waiting: Connected): Promise<void> {
  const isWaiting = async () => {
    const { rows } = await free.query(
      "select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'",
      [waiting.processID],
    )
    return rows.length > 0
  }
  while (!(await isWaiting())) await new Promise((resolve) => setImmediate(resolve))
}
