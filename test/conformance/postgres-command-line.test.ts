/** The command line on a real PostgreSQL server: the same verbs, the server's durability, leases kept at home. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { aShell, type Shell } from '../support/cli.ts'
import { postgresServer } from '../support/postgres-site.ts'

const [url] = [process.env.HOLDFAST_TEST_POSTGRES_URL ?? [], inject('postgresUrls' as never) ?? []].flat()

describe.skipIf(url === undefined)('the command line on PostgreSQL', () => {
  const server = postgresServer(url as unknown as string, inject('schemaPrefix'))

  async function aServerShell(): Promise<Shell & { readonly env: Record<string, string> }> {
    const site = await server.createSite()
    onTestFinished(() => site.remove())
    const shell = aShell()
    const env = { HOLDFAST_URL: site.url, XDG_STATE_HOME: join(shell.folder, 'state') }
    return { ...shell, env, run: (...args) => shell.runWith({ env }, ...args) }
  }

  test('claims and finishes without a token, which is kept in the state of the user', async () => {
    const shell = await aServerShell()

    await shell.run('queue', 'add', 'builds', '{"n":1}', '--key', 'main')
    const claimed = await shell.run('queue', 'next', 'builds')
    const kept = readdirSync(join(shell.folder, 'state', 'holdfast'))
    const done = await shell.run('queue', 'done', 'builds', 'main')

    expect(claimed.code).toBe(0)
    expect(kept).toEqual([expect.stringMatching(/^[0-9a-f]{16}-leases$/)])
    expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining('done') })
  })

  test('init shows no password', async () => {
    const shell = await aServerShell()

    const made = await shell.run('init')

    expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining('postgres://') })
    expect(made.stdout).not.toContain('secret')
  })

  test('status shows how durable the server is, in text and JSON', async () => {
    const shell = await aServerShell()

    const { stdout } = await shell.run('status')
    const json = JSON.parse((await shell.run('status', '--json')).stdout)

    expect(stdout).toMatch(
      /^postgres \d+\S*, durability \w+, fsync (on|off), synchronous_commit \w+, standbys \w+/m,
    )
    expect(json.store).toMatchObject({
      engine: 'postgres',
      server: {
        fsync: expect.any(Boolean),
        synchronousCommit: expect.any(String),
        synchronousStandbys: expect.any(String),
      },
    })
  })

  test('doctor goes by the clock of the server and looks at no disk', async () => {
    const shell = await aServerShell()

    const { stdout } = await shell.run('doctor')

    expect(stdout).toMatch(/^ok +clock +leases are counted by the clock of the server$/m)
    expect(stdout).not.toMatch(/ disk /)
  })

  test('a lease is told in wall time, and explained', async () => {
    const shell = await aServerShell()
    const before = Date.now()
    await shell.run('lock', 'acquire', 'deploy', '--lease', '10m')

    const { stdout } = await shell.run('explain', 'deploy')

    const until = Date.parse(/^until +(\S+)$/m.exec(stdout)?.[1] ?? '')
    expect(Math.abs(until - before - 600_000)).toBeLessThan(30_000)
  })

  test('a wait hears of what is added', async () => {
    const shell = await aServerShell()
    const waiting = shell.run('queue', 'next', 'q', '--wait', '20s', '--agent', 'bob')

    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('k (') })
  })

  test('run completes what its command did', async () => {
    const shell = await aServerShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const { code } = await shell.run('run', '--queue', 'q', '--', 'sh', '-c', 'test "$HOLDFAST_KEY" = k')

    expect(code).toBe(0)
    expect(await shell.run('queue', 'show', 'q', 'k')).toMatchObject({
      stdout: expect.stringMatching(/^state +done /m),
    })
  })
})
