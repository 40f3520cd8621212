/** The words of the command line: errors and help speak of what was typed, not of the library beneath. */
import { describe, expect, test } from 'vitest'
import { listCommands } from '../../dist/cli/reference.js'
import { aShell } from '../support/cli.ts'

describe('an error about a task', () => {
  test.each([
    ['task complete', ['task', 'complete', 'T-9']],
    ['task review', ['task', 'review', 'T-9']],
    ['task renew', ['task', 'renew', 'T-9']],
    ['task release', ['task', 'release', 'T-9']],
    ['task update', ['task', 'update', 'T-9', '--note', 'x']],
    ['task claim', ['task', 'claim', 'T-9']],
    ['task lock-status', ['task', 'lock-status', 'T-9']],
    ['task check-conflict', ['task', 'check-conflict', 'T-9', '1']],
    ['run --task', ['run', '--task', 'T-9', '--', 'true']],
  ])('that does not exist names no queue: %s [S6-E3]', async (_, args) => {
    const shell = aShell()
    await shell.run('init')

    const before = await shell.run(...args)
    await shell.run('task', 'add', 'another', '--key', 'other')
    const after = await shell.run(...args)

    for (const { code, stderr } of [before, after]) {
      expect(code).toBe(3)
      expect(stderr).toContain('there is no task "T-9"')
      expect(stderr).not.toMatch(/queue|item/)
    }
  })

  test('that nobody has claimed says to claim it first [S6-E3]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')

    const completed = await shell.run('task', 'complete', 'T-1')
    const renewed = await shell.run('task', 'renew', 'T-1')

    expect(completed.code).toBe(4)
    expect(completed.stderr).toMatch(/^error {2}task T-1 cannot go from Todo to Done\nnext {3}claim it first/)
    expect(renewed.stderr).toContain('task T-1 is not yours')
    expect(renewed.stderr).toContain('claim it first')
    expect(`${completed.stderr}${renewed.stderr}`).not.toMatch(/queue|item|no longer/)
  })

  test('that was lost says so in its status, without two equal tokens [S6-E3]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    await shell.run('queue', 'reclaim-stale', 'tasks', '0s')

    const { stderr } = await shell.run('task', 'complete', 'T-1')

    expect(stderr).toMatch(/^error {2}task T-1 is no longer yours \(it is Todo now\)\n/)
  })

  test('that is done speaks of tasks, too [S6-E3]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    await shell.run('task', 'complete', 'T-1')

    const { code, stderr } = await shell.run('task', 'claim', 'T-1')

    expect(code).toBe(4)
    expect(stderr).toContain('task T-1 cannot go from Done to claimed')
    expect(stderr).not.toMatch(/queue|item/)
  })

  test('that another agent holds names the task [S6-E3]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1', '--agent', 'bob')

    const { code, stderr } = await shell.run('task', 'complete', 'T-1')

    expect(code).toBe(4)
    expect(stderr).toContain('task T-1 is held by bob')
    expect(stderr).not.toMatch(/queue|item/)
  })
})

test('completing an item that nobody claimed says to claim it first [S6-E3]', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '1', '--key', 'k')

  const { code, stderr } = await shell.run('queue', 'complete', 'q', 'k')

  expect(code).toBe(5)
  expect(stderr).toContain('is not yours (it is pending now)')
  expect(stderr).toContain('next   claim it first')
})

describe('the help', () => {
  test('names options and arguments as they are typed, and no null, false or milliseconds [S6-E4]', async () => {
    const commands = await listCommands()
    const texts = commands.flatMap(({ name, summary, help, arguments: words, options }) => [
      { where: name, text: summary },
      { where: name, text: help },
      ...words.map(({ name: word, description }) => ({ where: `${name} ${word}`, text: description })),
      // What is inside of JSON has the library's names.
      ...options
        .filter(({ kind }) => kind !== 'json')
        .map(({ flags, description }) => ({ where: `${name} ${flags}`, text: description })),
    ])

    const libraryWords =
      /\b[a-z]+[A-Z]\w*|\bnull\b|\b(?:[Ff]alse|[Tt]rue) (?:when|if|=)|(?<!\d )\bms\b|\b(?:HELD|LEASE_LOST|NOT_FOUND)\b/
    const found = texts.filter(({ text }) => libraryWords.test(text))

    expect(found).toEqual([])
    expect(texts.length).toBeGreaterThan(500)
  })

  test('keeps the unit of a limit [S6-E4]', async () => {
    const { stdout } = await aShell().run('queue', 'define', '--help')

    expect(stdout).toMatch(/at least\s+500\s+ms/)
  })
})

test.each<[string, string[], string]>([
  [
    'runAt',
    ['queue', 'add', 'q', '1', '--delay', '1h', '--run-at', '+1h'],
    '--run-at and --delay cannot both',
  ],
  ['force', ['task', 'remove', 'held', '--reason', 'x'], 'remove it with --force'],
  ['a reason', ['task', 'update', 'held', '--force', '--note', 'x'], '--force changes a task'],
  ['fromReview', ['task', 'claim', 'reviewed'], 'claim it with --from-review'],
  ['renew', ['run', '--lock', 'l', '--lease', '100ms', '--', 'true'], 'at least 500 ms'],
])('an error that says %s uses the name of the option [S6-E4]', async (_, args, expected) => {
  const shell = aShell()
  await shell.run('task', 'add', 'one', '--key', 'held')
  await shell.run('task', 'claim', 'held', '--agent', 'bob')
  await shell.run('task', 'add', 'two', '--key', 'reviewed')
  await shell.run('task', 'review', 'reviewed')

  const { stderr } = await shell.run(...args)

  expect(stderr).toContain(expected)
  expect(stderr).not.toMatch(/`|\b[a-z]+[A-Z]/)
})
