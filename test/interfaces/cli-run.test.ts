/**
 * `run`: a command under a lease. Most run it in this process, because a second one would add nothing; what is killed
 * or sent a signal is a process of its own.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Answer, aShell, cleanEnvironment, program, type Shell, sharedShell } from '../support/cli.ts'
import { inTerminal, keys, shellInTerminal } from '../support/pty.ts'
import { openRaw } from '../support/sqlite-file.ts'

/** Tests that each have a lock, an item or a task of their own share it. */
const shared = sharedShell()
beforeAll(async () => void (await shared.run('init')))

/** In a mount namespace, a file can be hidden from one process. */
const canHideFiles = spawnSync('unshare', ['-rm', 'true']).status === 0

interface Run {
  readonly process: ChildProcess
  readonly pid: number
  /** Everything the command and `run` printed so far. */
  readonly output: () => string
  /** Waits until it has printed this. */
  prints(text: string): Promise<void>
  readonly ended: Promise<number>
}

/** `run` as a process of its own. */
function start(shell: Shell, ...args: string[]): Run {
  return startNode(shell, [program, 'run', ...args])
}

/** The same, with a monotonic clock that the test can move forward. */
function startWithClock(shell: Shell, ...args: string[]): { run: Run; moveBy: (seconds: number) => void } {
  const file = join(mkdtempSync(join(shell.folder, 'clock-')), 'ahead')
  const clock = `import { existsSync, readFileSync } from 'node:fs'
const { bigint } = process.hrtime
const file = ${JSON.stringify(file)}
process.hrtime.bigint = () => bigint() + (existsSync(file) ? BigInt(readFileSync(file, 'utf8')) : 0n)`
  const preload = `data:text/javascript,${encodeURIComponent(clock)}`
  return {
    run: startNode(shell, ['--import', preload, program, 'run', ...args]),
    moveBy: (seconds) => writeFileSync(file, `${seconds}000000000`),
  }
}

function startNode(shell: Shell, args: readonly string[]): Run {
  const child = spawn(process.execPath, args, {
    cwd: shell.folder,
    env: cleanEnvironment(),
    // In a session of its own: whoever runs the tests may sit at a terminal.
    detached: true,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  const watchers = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString()
      for (const watcher of watchers) watcher()
    })
  }
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number)
  return {
    process: child,
    pid: child.pid as number,
    output: () => output,
    prints: (text) =>
      new Promise((resolve) => {
        const look = () => {
          if (!output.includes(text)) return
          watchers.delete(look)
          resolve()
        }
        watchers.add(look)
        look()
      }),
    ended,
  }
}

/** Says its pid, then waits until it is ended; `trap` lets a test see signals. */
const sleeper = (trap = '') => ['sh', '-c', `${trap} echo "pid $$"; while :; do sleep 0.05; done`]
const pidIn = (output: string) => Number(/^pid (\d+)/m.exec(output)?.[1])

/** The same for a `run` in this process, whose command prints where nobody could read it. */
async function working(shell: Shell, name: string, options: readonly string[], script = 'exec sleep 60') {
  const file = join(shell.folder, `${name}.pids`)
  const ended = shell.run('run', ...options, '--', 'sh', '-c', `echo "pid $$" > '${file}'; ${script}`)
  await until(() => existsSync(file) && pidIn(readFileSync(file, 'utf8')) > 0)
  return { ended, file, pid: pidIn(readFileSync(file, 'utf8')) }
}

/** What a command says about its environment. */
async function told(shell: Shell, name: string, options: readonly string[], words: string) {
  const file = join(shell.folder, `${name}.txt`)
  const answer = await shell.run('run', ...options, '--', 'sh', '-c', `echo "${words}" > '${file}'`)
  return { ...answer, words: readFileSync(file, 'utf8').trim() }
}

async function gone(pid: number): Promise<void> {
  await until(() => !isRunning(pid))
}

