/** What people see who sit at a terminal: questions, colours, lines that fit. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'
import { inTerminal, keys, shellInTerminal } from '../support/pty.ts'

async function oneFinished(shell: Shell): Promise<void> {
  await shell.run('queue', 'add', 'q', '1', '--key', 'k')
  await shell.run('queue', 'cancel', 'q', 'k')
}

describe('before an irreversible action', () => {
  const cleanup = ['queue', 'cleanup', 'q', '--max-age', '0']

  test('a person at a terminal is asked, and yes means yes', async () => {
    const shell = aShell()
    await oneFinished(shell)

    const terminal = inTerminal(shell.folder, cleanup)
    await terminal.shows('This removes 1 finished item')
    terminal.type(`y`)

    expect(await terminal.ended).toBe(0)
    expect(terminal.screen).toContain('removed 1')
  })

  test.each([
    ['no', keys.enter],
    ['an interrupt', keys.interrupt],
  ])('%s leaves everything as it is, with exit code 1', async (_, answer) => {
    const shell = aShell()
    await oneFinished(shell)

    const terminal = inTerminal(shell.folder, cleanup)
    await terminal.shows('This removes 1 finished item')
    terminal.type(answer)

    expect(await terminal.ended).toBe(1)
    expect(await shell.json('queue', 'stats', 'q')).toMatchObject({ total: 1 })
  })

  test('--yes skips the question', async () => {
    const shell = aShell()
    await oneFinished(shell)

    const terminal = inTerminal(shell.folder, [...cleanup, '--yes'])

    expect(await terminal.ended).toBe(0)
    expect(terminal.screen).not.toContain('This removes')
  })
})

describe('on a terminal', () => {
  test.each([80, 120])('tables are coloured and fit into %i columns', async (columns) => {
    const shell = aShell()
    const title = `a title ${'that goes on '.repeat(20)}`
    await shell.run('task', 'add', title, '--key', 'T-1')

    const terminal = inTerminal(shell.folder, ['task', 'list'], { columns })
    await terminal.ended

    const lines = terminal.screen.split('\r\n').map((line) => line.replaceAll(escapes, ''))
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns)
    expect(lines[1]).toMatch(/…$/)
    expect(terminal.screen).toContain('\u001b[1m')
  })

  test('NO_COLOR is respected', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    const terminal = inTerminal(shell.folder, ['queue', 'list', 'q'], { env: { NO_COLOR: '1' } })
    await terminal.ended

    expect(terminal.screen).not.toContain('\u001b[')
  })

  test('a claim says how to complete it', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const terminal = inTerminal(shell.folder, ['queue', 'next', 'q'])
    await terminal.ended

    expect(terminal.screen).toContain('then: holdfast queue complete q k')
  })

  test('a copy shows its progress on one line, which is removed at the end', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    const copying = ['copy', '--from', '.holdfast/store.db', '--to', 'new.db']

    const terminal = inTerminal(shell.folder, copying)

    expect(await terminal.ended).toBe(0)
    const eraseLine = '\r\u001b[2K'
    const [, ...drawn] = terminal.screen.split(eraseLine)
    const [shown, after] = [drawn.slice(0, -1), drawn.at(-1) ?? '']
    expect(shown.join('\n')).toMatch(/^█+░* +\d+ % {2}(copying|verifying) \w+ {2}\d+\/\d+$/m)
    expect(shown.at(-1)).toContain('100 %')
    expect(shown.filter((line) => line.includes('\n'))).toEqual([])
    expect(after).not.toContain('█')
    expect(after).toContain('each compared with its original')
  })

  test('an interrupted stream ends cleanly', async () => {
    const shell = aShell()
    await shell.run('state', 'set', 'k', '1')

    const terminal = inTerminal(shell.folder, ['state', 'watch', 'k'])
    await terminal.shows('1  1')
    await shell.run('state', 'set', 'k', '2')
    await terminal.shows('2  2')
    terminal.type(keys.interrupt)

    expect(await terminal.ended).toBe(0)
  })
})

test('a terminal of unknown size is treated as a normal one [S5c-35]', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'a-queue-with-a-long-name', '1', '--key', 'a-key-with-a-long-name')

  const list = `'${process.execPath}' '${program}' queue list a-queue-with-a-long-name`
  const terminal = shellInTerminal(shell.folder, `stty cols 0 rows 0; ${list}`)

  expect(await terminal.ended).toBe(0)
  // An id is cut to make room, but not to a stump.
  expect(terminal.screen).toMatch(/[0-9a-f-]{20}/)
})

test.each([
  ['stderr is a terminal and stdout is not', 'status 2>/dev/tty | cat', true],
  ['stdout is a terminal and stderr is not', 'status 2>&1 >/dev/tty | cat', false],
])('an error is coloured if stderr is a terminal: %s [S5c-35]', async (_, line, isColoured) => {
  const shell = aShell()

  const terminal = shellInTerminal(shell.folder, `'${process.execPath}' '${program}' ${line}`)
  await terminal.ended

  expect(terminal.screen).toContain('there is no store')
  expect(terminal.screen.includes('\u001b[31merror')).toBe(isColoured)
})

const escapes = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g')

describe('watch', () => {
  test('redraws the fleet on a terminal, and leaves it as it was', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'first', '1')

    const terminal = inTerminal(shell.folder, ['watch', '--every', '100ms'])
    await terminal.shows('first')
    await shell.run('queue', 'add', 'second', '1')
    await terminal.shows('second')
    terminal.type('q')

    expect(await terminal.ended).toBe(0)
    expect(terminal.screen).toMatch(/^.\[\?1049h/s)
    expect(terminal.screen).toMatch(/\[\?1049l$/)
  })

  test.each([
    ['q', 'xq'],
    ['Q behind an arrow', '\u001b[DQ'],
    ['Ctrl-C', `x${keys.interrupt}`],
  ])('ends with %s, even if another key arrives in the same read [S5c-35]', async (_, typed) => {
    const shell = aShell()
    await shell.run('queue', 'add', 'first', '1')

    const terminal = inTerminal(shell.folder, ['watch'])
    await terminal.shows('first')
    terminal.type(typed)

    expect(await terminal.ended).toBe(0)
  })

  test('continues when a key is pressed that only looks like q [S5c-35]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'first', '1')

    const terminal = inTerminal(shell.folder, ['watch', '--every', '100ms'])
    await terminal.shows('first')
    terminal.type('\u001bOq')
    await shell.run('queue', 'add', 'second', '1')
    await terminal.shows('second')
    terminal.type('q')

    expect(await terminal.ended).toBe(0)
  })

  test('prints one JSON line per refresh elsewhere', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    const line = await firstLine(shell.folder, ['watch'])

    expect(JSON.parse(line)).toMatchObject({ schemaVersion: 1, queues: [{ name: 'q', ready: { count: 1 } }] })
  })
})

describe('events follow', () => {
  test('prints what happens from now on, one line each', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    const line = await firstLine(shell.folder, ['events', 'follow', '--since', '1', '--json'])

    expect(JSON.parse(line)).toMatchObject({ schemaVersion: 1, kind: 'item.created' })
  })
})

/** The first line a stream prints into a pipe; then it is ended. */
async function firstLine(folder: string, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [program, ...args], { cwd: folder, env: cleanEnvironment() })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  child.kill('SIGTERM')
  const [code] = (await once(child, 'exit')) as [number]
  expect(code).toBe(0)
  return line
}
