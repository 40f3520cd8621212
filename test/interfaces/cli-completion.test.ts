/** Completions: what may stand at the cursor, asked by the scripts of the shells; never an error, never a new store. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell, sharedShell } from '../support/cli.ts'

/** The values that are offered. */
async function offered(shell: Shell, ...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await shell.run('complete', '--', ...words)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout.split('\n').flatMap((line) => line.split('\t')[0] || [])
}

describe('without a store', () => {
  const shell = sharedShell()

  test('commands, verbs and options are offered by their beginning', async () => {
    expect(await offered(shell, 'qu')).toEqual(['queue'])
    expect(await offered(shell, '')).not.toContain('cleanup-locks')
    expect(await offered(shell, 'task', 'cl')).toEqual(['claim', 'claim-many', 'cleanup-locks'])
    expect(await offered(shell, 'queue', 'next', 'q', '--lea')).toEqual(['--lease'])
    expect(await offered(shell, 'heal', '--dry')).toEqual(['--dry-run'])
    expect(await offered(shell, '--na')).toEqual(['--namespace'])
  })

  test('an option that was given is not offered again, unless it may be repeated', async () => {
    const options = await offered(shell, 'task', 'add', 'x', '--label', 'a', '--key=b', '--')

    expect(options).toContain('--label')
    expect(options).not.toContain('--key')
  })

  test('fixed values are offered, as single words', async () => {
    expect(await offered(shell, 'task', 'list', '--status', '')).toEqual([
      'Todo',
      'in-progress',
      'Review',
      'Done',
    ])
    expect(await offered(shell, 'task', 'list', '--status=in')).toEqual(['--status=in-progress'])
    expect(await offered(shell, 'events', '--subject', 'it')).toEqual(['item'])
    expect(await offered(shell, 'queue', 'define', 'q', '--workflow', 'm')).toEqual(['merge'])
  })

  test('files are left to the shell', async () => {
    expect(await offered(shell, 'import', 'beads', 'x')).toEqual([':files'])
    expect(await offered(shell, '--store', '')).toEqual([':files'])
    expect(await offered(shell, 'run', '--lock', 'x', '--', './dep')).toEqual([':files'])
  })

  test.each([
    [['task', 'claim', '']],
    [['queue', 'show', 'q', '']],
    [['nonsense', '']],
    [['queue', 'nonsense', '']],
    [['queue', 'next', '--wait', '']],
    [['task', 'add', '']],
    [[]],
    [['--store', 'postgres://127.0.0.1:1/none', 'lock', 'release', '']],
    [['--store', 'new.db', 'task', 'claim', '']],
    [['--store', '\u0000', 'lock', 'release', '']],
  ])('%j is answered without an error, and no store is created', async (words) => {
    await offered(shell, ...words)

    expect(readdirSync(shell.folder)).toEqual([])
  })
})

test('an unreadable store or config causes no error during completion', async () => {
  const shell = aShell()
  mkdirSync(join(shell.folder, '.holdfast'))
  writeFileSync(join(shell.folder, '.holdfast', 'store.db'), 'x'.repeat(9000))

  const broken = await offered(shell, 'task', 'claim', '')
  writeFileSync(join(shell.folder, '.holdfast', 'config.toml'), 'nonsense')

  expect([broken, await offered(shell, 'task', 'claim', '')]).toEqual([[], []])
})