function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Sent, and not delivered yet. */
function isPending(pid: number, signal: 'SIGINT' | 'SIGQUIT'): boolean {
  const [, waiting = '0'] = /^ShdPnd:\s*(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return ((BigInt(`0x${waiting}`) >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n
}

function isStopped(pid: number): boolean {
  return /^\d+ \(.*\) T/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 20))
}

interface Shown {
  readonly item: { readonly state: string; readonly failures: number; readonly crashes: number }
}
const stateOf = async (shell: Shell, queue: string, key: string) =>
  (await shell.json<Shown>('queue', 'show', queue, key)).item
const waitingFor = async (shell: Shell, lock: string) =>
  (await shell.json<{ waiting: number }>('lock', 'status', lock)).waiting
const lastLine = ({ stderr }: Answer) => JSON.parse(stderr.trimEnd().split('\n').at(-1) as string)

describe('a command under a lock', () => {
  test('finds its lease in its environment, and the lease is released when it ends', async () => {
    const answer = await told(
      shared,
      'env',
      ['--lock', 'env'],
      '$HOLDFAST_KIND $HOLDFAST_ID $HOLDFAST_AGENT $HOLDFAST_NAMESPACE $HOLDFAST_TOKEN $HOLDFAST_URL',
    )

    expect(answer.code).toBe(0)
    expect(answer.words).toMatch(
      new RegExp(`^lock env ada default \\d{16} ${shared.folder}/.holdfast/store.db$`),
    )
    expect(await shared.json('lock', 'status', 'env')).toMatchObject({ isLocked: false })
  })

  test('acts as its agent, even through the library [S5-15]', async () => {
    await shared.run('queue', 'add', 'helped', '1', '--key', 'k')
    const script = `import { open } from ${JSON.stringify(import.meta.resolve('holdfast'))}
const { HOLDFAST_URL: url, HOLDFAST_QUEUE: queue, HOLDFAST_ID: id, HOLDFAST_TOKEN: token } = process.env
const hf = await open(url)
await hf.queue(queue).progress(id, hf.agent, { token: Number(token) })
await hf.close()`
    const file = join(shared.folder, 'helper.mjs')
    writeFileSync(file, script)

    const answer = await shared.run('run', '--queue', 'helped', '--', process.execPath, file)

    expect([answer.code, answer.stderr]).toEqual([0, ''])
    const { item } = await shared.json<{ item: { progress: string; state: string } }>(
      ...['queue', 'show', 'helped', 'k'],
    )
    expect(item).toMatchObject({ progress: 'ada', state: 'done' })
  })

  test('keeps the rest of the environment, whatever the names', async () => {
    const file = join(shared.folder, 'odd.txt')
    const env = { 'npm_config_//registry/:a': 'one', 'INPUT_FROM-GITHUB': 'two' }
    const script = `require('fs').writeFileSync('${file}', JSON.stringify(process.env))`

    await shared.runWith({ env }, 'run', '--lock', 'odd', '--', process.execPath, '-e', script)

    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject(env)
  })

  test('has its exit code passed on, and stdout to itself', async () => {
    const run = start(shared, '--lock', 'exit', '--json', '--', 'sh', '-c', 'echo data; exit 3')

    expect(await run.ended).toBe(3)
    expect(run.output()).toMatch(/^data$/m)
    expect(run.output()).toContain('"outcome":"released","exitCode":3')
  })

  test('is not run while another holds it, with exit code 4; with --wait it gets its turn', async () => {
    const first = await working(shared, 'turn', ['--lock', 'turn'])

    const refused = await shared.run('run', '--lock', 'turn', '--json', '--', 'false')
    const second = shared.run('run', '--lock', 'turn', '--wait', '--', 'true')
    await until(async () => (await waitingFor(shared, 'turn')) === 1)
    process.kill(first.pid)

    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining('"outcome":"held"') })
    expect((await second).code).toBe(0)
    expect((await first.ended).code).toBe(143)
  })

  test('with several slots runs beside another, but not beyond them', async () => {
    const slots = ['--lock', 'slots', '--slots', '2']
    const one = await working(shared, 'slot-1', slots)
    const two = await working(shared, 'slot-2', slots)

    expect((await shared.run('run', ...slots, '--', 'true')).code).toBe(4)

    process.kill(one.pid)
    process.kill(two.pid)
    await Promise.all([one.ended, two.ended])
  })

  test('may act under its token by name, without giving it', async () => {
    const renew = `'${process.execPath}' '${program}' lock renew token`
    const store = join(shared.folder, '.holdfast', 'store.db')
    const leases = () =>
      shared.runWith({ env: { HOLDFAST_URL: store } }, 'run', '--lock', 'token', '--', 'sh', '-c', renew)

    expect((await leases()).code).toBe(0)
  })

  test('keeps it for longer than its lease', async () => {
    const run = await working(shared, 'long', ['--lock', 'long', '--lease', '5s'])
    const { lockedAt } = await shared.json<{ lockedAt: number }>('lock', 'status', 'long')

    await until(async () => {
      const { renewedAt } = await shared.json<{ renewedAt: number }>('lock', 'status', 'long')
      return renewedAt > lockedAt + 5000
    })

    process.kill(run.pid)
    expect((await run.ended).code).toBe(143)
  })

  test('is stopped when the lease is lost, with exit code 5', async () => {
    const run = await working(shared, 'lost', ['--lock', 'lost'])

    await shared.run('lock', 'force-release', 'lost', '--reason', 'test')

    expect(await run.ended).toMatchObject({ code: 5, stderr: expect.stringContaining('was lost') })
    expect(isRunning(run.pid)).toBe(false)
  })

  test('is stopped when the store is gone, with exit code 5', async () => {
    const own = aShell()
    await own.run('init')
    const run = await working(own, 'gone', ['--lock', 'gone'])

    rmSync(join(own.folder, '.holdfast'), { recursive: true })

    expect(await run.ended).toMatchObject({ code: 5, stderr: expect.stringContaining('was lost') })
    expect(isRunning(run.pid)).toBe(false)
  })

  test('is stopped when the store does not answer for as long as its lease, with exit code 5', async () => {
    const own = aShell()
    await own.run('init', '--store', 'blocked.db')
    const env = { HOLDFAST_URL: 'blocked.db', HOLDFAST_BUSY_TIMEOUT: '50ms' }
    const command = ['sh', '-c', 'touch started; exec sleep 60']
    const ended = own.runWith({ env }, 'run', '--lock', 'blocked', '--lease', '500ms', '--', ...command)
    await until(() => existsSync(join(own.folder, 'started')))

    const writer = openRaw(join(own.folder, 'blocked.db'))
    writer.exec('begin immediate')
    const { code, stderr } = await ended
    writer.close()

    expect(stderr).toContain('was lost; the command was stopped')
    expect(code).toBe(5)
  })

  // On a busy machine, the loss may be noticed before the command has ended.
  test('that ended before the loss was noticed is not said to have been stopped', { retry: 3 }, async () => {
    const force = `'${process.execPath}' '${program}' lock force-release over --reason test`

    const answer = await shared.run('run', '--lock', 'over', '--', 'sh', '-c', `${force} > /dev/null; exit 3`)

    expect(answer.code).toBe(5)
    expect(answer.stderr).toContain('lock over was lost; the command had ended with exit code 3')
  })

  test('that ignores TERM is killed, with everything it started', async () => {
    const deaf = `trap '' TERM; sh -c 'trap "" TERM; echo "grandchild $$" >> deaf.pids; exec sleep 60' & wait; exec sleep 60`
    const run = await working(shared, 'deaf', ['--lock', 'deaf', '--kill-after', '200ms'], deaf)
    const grandchild = () => Number(/^grandchild (\d+)$/m.exec(readFileSync(run.file, 'utf8'))?.[1])
    await until(() => grandchild() > 0)

    await shared.run('lock', 'force-release', 'deaf', '--reason', 'test')

    expect((await run.ended).code).toBe(5)
    await gone(run.pid)
    await gone(grandchild())
  })

  test.runIf(canHideFiles)('runs where there is no shell, as in some containers', async () => {
    const hide = 'mount --bind /dev/null "$(readlink -f /bin/sh)" && exec "$0" "$@"'
    const command = [process.execPath, '-p', '"ran"']
    const run = [process.execPath, program, 'run', '--lock', 'no-shell', '--', ...command]

    const { status, stdout } = spawnSync('unshare', ['-rm', '/bin/sh', '-c', hide, ...run], {
      cwd: shared.folder,
      env: cleanEnvironment(),
      encoding: 'utf8',
    })

    expect({ status, stdout }).toEqual({ status: 0, stdout: 'ran\n' })
  })

  test('that needs a moment to end gets it, even if the grace period is longer than a timer [S5c-34]', async () => {
    const script = `trap 'sleep 0.3; echo "in good order" >> graceful.pids; exit 0' TERM; while :; do sleep 0.05; done`
    const run = await working(shared, 'graceful', ['--lock', 'graceful', '--kill-after', '30d'], script)

    await shared.run('lock', 'force-release', 'graceful', '--reason', 'test')

    expect((await run.ended).code).toBe(5)
    expect(readFileSync(run.file, 'utf8')).toContain('in good order')
  })

  test('that ends on TERM does not leave behind children that ignore it', async () => {
    const script = `sh -c 'trap "" TERM; echo "grandchild $$" >> heir.pids; exec sleep 60' & wait`
    const run = await working(shared, 'heir', ['--lock', 'heir', '--kill-after', '200ms'], script)
    const grandchild = () => Number(/^grandchild (\d+)$/m.exec(readFileSync(run.file, 'utf8'))?.[1])
    await until(() => grandchild() > 0)
    onTestFinished(() => void (isRunning(grandchild()) && process.kill(grandchild(), 'SIGKILL')))

    await shared.run('lock', 'force-release', 'heir', '--reason', 'test')

    expect((await run.ended).code).toBe(5)
    await gone(grandchild())
  })
})

