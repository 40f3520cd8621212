/** Transactions that other programs leave open on the server are named, with what they keep back. */
import { randomBytes } from 'node:crypto'
import { open } from 'holdfast'
import { Client } from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { aShell } from '../support/cli.ts'
import { postgresServer } from '../support/postgres-site.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('doctor on PostgreSQL', () => {
  const server = postgresServer(url as unknown as string, inject('schemaPrefix'))

  async function openStore() {
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const hf = await open(site.url, { background: false })
    onTestFinished(() => hf.close())
    return hf
  }

  /** Another program, inside a transaction. */
  async function aProgram(statement: string, { database = '' } = {}) {
    const program = `forgotten-${randomBytes(4).toString('hex')}`
    const at = new URL(url as unknown as string)
    if (database) at.pathname = `/${database}`
    const client = new Client({ connectionString: at.href, application_name: program })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('begin isolation level repeatable read')
    await client.query(statement)
    return { client, program }
  }

  test.each([
    ['has written', 'select pg_current_xact_id()', 'newer events stay hidden until it ends'],
    ['has only read', 'select 1', 'rows replaced since then cannot be cleaned up'],
  ])('names a transaction that %s and is open for long, until it ends', async (_, statement, keepsBack) => {
    const hf = await openStore()
    const { client, program } = await aProgram(statement)
    const findings = async () => {
      const visit = await hf.fleet.doctor({ longTransactionMs: 0 })
      return visit.findings.filter(({ what }) => what.includes(program))
    }

    const before = await findings()
    await client.query('commit')
    const after = await findings()

    expect(before).toEqual([
      {
        check: 'transactions',
        level: 'warning',
        what: expect.stringContaining(keepsBack),
        remedy: expect.stringMatching(/select pg_terminate_backend\(\d+\)$/),
        isFixable: false,
      },
    ])
    expect(after).toEqual([])
  })

  test('is named by the command line after the time it is given [S6-4]', async () => {
    const shell = aShell()
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const { url: store } = site
    const { program } = await aProgram('select pg_current_xact_id()')

    const usual = await shell.run('doctor', '--store', store)
    const strict = await shell.run('doctor', '--store', store, '--long-transaction', '1ms')

    expect(usual.stdout).not.toContain(program)
    expect(strict.stdout).toContain(program)
  })

  test.each([
    ['has written is named: events wait for it too', 'select pg_current_xact_id()', 1],
    ['has only read is not: it keeps no row of this one', 'select 1', 0],
  ])('of another database, one that %s', async (_, statement, count) => {
    const hf = await openStore()
    const { program } = await aProgram(statement, { database: 'template1' })

    const { findings } = await hf.fleet.doctor({ longTransactionMs: 0 })

    expect(findings.filter(({ what }) => what.includes(program))).toHaveLength(count)
  })

  test('does not mention transactions that end within seconds', async () => {
    const hf = await openStore()
    const { program } = await aProgram('select pg_current_xact_id()')

    const { findings } = await hf.fleet.doctor()

    expect(findings.filter(({ what }) => what.includes(program))).toEqual([])
    expect(findings).toContainEqual(expect.objectContaining({ check: 'transactions' }))
  })
})
