/** Places that cannot be written, and output that nobody takes: each ends with words and an exit code. */
import { spawn } from 'node:child_process'
import { accessSync, chmodSync, cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { type Holdfast, open } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'

/** Root may write everywhere, so there somebody else is asked. */
const isRoot = process.getuid?.() === 0
const stranger = isRoot ? { uid: 65_534, gid: 65_534 } : {}
const onLinux = process.platform === 'linux'

test.runIf(onLinux)('a full stdout is reported clearly, for every kind of output [S5-23]', async () => {
  const shell = aShell()
  await shell.run('init')

  for (const args of [
    ['status'],
    ['status', '--json'],
    ['--version'],
    ['--help'],
    ['queue', 'add', 'q', '1'],
  ]) {
    const answer = await inShell(shell, `exec "$0" "$1" ${args.join(' ')} > /dev/full`)
    expect({ args, ...answer }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error {2}cannot write to stdout/),
    })
    expect(answer.stderr).not.toMatch(/\n\s+at |node:internal/)
  }
  // What it did is done.
  expect(await shell.json('queue', 'stats', 'q')).toMatchObject({ total: 1 })
})

test.runIf(onLinux)('a full stderr hides no exit code [S5-23]', async () => {
  const answer = await inShell(aShell(), 'exec "$0" "$1" queue nope 2> /dev/full')

  expect(answer).toMatchObject({ code: 2, stdout: '' })
})

test('a closed stdout ends the command without a stack trace [S5-23]', async () => {
  const shell = aShell()
  await shell.run('init')

  for (const args of ['status', '--help', 'status --json', 'watch --json']) {
    const answer = await inShell(shell, `{ "$0" "$1" ${args}; echo "exit $?" >&2; } | head -c 1`)
    expect(answer.stderr).toMatch(/^exit 0$/m)
    expect(answer.stderr).not.toMatch(/\n\s+at |EPIPE/)
  }
})

test('a current folder that is gone is reported with an exit code', async () => {
  const shell = aShell()
  const gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$1"'

  const answer = await inShell(shell, `${gone} task list`)
  const help = await inShell(shell, `${gone} --help`)

  expect(answer).toEqual({
    code: 3,
    stdout: '',
    stderr: expect.stringMatching(/^error {2}the current folder no longer exists\nwhy/),
  })
  expect(help.code).toBe(0)
})

test('a store below a file cannot be created, which is reported with an exit code [S5-23]', async () => {
  const shell = aShell()
  const file = join(shell.folder, 'file')
  writeFileSync(file, '')

  const answer = await shell.run('--store', join(file, 'x', 'store.db'), 'queue', 'add', 'q', '1')

  expect(answer).toMatchObject({
    code: 7,
    stdout: '',
    stderr: expect.stringContaining('cannot be created (ENOTDIR)'),
  })
})

test.runIf(onLinux)('if nothing can be created, no command tries forever [S5-23]', async () => {
  const answer = await aShell().runWith({ cwd: '/proc' }, 'init')

  expect(answer).toMatchObject({
    code: 7,
    stdout: '',
    stderr: expect.stringContaining('/proc/.holdfast cannot'),
  })
})

test('init in a read-only folder is reported with an exit code [S5-23]', async (context) => {
  const shell = aShell()
  chmodSync(shell.folder, 0o555)
  onTestFinished(() => chmodSync(shell.folder, 0o755))

  const answer = await asStranger(shell.folder, 'init')

  context.skip(answer === null, 'another user cannot run the command here')
  expect(answer).toMatchObject({
    code: 7,
    stdout: '',
    stderr: expect.stringMatching(/^error .*cannot be created \(E/),
  })
})

test.each(['with what others left beside it', 'on its own'])(
  'a read-only store can be read, %s, and every change is refused [S5-23]',
  async (how) => {
    const shell = aShell()
    await shell.run('queue', 'add', 'builds', '{"branch":"main"}', '--key', 'one')
    const store = join(shell.folder, '.holdfast', 'store.db')
    const folder = join(shell.folder, 'shared')
    mkdirSync(folder)
    cpSync(store, join(folder, 'store.db'))
    if (how !== 'on its own')
      for (const end of ['-wal', '-shm']) cpMaybe(`${store}${end}`, join(folder, `store.db${end}`))
    for (const name of ['store.db', 'store.db-wal', 'store.db-shm']) readOnly(join(folder, name), 0o444)
    readOnly(folder, 0o555)
    chmodSync(shell.folder, 0o755)
    const look = (...args: string[]) => asStranger(shell.folder, '--store', join(folder, 'store.db'), ...args)

    const status = await look('status')
    if (status === null) return
    const list = await look('queue', 'list', 'builds')
    const added = await look('queue', 'add', 'builds', '2')

    expect(status).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^builds +1 /m) })
    expect(list).toMatchObject({ code: 0, stdout: expect.stringContaining('{"branch":"main"}') })
    expect(added).toMatchObject({
      code: 7,
      stdout: '',
      stderr: expect.stringMatching(/^error {2}the store /),
    })
  },
)