describe('a command for an item', () => {
  test('gets its payload, and completes it by exiting with 0', async () => {
    await shared.run('queue', 'add', 'good', '{"n":1}', '--key', 'k')

    const answer = await told(
      shared,
      'payload',
      ['--queue', 'good'],
      '$HOLDFAST_QUEUE $HOLDFAST_KEY $HOLDFAST_PAYLOAD',
    )

    expect(answer).toMatchObject({ code: 0, words: 'good k {"n":1}' })
    expect(await stateOf(shared, 'good', 'k')).toMatchObject({ state: 'done' })
  })

  test('fails it by exiting with another code', async () => {
    await shared.run('queue', 'add', 'bad', '1', '--key', 'k', '--max-attempts', '1')

    const answer = await shared.run('run', '--queue', 'bad', '--json', '--', 'sh', '-c', 'exit 7')

    expect(answer).toMatchObject({ code: 7, stdout: '' })
    expect(lastLine(answer)).toMatchObject({ schemaVersion: 1, kind: 'item', outcome: 'failed', exitCode: 7 })
    expect(await stateOf(shared, 'bad', 'k')).toMatchObject({
      state: 'failed',
      error: { message: 'the command exited with code 7' },
    })
  })

  test.each([
    ['does not exist', './no-such-command', 127, 'there is no such command'],
    ['is not on the path', 'no-such-command', 127, 'there is no such command'],
    ['may not be executed', './notes.txt', 126, 'it is not executable'],
    ['is a folder [S5c-31]', './folder', 126, 'it is a folder'],
  ])('that %s is reported as a shell would, and nothing is claimed', async (_, command, code, why) => {
    const shell = aShell()
    writeFileSync(join(shell.folder, 'notes.txt'), 'no program')
    mkdirSync(join(shell.folder, 'folder'))

    const answer = await shell.run('run', '--queue', 'q', '--', command)

    expect(answer).toMatchObject({ code, stderr: expect.stringContaining(why) })
    expect(existsSync(join(shell.folder, '.holdfast'))).toBe(false)
  })

  test('that the system cannot start leaves the item as it was', async () => {
    await shared.run('queue', 'add', 'too-long', '1', '--key', 'k')

    const answer = await shared.run('run', '--queue', 'too-long', '--', 'true', 'x'.repeat(200_000))

    expect(answer).toMatchObject({ code: 126, stderr: expect.stringContaining('cannot be started') })
    expect(await stateOf(shared, 'too-long', 'k')).toMatchObject({ state: 'pending', failures: 0 })
  })

  test('runs even if its payload does not fit in the environment, without it', async () => {
    const [small, large] = ['ü'.repeat(10_000), 'ü'.repeat(90_000)]
    for (const payload of [small, large]) await shared.run('queue', 'add', 'wide', JSON.stringify(payload))

    const first = await told(shared, 'small', ['--queue', 'wide'], '$(printf %s "$HOLDFAST_PAYLOAD" | wc -c)')
    const second = await told(
      shared,
      'large',
      ['--queue', 'wide'],
      '$(printenv HOLDFAST_PAYLOAD || echo none)',
    )

    expect([first.code, second.code]).toEqual([0, 0])
    expect([first.words, second.words]).toEqual(['20002', 'none'])
  })

  test('does not run if there is nothing to claim, with exit code 6', async () => {
    expect((await shared.run('run', '--queue', 'empty', '--', 'false')).code).toBe(6)
  })

  test('does not run if the queue is paused, with exit code 9', async () => {
    await shared.run('queue', 'add', 'paused', '1')
    await shared.run('queue', 'pause', 'paused')

    expect((await shared.run('run', '--queue', 'paused', '--', 'false')).code).toBe(9)
  })

  test('of a queue with a processing lock releases both', async () => {
    await shared.run('queue', 'define', 'one-slot', '--slots', '1')
    await shared.run('queue', 'add', 'one-slot', '1', '--key', 'k')

    const answer = await shared.run('run', '--queue', 'one-slot', '--', 'true')

    expect(answer.code).toBe(0)
    expect(await stateOf(shared, 'one-slot', 'k')).toMatchObject({ state: 'done' })
    expect(await shared.json('queue', 'lock-status', 'one-slot')).toMatchObject({ lock: null })
  })

  test('is refused before it runs if exit code 0 could not complete the item [S5c-31]', async () => {
    const file = join(shared.folder, 'merged')
    const touch = ['--', 'touch', file]
    await shared.run('queue', 'define', 'steps', '--workflow', 'merge')
    await shared.run('queue', 'submit', 'steps', 'w1', '--head-sha', 'abcd')

    const answer = await shared.run('run', '--queue', 'steps', ...touch)
    const waiting = shared.run('run', '--queue', 'later-steps', '--wait', '20s', ...touch)
    await shared.run('queue', 'define', 'later-steps', '--workflow', 'merge')
    await shared.run('queue', 'submit', 'later-steps', 'w1', '--head-sha', 'abcd')

    expect(answer).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('more than one command'),
    })
    expect(await waiting).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('more than one command'),
    })
    expect(existsSync(file)).toBe(false)
    expect(await stateOf(shared, 'steps', 'w1')).toMatchObject({ state: 'pending', attempts: 0 })
    expect(await stateOf(shared, 'later-steps', 'w1')).toMatchObject({ state: 'pending', failures: 0 })
  })

  test('is stopped when the item is cancelled', async () => {
    await shared.run('queue', 'add', 'cancelled', '1', '--key', 'k')
    const run = await working(shared, 'cancelled', ['--queue', 'cancelled'])

    await shared.run('queue', 'cancel', 'cancelled', 'k', '--agent', 'boss')

    expect((await run.ended).code).toBe(5)
    expect(isRunning(run.pid)).toBe(false)
  })

  test('run under another lease does not get that one', async () => {
    const env = { HOLDFAST_QUEUE: 'outer', HOLDFAST_KEY: 'outer', HOLDFAST_PAYLOAD: '1', HOLDFAST_TITLE: 't' }
    const file = join(shared.folder, 'inner.txt')
    const script = `env | grep -c 'HOLDFAST_\\(QUEUE\\|KEY\\|PAYLOAD\\|TITLE\\)' > '${file}'; true`

    await shared.runWith({ env }, 'run', '--lock', 'inner', '--', 'sh', '-c', script)

    expect(readFileSync(file, 'utf8')).toBe('0\n')
  })
})