describe('with a store', () => {
  const shell = sharedShell()
  let id = ''

  test('existing names are offered where they belong', async () => {
    await shell.run('task', 'add', 'Write the\tparser', '--key', 'T-1')
    await shell.run('queue', 'add', 'builds', '1', '--key', 'main')
    await shell.run('lock', 'acquire', 'session:one', '--agent', 'bob', '--run', 'spring')
    await shell.run('runs', 'start', 'spring', '--lock', 'session:one', '--agent', 'bob')
    await shell.run('msg', 'register', 'ada')
    const sent = await shell.json<{ message: { id: string } }>('msg', 'send', 'ada', 'hi', '--agent', 'bob')
    await shell.run('state', 'set', 'config/limits', '1')
    id = sent.message.id

    expect(await offered(shell, 'task', 'claim', 'T')).toEqual(['T-1'])
    expect(await offered(shell, 'task', 'add', 'x', '--depends-on', 'T')).toEqual(['T-1'])
    expect(await offered(shell, 'queue', 'next', '')).toEqual(['builds', 'tasks'])
    expect(await offered(shell, 'queue', 'show', 'builds', 'm')).toEqual(['main'])
    expect(await offered(shell, 'lock', 'release', 'ses')).toEqual(['session:one'])
    expect(await offered(shell, 'run', '--lock', 's')).toEqual(['session:one'])
    expect(await offered(shell, 'lock', 'transfer', 'session:one', '')).toEqual(['bob', 'ada'])
    expect(await offered(shell, 'runs', 'show', '')).toEqual(['spring'])
    expect(await offered(shell, 'msg', 'receive-ack', '')).toEqual([id])
    expect(await offered(shell, 'state', 'get', 'con')).toEqual(['config/limits'])
    expect(await offered(shell, 'explain', '')).toEqual(
      expect.arrayContaining(['T-1', 'session:one', 'builds', 'bob']),
    )
  })

  test('each comes with a one-line description', async () => {
    const { stdout } = await shell.run('complete', '--', 'task', 'claim', 'T')

    expect(stdout).toBe('T-1\tTodo: Write the\\tparser\n')
  })

  test('nothing from another namespace is offered, and nothing is changed', async () => {
    const before = await shell.run('events', '--json')

    expect(await offered(shell, '--namespace', 'other', 'task', 'claim', '')).toEqual([])
    expect((await shell.run('events', '--json')).stdout).toBe(before.stdout)
  })
})

describe('the scripts', () => {
  test.each(['bash', 'zsh', 'fish'])('for %s is valid if that shell is installed', async (name) => {
    const shell = aShell()
    const { stdout } = await shell.run('completion', name)
    const file = join(shell.folder, 'script')
    writeFileSync(file, stdout)

    const checked = spawnSync(name, ['-n', file], { encoding: 'utf8' })

    expect(stdout).toMatch(/complete (?:--quoted )?-- /)
    expect(stdout).not.toMatch(/\beval\b(?! "\$\(holdfast completion)/)
    // The others are checked by their text on machines that do not have them.
    if (checked.error === undefined || name === 'bash')
      expect(checked).toMatchObject({ status: 0, stderr: '' })
  })

  test('for bash completes in a real bash: commands, names with colons, blanks and quotes, files [S5c-37]', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'session:one')
    await shell.run('lock', 'acquire', 'deploy it')
    await shell.run('queue', 'add', 'my queue', '1', '--key', 'first')
    const command = join(shell.folder, 'holdfast')
    writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
    chmodSync(command, 0o755)
    writeFileSync(join(shell.folder, 'issues.jsonl'), '')

    const answers = execFileSync('bash', ['--norc', '-c', driver], {
      cwd: shell.folder,
      env: { ...cleanEnvironment(), PATH: `${shell.folder}:${process.env.PATH}` },
      encoding: 'utf8',
    })

    expect(answers.trim().split('\n')).toEqual([
      'holdfast que: [queue]',
      'holdfast lock release session:o: [one]',
      'holdfast lock release dep: [deploy\\ it]',
      'holdfast import beads iss: [issues.jsonl]',
      'holdfast nonsense : []',
      'holdfast queue show "my queue" f: [first]',
      'holdfast queue show "my q: [my queue]',
      'holdfast lock release "session:o: [session:one]',
    ])
  }, 60_000)
})

/** Asks as bash does at a tab: the words split at its own marks, the cursor at the end of the line. */
const driver = `
eval "$(holdfast completion bash)"
try() {
  COMP_LINE=$1 COMP_POINT=\${#1}
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _holdfast
  printf '%s: [%s]\\n' "$COMP_LINE" "\${COMPREPLY[*]}"
}
try 'holdfast que' holdfast que
try 'holdfast lock release session:o' holdfast lock release session : o
try 'holdfast lock release dep' holdfast lock release dep
try 'holdfast import beads iss' holdfast import beads iss
try 'holdfast nonsense ' holdfast nonsense ''
try 'holdfast queue show "my queue" f' holdfast queue show '"my queue"' f
try 'holdfast queue show "my q' holdfast queue show '"my q'
try 'holdfast lock release "session:o' holdfast lock release '"session:o'
complete -p holdfast >/dev/null
`
