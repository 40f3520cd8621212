/** The command line on a real PostgreSQL server: the same verbs, the server's durability, leases kept at home. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
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

  test('claims and finishes without a token, which is kept in the user’s state folder', async () => {
    const shell = await aServerShell()

    await shell.run('queue', 'add', 'builds', '{"n":1}', '--key', 'main')
    const claimed = await shell.run('queue', 'next', 'builds')
    const kept = readdirSync(join(shell.folder, 'state', 'holdfast'))
    const done = await shell.run('queue', 'complete', 'builds', 'main')

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

  test('doctor uses the server’s clock and checks no disk', async () => {
    const shell = await aServerShell()

    const { stdout } = await shell.run('doctor')

    expect(stdout).toMatch(/^ok +clock +leases go by the server clock$/m)
    expect(stdout).not.toMatch(/ disk /)
  })

  test('a lease is shown in wall time, and explained', async () => {
    const shell = await aServerShell()
    const before = Date.now()
    await shell.run('lock', 'acquire', 'deploy', '--lease', '10m')

    const { stdout } = await shell.run('explain', 'deploy')

    const until = Date.parse(/^until +(\S+)$/m.exec(stdout)?.[1] ?? '')
    expect(Math.abs(until - before - 600_000)).toBeLessThan(30_000)
  })

  test('a wait wakes when something is added', async () => {
    const shell = await aServerShell()
    const waiting = shell.run('queue', 'next', 'q', '--wait', '20s', '--agent', 'bob')

    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('k (') })
  })

  test('run completes the item after its command', async () => {
    const shell = await aServerShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const { code } = await shell.run('run', '--queue', 'q', '--', 'sh', '-c', 'test "$HOLDFAST_KEY" = k')

    expect(code).toBe(0)
    expect(await shell.run('queue', 'show', 'q', 'k')).toMatchObject({
      stdout: expect.stringMatching(/^state +done /m),
    })
  })

  /** Runs a command under a lock and answers what it was told by its environment, and by the command lines above it. */
  async function toldBy(
    shell: Shell & { readonly env: Record<string, string> },
    env: object,
    ...options: string[]
  ) {
    const script =
      'echo "$HOLDFAST_URL $(printenv PGPASSWORD || echo none)" >told; cat /proc/$$/cmdline /proc/$PPID/cmdline >lines'
    const { code } = await shell.runWith(
      { env: { ...shell.env, ...env } },
      ...['run', '--lock', 'deploy', ...options, '--', 'sh', '-c', script],
    )
    const read = (file: string) => readFileSync(join(shell.folder, file), 'utf8').trim()
    return { code, told: read('told'), lines: read('lines') }
  }

  test('run gives its command the URL with the password, in the environment only [S5d-14]', async () => {
    const shell = await aServerShell()

    const { code, told, lines } = await toldBy(shell, { PGPASSWORD: 'other' })

    expect(code).toBe(0)
    expect(told).toBe(`${shell.env.HOLDFAST_URL} other`)
    expect(lines).not.toContain('secret')
  })

  test('with --no-store-password it gives the URL without, and the command can bring its own [S5d-14]', async () => {
    const shell = await aServerShell()
    const withoutPassword = shell.env.HOLDFAST_URL?.replace(':secret@', '@')

    const inUrl = await toldBy(shell, { PGPASSWORD: 'other' }, '--no-store-password')

    expect(inUrl).toMatchObject({ code: 0, told: `${withoutPassword} other` })
  })

  test('with --no-store-password it leaves out PGPASSWORD too, if that is what opened the store [S5d-14]', async () => {
    const shell = await aServerShell()
    const url = (shell.env.HOLDFAST_URL as string).replace(':secret@', '@')
    vi.stubEnv('PGPASSWORD', 'secret')
    onTestFinished(() => {
      vi.unstubAllEnvs()
    })

    const inVariable = await toldBy(shell, { HOLDFAST_URL: url, PGPASSWORD: 'secret' }, '--no-store-password')

    expect(inVariable).toMatchObject({ code: 0, told: `${url} none` })
  })
})