describe('a command for a task', () => {
  test.each([
    ['done', 'T-done', [], 'true', 'Done'],
    ['in review', 'T-review', ['--review'], 'true', 'Review'],
    ['given back, with a note', 'T-back', [], 'false', 'Todo'],
  ])('leaves it %s', async (_, key, options, command, status) => {
    await shared.run('task', 'add', 'write it', '--key', key)

    await shared.run('run', '--task', key, ...options, '--', command)

    const { task } = (await shared.json('task', 'show', key)) as unknown as {
      task: { status: string; notes: object[] }
    }
    expect(task.status).toBe(status)
    expect(task.notes).toHaveLength(command === 'false' ? 1 : 0)
  })

  test('takes the next one', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'write it', '--key', 'T-1')

    const { words } = await told(shell, 'next', ['--next-task'], '$HOLDFAST_KEY $HOLDFAST_TITLE')

    expect(words).toBe('T-1 write it')
  })

  test('waits until the holder of the named task is done', async () => {
    await shared.run('task', 'add', 'write it', '--key', 'T-wait')
    await shared.run('task', 'claim', 'T-wait', '--agent', 'bob')
    const waiting = shared.run('run', '--task', 'T-wait', '--wait', '20s', '--', 'true')

    await shared.run('task', 'release', 'T-wait', '--agent', 'bob')

    expect((await waiting).code).toBe(0)
  })
})

