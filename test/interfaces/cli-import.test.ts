/** `holdfast import`: a store is made for nothing less than an import, and people see how far it is. */
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { aShell, type Shell } from '../support/cli.ts'
import { type Fixture, fixtures, layFixture } from '../support/fixtures.ts'

const verbOf = (fixture: Fixture) => fixture.replace(/\..*$/, '')

/** A folder with one file in it. */
function shellWith(fixture: Fixture): Shell {
  const shell = aShell()
  layFixture(shell.folder, fixture)
  return shell
}

describe.each(fixtures)('import of %s', (fixture) => {
  test('as a dry run creates no store, and reports what the import then does', async () => {
    const shell = shellWith(fixture)

    const dry = await shell.json<{ imported: string[] }>('import', verbOf(fixture), fixture, '--dry-run')
    const left = readdirSync(shell.folder)
    const done = await shell.json<{ imported: string[] }>('import', verbOf(fixture), fixture)

    expect(left).toEqual([fixture])
    expect(dry).toMatchObject({ schemaVersion: 1, from: verbOf(fixture), dryRun: true })
    expect(dry.imported).toEqual(done.imported)
    expect(done.imported.length).toBeGreaterThan(1)
    expect(readdirSync(shell.folder).sort()).toEqual(['.holdfast', fixture].sort())
  })

  test('shows its progress on a terminal, and nowhere else', async () => {
    const shell = shellWith(fixture)
    const args = ['import', verbOf(fixture), fixture]

    const off = await shell.run(...args, '--dry-run')
    const json = await shell.runWith({ isTalkSeen: true, talkColumns: 80 }, ...args, '--dry-run', '--json')
    const seen = await shell.runWith({ isTalkSeen: true, talkColumns: 80 }, ...args)

    expect(off.stderr).toBe('')
    expect(json.stderr).toBe('')
    expect(seen.stderr).toMatch(/█.* 100 % {2}importing/)
    expect(seen.stdout).not.toContain('█')
  })
})

test.runIf(process.platform !== 'win32')('a pipe is imported whole, also into a new store', async () => {
  const shell = shellWith('beads.jsonl')
  const pipe = join(shell.folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const writer = spawn('sh', ['-c', 'exec cat beads.jsonl > pipe'], { cwd: shell.folder, stdio: 'ignore' })
  onTestFinished(() => void writer.kill('SIGKILL'))

  const piped = await shell.json<{ imported: string[] }>('import', 'beads', 'pipe')
  const again = await shell.json<{ known: string[] }>('import', 'beads', 'beads.jsonl')

  expect(piped.imported.length).toBeGreaterThan(1)
  expect(again.known).toEqual(piped.imported)
})

test.each([
  ['missing', 'missing.jsonl'],
  ['below a file', 'beads.jsonl/below'],
  ['too long', 'x'.repeat(300)],
])('a path to no file is reported as one that cannot be read: %s', async (_, path) => {
  const shell = shellWith('beads.jsonl')

  const answer = await shell.run('import', 'beads', path)

  expect(answer).toMatchObject({ code: 3, stderr: expect.stringContaining('give the path of') })
})

test('a refused file creates no store, names its rows and exits with code 2', async () => {
  const shell = aShell()

  const { code, stderr, stdout } = await shell.runWith(
    { stdin: '{"id":"bd-1","title":"fine"}\n{"id":"bd-2"}\nnonsense\n' },
    'import',
    'beads',
    '-',
  )

  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).toContain('2 rows of the file of beads cannot be imported: line 2')
  expect(stderr).toContain('line 3: it is not JSON')
  expect(stderr).toContain('--skip-bad')
  expect(readdirSync(shell.folder)).toEqual([])
})

test('entries of zjj go to the named queue', async () => {
  const shell = shellWith('zjj.db')

  await shell.run('import', 'zjj', 'zjj.db', '--queue', 'trunk')

  expect(await shell.json('queue', 'describe', 'trunk')).toMatchObject({ queue: { workflow: 'merge' } })
  expect(await shell.json('queue', 'stats', 'trunk')).toMatchObject({ total: 10 })
})

test('the next claim takes what was held there, without healing by hand', async () => {
  const shell = shellWith('beads.jsonl')
  await shell.run('import', 'beads', 'beads.jsonl')

  const first = await shell.json<{ task: { key: string } }>('task', 'next', '--agent', 'bob')
  const second = await shell.json<{ task: { key: string } }>('task', 'next', '--agent', 'bob')

  expect([first.task.key, second.task.key]).toEqual(['bd-a4', 'bd-a1'])
})