test('a read-only file that is empty is no store, and not an old one for those who would create it [S5-23]', async (context) => {
  const shell = aShell()
  const file = join(shell.folder, 'store.db')
  writeFileSync(file, '')
  readOnly(file, 0o444)
  chmodSync(shell.folder, 0o755)

  const answer = await asStranger(shell.folder, '--store', file, 'status')
  const creating = await asStranger(shell.folder, '--store', file, 'init')

  context.skip(answer === null, 'another user cannot run the command here')
  expect(answer).toMatchObject({ code: 3, stderr: expect.stringContaining('there is no store at') })
  expect(creating).toMatchObject({ code: 10, stderr: expect.stringContaining('is no store yet') })
})

// It takes two users, one who may write and one who may not, and only root can be both.
test.runIf(isRoot).each(['nobody else has open', 'others have open'])(
  'a user who may only read a store that %s sees what others write from then on [S5-23]',
  async (how) => {
    const shell = aShell()
    const folder = join(shell.folder, 'shared')
    mkdirSync(folder, { mode: 0o755 })
    chmodSync(shell.folder, 0o755)
    const store = join(folder, 'store.db')
    await (await open(store)).close()
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644)
    const writer = await open(store, { agent: 'writer' })
    await writer.queue('builds').add(1)
    if (how === 'nobody else has open') await writer.close()
    else onTestFinished(() => writer.close())
    const reader = await readerAsStranger(store)
    if (reader === null) return

    const before = await reader.look()
    const { total } = how === 'others have open' ? await addTo(writer) : await addTo(await open(store))
    const after = await reader.look()

    expect(before).toEqual({ total: 1, isReadOnly: true })
    expect(after).toEqual({ total, isReadOnly: true })
  },
)

/** Adds an item; says how many there are. */
async function addTo(hf: Holdfast): Promise<{ total: number }> {
  await hf.queue('builds').add(2)
  const { total } = await hf.queue('builds').stats()
  await hf.close()
  return { total }
}

interface Reader {
  look(): Promise<unknown>
}

/** A program of a user who may not write, which looks each time it is told to; null where there is no such user. */
async function readerAsStranger(store: string): Promise<Reader | null> {
  const text = `
    import { createInterface } from 'node:readline'
    const { open } = await import(process.argv[1])
    const hf = await open(process.argv[2], { background: false, recovery: false })
    for await (const line of createInterface({ input: process.stdin })) {
      const { total } = await hf.queue('builds').stats()
      console.log(JSON.stringify({ total, isReadOnly: hf.status.isReadOnly }))
    }
    await hf.close()`
  const index = pathToFileURL(join(dirname(program), '..', 'index.js')).href
  const probe = await asStranger(dirname(store), '--version')
  if (probe === null) return null
  const child = spawn(process.execPath, ['--input-type=module', '-e', text, index, store], {
    ...stranger,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.stdin.end())
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async look() {
      child.stdin.write('look\n')
      return JSON.parse(String((await lines.next()).value))
    },
  }
}

function cpMaybe(from: string, to: string): void {
  if (existsSync(from)) cpSync(from, to)
}

function readOnly(path: string, mode: number): void {
  if (!existsSync(path)) return
  chmodSync(path, mode)
  onTestFinished(() => chmodSync(path, 0o755))
}

/** A command as a user who may not write here; null where that user cannot even run it. */
async function asStranger(folder: string, ...args: string[]): Promise<Answer | null> {
  try {
    for (const path of [program, dirname(process.execPath)]) accessSync(path)
    const probe = await inProcess(process.execPath, [program, '--version'], folder)
    if (probe.code !== 0) return null
  } catch {
    return null
  }
  return inProcess(process.execPath, [program, ...args], folder)
}

function inProcess(
  command: string,
  args: readonly string[],
  cwd: string,
  user: object = stranger,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], { cwd, env: { ...cleanEnvironment(), HOME: cwd }, ...user })
    const said = { stdout: '', stderr: '' }
    child.stdout.on('data', (text) => {
      said.stdout += text
    })
    child.stderr.on('data', (text) => {
      said.stderr += text
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, ...said }))
  })
}

/** A line of a shell; `$0` is Node and `$1` the command. */
function inShell({ folder }: Shell, line: string): Promise<Answer> {
  return inProcess('sh', ['-c', line, process.execPath, program], folder, {})
}