describe('a command that finishes its own work', () => {
  const cli = `'${process.execPath}' '${program}'`
  /** What is held, what the command does with it, and what that is called. */
  const endings = [
    ['task', 'complete', 'done', 'completed'],
    ['task', 'review', 'review', 'handed to review'],
    ['task', 'release', 'released', 'released'],
    ['item', 'complete', 'done', 'completed'],
    ['item', 'fail', 'failed', 'failed'],
    ['item', 'release', 'released', 'released'],
    ['lock', 'release', 'released', 'released'],
  ] as const

  /** What `run` is to hold, made ready, and the command that ends it. */
  async function held(kind: 'task' | 'item' | 'lock', act: string, name: string) {
    if (kind === 'task') await shared.run('task', 'add', 'write it', '--key', name)
    if (kind === 'item') await shared.run('queue', 'add', name, '1', '--key', name)
    const error = act === 'fail' ? 'broken' : ''
    return {
      task: { options: ['--task', name], end: `${cli} task ${act} ${name}` },
      item: { options: ['--queue', name], end: `${cli} queue ${act} ${name} ${name} ${error}` },
      lock: { options: ['--lock', name], end: `${cli} lock ${act} ${name}` },
    }[kind]
  }

  test('continues undisturbed, and its own exit code is passed on [S5c-30]', async () => {
    const runs = endings.map(async ([kind, act, _, words]) => {
      const name = `own-${kind}-${act}`
      const { options, end } = await held(kind, act, name)
      const go = join(shared.folder, `${name}.go`)
      const wait = `while [ ! -e '${go}' ]; do sleep 0.05; done`
      const script = `trap 'echo stopped; exit 1' TERM; ${end}; ${wait}; echo went on; exit 3`
      const run = start(shared, ...options, '--', 'sh', '-c', script)
      // It knows now that the lease has ended.
      await run.prints(`was ${words} by the command itself`)
      writeFileSync(go, '')
      return { name, code: await run.ended, output: run.output() }
    })

    for (const { name, code, output } of await Promise.all(runs)) {
      expect(code, name).toBe(3)
      expect(output, name).toContain('went on')
      expect(output, name).not.toContain('lost')
    }
  })

  test.each(endings)(
    'and exits at once: %s %s is reported as what it was [S5c-30]',
    async (kind, act, outcome) => {
      const { options, end } = await held(kind, act, `brief-${kind}-${act}`)

      const answer = await shared.run(
        'run',
        ...options,
        '--json',
        '--',
        'sh',
        '-c',
        `${end} > /dev/null; exit 0`,
      )

      expect(answer.code).toBe(0)
      expect(lastLine(answer)).toMatchObject({ kind, outcome, exitCode: 0 })
    },
  )

  test('and is then interrupted leaves it as it set it [S5c-30]', async () => {
    const { options, end } = await held('task', 'release', 'own-interrupted')
    const run = start(shared, ...options, '--', 'sh', '-c', `${end}; echo ready; exec sleep 60`)
    await run.prints('ready')
    await shared.run('task', 'claim', 'own-interrupted', '--agent', 'bob')

    run.process.kill('SIGTERM')

    expect(await run.ended).toBe(143)
    expect(await shared.json('task', 'show', 'own-interrupted')).toMatchObject({ task: { assignee: 'bob' } })
  })

  test('is not told to renew what is renewed for it [S5c-30]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'write it', '--key', 'T-1')
    const page = join(shell.folder, 'page.txt')

    await shell.run('run', '--task', 'T-1', '--', 'sh', '-c', `${cli} prime > '${page}'`)
    await shell.run('task', 'add', 'by hand', '--key', 'T-2')
    await shell.run('task', 'claim', 'T-2')
    const byHand = await shell.run('prime')

    const text = readFileSync(page, 'utf8')
    expect(text).toContain('- go on with T-1 write it; its lease is renewed for you')
    expect(text).not.toContain('before it lapses')
    expect(byHand.stdout).toContain('go on with T-2 by hand; renew its lease before it lapses')
  })
})

describe('[S5-9] with --wait it says what it waits for', () => {
  test('a lock: who holds it and until when', async () => {
    await shared.run('lock', 'acquire', 'told', '--agent', 'bob')
    const waiting = start(shared, '--lock', 'told', '--wait', '20s', '--', 'true')

    await waiting.prints('holdfast: waiting for lock told: held by bob until ')
    await shared.run('lock', 'release', 'told', '--agent', 'bob')

    expect(await waiting.ended).toBe(0)
  })

  test('an empty queue, and a task held by another', async () => {
    await shared.run('task', 'add', 'told', '--key', 'T-told')
    await shared.run('task', 'claim', 'T-told', '--agent', 'bob')

    const [empty, held, json] = await Promise.all([
      shared.run('run', '--queue', 'no-work', '--wait', '10ms', '--', 'true'),
      shared.run('run', '--task', 'T-told', '--wait', '10ms', '--', 'true'),
      shared.run('run', '--task', 'T-told', '--wait', '10ms', '--json', '--', 'true'),
    ])

    expect(empty).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('waiting for queue no-work: nothing to claim'),
    })
    expect(held).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('waiting for task T-told: held by bob until'),
    })
    expect(json.stderr).toContain('"waiting":{"outcome":"held","holder":"bob"')
  })
})

describe('killed with -9', () => {
  async function atWork(queue: string) {
    await shared.run('queue', 'add', queue, '1', '--key', 'k')
    const run = start(shared, '--queue', queue, '--kill-after', '1s', '--', ...sleeper())
    await run.prints('pid')
    return { run, command: pidIn(run.output()) }
  }

  test('itself: its command is stopped, and the next claim gets the item at once', async () => {
    const { run, command } = await atWork('kill-run')

    run.process.kill('SIGKILL')
    await run.ended
    const heir = await shared.run('queue', 'next', 'kill-run', '--agent', 'bob')

    expect(heir.code).toBe(0)
    expect(heir.stderr).toContain(`process ${run.pid} is gone`)
    await gone(command)
  })

  test('its command: the item has failed, and that is reported', async () => {
    await shared.run('queue', 'add', 'kill-command', '1', '--key', 'k')
    const run = await working(shared, 'kill-command', ['--queue', 'kill-command'])

    process.kill(run.pid, 'SIGKILL')

    expect((await run.ended).code).toBe(137)
    expect(await stateOf(shared, 'kill-command', 'k')).toMatchObject({
      state: 'pending',
      failures: 1,
      error: { message: 'the command was killed by SIGKILL' },
    })
  })

  test('both: the item is released as if nothing had happened', async () => {
    const { run, command } = await atWork('kill-both')

    process.kill(command, 'SIGKILL')
    run.process.kill('SIGKILL')
    await run.ended
    await shared.run('queue', 'recover', 'kill-both')

    expect((await stateOf(shared, 'kill-both', 'k')).state).toBe('pending')
  })
})

describe('a signal', () => {
  test('is passed on, and the item is released without a failure', async () => {
    await shared.run('queue', 'add', 'signal', '1', '--key', 'k')
    const trap = "trap 'echo stopping; exit 9' TERM;"
    const run = start(shared, '--queue', 'signal', '--', ...sleeper(trap))
    await run.prints('pid')

    run.process.kill('SIGTERM')

    expect(await run.ended).toBe(9)
    expect(run.output()).toContain('stopping')
    expect(await stateOf(shared, 'signal', 'k')).toMatchObject({ state: 'pending', failures: 0, crashes: 0 })
  })

  test('that the command handles releases the item, even if it exits with 0 [S5c-31]', async () => {
    await shared.run('queue', 'add', 'heeded', '1', '--key', 'k')
    const run = start(shared, '--queue', 'heeded', '--json', '--', ...sleeper("trap 'exit 0' TERM;"))
    await run.prints('pid')

    run.process.kill('SIGTERM')

    expect(await run.ended).toBe(0)
    expect(run.output()).toContain('"outcome":"released","exitCode":0')
    expect(await stateOf(shared, 'heeded', 'k')).toMatchObject({ state: 'pending', failures: 0, crashes: 0 })
  })

  test.each([
    ['SIGALRM', 142],
    ['SIGSTKFLT', 144],
  ] as const)('that ends the command does not count as a failure: %s [S5c-31]', async (signal, code) => {
    await shared.run('queue', 'add', signal, '1', '--key', 'k')
    const run = start(shared, '--queue', signal, '--', 'sh', '-c', 'echo "pid $$"; exec sleep 60')
    await run.prints('pid')

    run.process.kill(signal)

    expect(await run.ended).toBe(code)
    expect(await stateOf(shared, signal, 'k')).toMatchObject({ state: 'pending', failures: 0, crashes: 0 })
  })

  test('that the command survives changes nothing [S5c-31]', async () => {
    const caught = ['USR1', 'USR2', 'ALRM', 'VTALRM', 'PROF', 'IO', 'PWR', 'XCPU', 'WINCH'] as const
    const traps = caught.map((name) => `trap 'echo heard ${name}' ${name};`).join(' ')
    const run = start(shared, '--lock', 'outlived', '--', ...sleeper(traps))
    await run.prints('pid')

    for (const name of caught) {
      run.process.kill(`SIG${name}`)
      await run.prints(`heard ${name}\n`)
    }
    run.process.kill('SIGINT')

    expect(await run.ended).toBe(130)
  })

  test('that the command survives does not excuse what it does later [S5c-31]', async () => {
    await shared.run('queue', 'add', 'outlived', '1', '--key', 'k', '--max-attempts', '1')
    const script = "trap 'ended=1' USR1; echo pid; until [ $ended ]; do sleep 0.05; done; exit 7"
    const run = start(shared, '--queue', 'outlived', '--', 'sh', '-c', `ended=; ${script}`)
    await run.prints('pid')

    run.process.kill('SIGUSR1')

    expect(await run.ended).toBe(7)
    expect(await stateOf(shared, 'outlived', 'k')).toMatchObject({ state: 'failed', failures: 1 })
  })

  const givenBack = { state: 'pending', failures: 0, crashes: 0 }
  const failed = { state: 'failed', failures: 1 }
  test.each([
    ['SIGINT excuses how the command ends 50 s later', 'SIGINT', 50, 'SIGUSR1', 7, givenBack],
    ['SIGINT does not excuse how the command ends 61 s later', 'SIGINT', 61, 'SIGUSR1', 7, failed],
    ['SIGQUIT does not excuse that the command is killed 61 s later', 'SIGQUIT', 61, 'SIGKILL', 137, failed],
    ['SIGTERM excuses how the command ends, however late', 'SIGTERM', 61, 'SIGUSR1', 7, givenBack],
  ] as const)('to stop: %s [S5c-31]', async (_, signal, seconds, end, code, item) => {
    const queue = `${signal}-${seconds}`
    await shared.run('queue', 'add', queue, '1', '--key', 'k', '--max-attempts', '1')
    const traps = `trap 'echo heard' ${signal.slice(3)}; trap 'exit 7' USR1;`
    // A lease that nobody doubts when a minute has passed at once.
    const options = ['--queue', queue, '--lease', '10m']
    const { run, moveBy } = startWithClock(shared, ...options, '--', ...sleeper(traps))
    await run.prints('pid')

    run.process.kill(signal)
    await run.prints('heard')
    moveBy(seconds)
    process.kill(pidIn(run.output()), end)

    expect(await run.ended).toBe(code)
    expect(await stateOf(shared, queue, 'k')).toMatchObject(item)
  })

  test('that suspends it suspends its command too, until both continue', async () => {
    // A shell that is stopped while it starts something does not look stopped.
    const run = start(shared, '--lock', 'stopped', '--', 'sh', '-c', 'echo "pid $$"; exec sleep 60')
    await run.prints('pid')
    const pids = [run.pid, pidIn(run.output())]

    run.process.kill('SIGTSTP')
    await until(() => pids.every(isStopped))
    run.process.kill('SIGCONT')
    await until(() => !pids.some(isStopped))
    run.process.kill('SIGTERM')

    expect(await run.ended).toBe(143)
  })

  test('that suspends it while it waits lets it continue waiting later', async () => {
    await shared.run('lock', 'acquire', 'stopped-in-line', '--agent', 'bob')
    const run = start(shared, '--lock', 'stopped-in-line', '--wait', '--', 'echo', 'ran')
    await until(async () => (await waitingFor(shared, 'stopped-in-line')) === 1)

    run.process.kill('SIGTSTP')
    await until(() => isStopped(run.pid))
    run.process.kill('SIGCONT')
    await shared.run('lock', 'release', 'stopped-in-line', '--agent', 'bob')

    expect(await run.ended).toBe(0)
    expect(run.output()).toContain('ran')
  })

  test('while it waits ends the wait, and leaves the line', async () => {
    await shared.run('lock', 'acquire', 'in-line', '--agent', 'bob')
    const run = start(shared, '--lock', 'in-line', '--wait', '--', 'echo', 'ran')
    await until(async () => (await waitingFor(shared, 'in-line')) === 1)

    run.process.kill('SIGINT')

    expect(await run.ended).toBe(130)
    expect(await waitingFor(shared, 'in-line')).toBe(0)
  })
})

describe('on a terminal', () => {
  test('the command owns it, and an interrupt reaches it once', async () => {
    const script = `test -t 0 && echo "has a terminal"; trap 'echo heard; exit 4' INT; echo ready; while :; do sleep 0.05; done`

    const terminal = inTerminal(shared.folder, ['run', '--lock', 'tty', '--', 'sh', '-c', script])
    await terminal.shows('ready')
    terminal.type(keys.interrupt)

    expect(await terminal.ended).toBe(4)
    expect(terminal.screen).toContain('has a terminal')
    expect(terminal.screen.match(/heard/g)).toHaveLength(1)
  })

  test.each([
    ['SIGINT', keys.interrupt],
    ['SIGQUIT', keys.quit],
  ] as const)('%s reaches the command once, typed or sent to `run` alone [S5c-31]', async (signal, key) => {
    const traps = `trap 'echo heard; exit 4' TERM; trap 'echo heard' ${signal.slice(3)}`
    const script = `${traps}; echo ready; while :; do sleep 0.05; done`
    const terminal = inTerminal(shared.folder, ['run', '--lock', signal, '--', 'sh', '-c', script])
    await terminal.shows('ready')

    terminal.type(key)
    await terminal.shows(/heard/)
    // Two that wait to be delivered are one.
    await until(() => !isPending(terminal.pid, signal))
    process.kill(terminal.pid, signal)
    await terminal.shows(/heard[\s\S]*heard/)
    process.kill(terminal.pid, 'SIGTERM')

    expect(await terminal.ended).toBe(4)
    expect(terminal.screen.match(/heard/g)).toHaveLength(3)
  })

  test('the command owns it even if stdin is a pipe [S5c-31]', async () => {
    const command = `sh -c 'read word; echo "asked $word" > /dev/tty; read answer < /dev/tty; echo "got $answer"'`
    const run = `'${process.execPath}' '${program}' run --lock piped -- ${command}`

    const terminal = shellInTerminal(shared.folder, `echo password | ${run}`)
    await terminal.shows('asked password')
    terminal.type(`secret${keys.enter}`)

    expect(await terminal.ended).toBe(0)
    expect(terminal.screen).toContain('got secret')
  })

  test('a lost lease stops the command and what it started', async () => {
    const script = `sh -c 'echo "pid $$"; while :; do sleep 0.05; done' & wait`
    const terminal = inTerminal(shared.folder, ['run', '--lock', 'tty-lost', '--', 'sh', '-c', script])
    await terminal.shows(/pid \d+/)
    const pid = Number(/pid (\d+)/.exec(terminal.screen)?.[1])

    await shared.run('lock', 'force-release', 'tty-lost', '--reason', 'test')

    expect(await terminal.ended).toBe(5)
    await gone(pid)
  })
})

test.each([
  ['nothing to hold', []],
  ['two things to hold', ['--lock', 'a', '--queue', 'b']],
  ['a bad lease', ['--lock', 'a', '--lease', '5']],
  ['a bad wait', ['--lock', 'a', '--wait', '5']],
  ['a wait of days', ['--lock', 'a', '--wait', '2d']],
  ['bad slots', ['--lock', 'a', '--slots', 'many']],
  ['a bad grace', ['--lock', 'a', '--kill-after', '5']],
  ['a key for a change [S5c-31]', ['--lock', 'a', '--idempotency-key', 'k']],
  ['review of a lock [S5c-31]', ['--lock', 'a', '--review']],
  ['slots of a queue [S5c-31]', ['--queue', 'a', '--slots', '2']],
  ['a reason for an item [S5c-31]', ['--queue', 'a', '--reason', 'why']],
  ['a reason for a task [S5c-31]', ['--next-task', '--reason', 'why']],
  ['an unknown option, with --json [S5c-31]', ['--lock', 'a', '--json', '--nonsense']],
])('%s is refused before anything is run', async (_, options) => {
  const shell = aShell()

  const answer = await shell.run('run', ...options, '--', 'touch', join(shell.folder, 'ran'))

  expect(answer).toMatchObject({ code: 2, stdout: '' })
  expect(existsSync(join(shell.folder, 'ran'))).toBe(false)
})

test('stdout belongs to the command: refusals go to stderr, in JSON too [S5c-31]', async () => {
  await shared.run('lock', 'acquire', 'refused', '--agent', 'bob')

  const text = await shared.run('run', '--lock', 'refused', '--', 'true')
  const json = await shared.run('run', '--lock', 'refused', '--json', '--', 'true')
  const invalid = await shared.run('run', '--lock', 'refused', '--json', '--lease', '5', '--', 'true')

  expect([text.stdout, json.stdout, invalid.stdout]).toEqual(['', '', ''])
  expect(text.stderr).toContain('held by bob')
  expect(lastLine(json)).toMatchObject({ schemaVersion: 1, outcome: 'held', holder: 'bob' })
  expect(lastLine(invalid)).toMatchObject({ error: { code: 'INVALID' } })
})

test('a closed stderr changes nothing', async () => {
  const { process: child, ended } = start(shared, '--lock', 'unheard', '--json', '--', 'true')
  child.stderr?.destroy()

  expect(await ended).toBe(0)
})

test('run without a command is refused', async () => {
  expect((await aShell().run('run', '--lock', 'a')).code).toBe(2)
})
