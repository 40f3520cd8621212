/** `run`: a command under a lease, with real processes that are killed, stopped and interrupted. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'
import { inTerminal, keys } from '../support/pty.ts'

interface Run {
  readonly process: ChildProcess
  readonly pid: number
  /** Everything the command and `run` printed so far. */
  readonly output: () => string
  /** Waits until it has printed this. */
  prints(text: string): Promise<void>
  readonly ended: Promise<number>
}

function start(shell: Shell, ...args: string[]): Run {
  const child = spawn(process.execPath, [program, ...args], { cwd: shell.folder, env: cleanEnvironment() })
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

const pidIn = (output: string) => Number(/^pid (\d+)$/m.exec(output)?.[1])

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

async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 20))
}

const stateOf = async (shell: Shell, key: string) =>
  ((await shell.json('queue', 'show', 'q', key)) as unknown as { item: { state: string; crashes: number } })
    .item

describe('a command under a lock', () => {
  test('finds its lease in its environment, and its exit code is passed on', async () => {
    const shell = aShell()
    const script = 'echo "$HOLDFAST_KIND $HOLDFAST_ID $HOLDFAST_AGENT $HOLDFAST_TOKEN $HOLDFAST_URL"; exit 3'

    const answer = await shell.start('run', '--lock', 'deploy', '--', 'sh', '-c', script)

    expect(answer.code).toBe(3)
    expect(answer.stdout).toMatch(
      new RegExp(`^lock deploy ada \\d{16} ${shell.folder}/.holdfast/store.db\n$`),
    )
    expect(await shell.json('lock', 'status', 'deploy')).toMatchObject({ isLocked: false })
  })

  test('is not run while another holds it, with exit code 4; with --wait it gets its turn', async () => {
    const shell = aShell()
    const first = start(shell, 'run', '--lock', 'deploy', '--', ...sleeper())
    await first.prints('pid')

    const refused = await shell.start('run', '--lock', 'deploy', '--json', '--', 'echo', 'ran')
    const second = start(shell, 'run', '--lock', 'deploy', '--wait', '--', 'echo', 'ran')
    await until(async () => (await shell.json<{ waiting: number }>('lock', 'status', 'deploy')).waiting === 1)
    first.process.kill('SIGTERM')

    expect(refused).toMatchObject({ code: 4, stdout: expect.stringContaining('"outcome":"held"') })
    expect(await second.ended).toBe(0)
    expect(second.output()).toBe('ran\n')
  })

  test('may act under its token, and is refused once it is lost', async () => {
    const shell = aShell()
    const script = `'${process.execPath}' '${program}' lock renew deploy`

    const answer = await shell.start('run', '--lock', 'deploy', '--', 'sh', '-c', script)

    expect(answer.code).toBe(0)
    expect(answer.stdout).toMatch(/^deploy {2}token/)
  })

  test('keeps it for longer than its lease', async () => {
    const shell = aShell()
    const run = start(shell, 'run', '--lock', 'deploy', '--lease', '600ms', '--', ...sleeper())
    await run.prints('pid')
    const { lockedAt } = await shell.json<{ lockedAt: number }>('lock', 'status', 'deploy')

    const renewed = async () => {
      const now = await shell.json<{ renewedAt: number; isLocked: boolean }>('lock', 'status', 'deploy')
      return now.isLocked && now.renewedAt > lockedAt + 600
    }
    await until(renewed)

    run.process.kill('SIGTERM')
    expect(await run.ended).toBe(143)
  })

  test('is stopped with everything it started when the lease is lost, with exit code 5', async () => {
    const shell = aShell()
    const script = `trap '' TERM; sh -c 'trap "" TERM; echo "grandchild $$"; while :; do sleep 0.05; done' & echo "pid $$"; while :; do sleep 0.05; done`
    const run = start(shell, 'run', '--lock', 'deploy', '--kill-after', '200ms', '--', 'sh', '-c', script)
    await run.prints('pid')
    await run.prints('grandchild')
    const grandchild = Number(/^grandchild (\d+)$/m.exec(run.output())?.[1])

    await shell.run('lock', 'force-release', 'deploy', '--reason', 'test')

    expect(await run.ended).toBe(5)
    expect(run.output()).toContain('was lost')
    await gone(pidIn(run.output()))
    await gone(grandchild)
  })
})

describe('a command for an item', () => {
  test('gets its payload, and completes it by ending well', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '{"n":1}', '--key', 'k')

    const answer = await shell.start(
      'run',
      '--queue',
      'q',
      '--',
      'sh',
      '-c',
      'echo "$HOLDFAST_KEY $HOLDFAST_PAYLOAD"',
    )

    expect(answer).toMatchObject({ code: 0, stdout: 'k {"n":1}\n' })
    expect(await stateOf(shell, 'k')).toMatchObject({ state: 'done' })
  })

  test('fails it by ending badly', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k', '--attempts-max', '1')

    const answer = await shell.start('run', '--queue', 'q', '--json', '--', 'sh', '-c', 'exit 7')

    expect(answer.code).toBe(7)
    expect(JSON.parse(answer.stderr)).toMatchObject({ kind: 'item', outcome: 'failed', exitCode: 7 })
    expect(await stateOf(shell, 'k')).toMatchObject({
      state: 'failed',
      error: { message: 'the command ended with exit code 7' },
    })
  })

  test('that does not exist is told as a shell tells it, and the item goes back', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const answer = await shell.start('run', '--queue', 'q', '--', './no-such-command')

    expect(answer.code).toBe(127)
    expect(answer.stderr).toContain('cannot be started')
    expect(await stateOf(shell, 'k')).toMatchObject({ state: 'pending', failures: 0 })
  })

  test('is not run where there is nothing to claim, with exit code 6', async () => {
    const shell = aShell()

    expect((await shell.start('run', '--queue', 'q', '--', 'echo', 'ran')).code).toBe(6)
  })

  test('of a queue with a processing lock lets go of both', async () => {
    const shell = aShell()
    await shell.run('queue', 'define', 'q', '--slots', '1')
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const answer = await shell.start('run', '--queue', 'q', '--', 'true')

    expect(answer.code).toBe(0)
    expect(await stateOf(shell, 'k')).toMatchObject({ state: 'done' })
    expect(await shell.json('queue', 'lock-status', 'q')).toMatchObject({ lock: null })
  })
})

describe('a command for a task', () => {
  test.each([
    ['done', [], 'true', 'Done'],
    ['in review', ['--review'], 'true', 'Review'],
    ['given back, with a note', [], 'false', 'Todo'],
  ])('leaves it %s', async (_, options, command, status) => {
    const shell = aShell()
    await shell.run('task', 'add', 'write it', '--key', 'T-1')

    await shell.start('run', '--task', 'T-1', ...options, '--', command)

    const { task } = (await shell.json('task', 'show', 'T-1')) as unknown as {
      task: { status: string; notes: object[] }
    }
    expect(task.status).toBe(status)
    expect(task.notes).toHaveLength(command === 'false' ? 1 : 0)
  })

  test('takes the next one', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'write it', '--key', 'T-1')

    const answer = await shell.start(
      'run',
      '--next-task',
      '--',
      'sh',
      '-c',
      'echo "$HOLDFAST_KEY $HOLDFAST_TITLE"',
    )

    expect(answer.stdout).toBe('T-1 write it\n')
  })
})

describe('killed with -9', () => {
  async function atWork() {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const run = start(shell, 'run', '--queue', 'q', '--kill-after', '1s', '--', ...sleeper())
    await run.prints('pid')
    return { shell, run, command: pidIn(run.output()) }
  }

  test('itself: its command is stopped, and whoever claims next gets the item at once', async () => {
    const { shell, run, command } = await atWork()

    run.process.kill('SIGKILL')
    await run.ended
    const heir = await shell.run('queue', 'next', 'q', '--agent', 'bob')

    expect(heir.code).toBe(0)
    expect(heir.stderr).toContain(`process ${run.pid} is gone`)
    await gone(command)
  })

  test('its command: the item has failed, and that is told', async () => {
    const { shell, run, command } = await atWork()

    process.kill(command, 'SIGKILL')

    expect(await run.ended).toBe(137)
    expect(await stateOf(shell, 'k')).toMatchObject({
      state: 'pending',
      failures: 1,
      error: { message: 'the command was ended by SIGKILL' },
    })
  })

  test('both: the item goes back as if nothing had been', async () => {
    const { shell, run, command } = await atWork()

    process.kill(command, 'SIGKILL')
    run.process.kill('SIGKILL')
    await run.ended
    await until(async () => (await shell.run('queue', 'recover', 'q')).code === 0)

    expect((await stateOf(shell, 'k')).state).toBe('pending')
  })
})

describe('a signal', () => {
  test('is passed on, and the item goes back without a failure', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const trap = "trap 'echo stopping; exit 9' TERM;"
    const run = start(shell, 'run', '--queue', 'q', '--', ...sleeper(trap))
    await run.prints('pid')

    run.process.kill('SIGTERM')

    expect(await run.ended).toBe(9)
    expect(run.output()).toContain('stopping')
    expect(await stateOf(shell, 'k')).toMatchObject({ state: 'pending', failures: 0, crashes: 0 })
  })

  test('that the command outlives changes nothing', async () => {
    const shell = aShell()
    const trap = "trap 'echo heard' USR2;"
    const run = start(shell, 'run', '--lock', 'deploy', '--', ...sleeper(trap))
    await run.prints('pid')

    run.process.kill('SIGUSR2')
    await run.prints('heard')
    run.process.kill('SIGINT')

    expect(await run.ended).toBe(130)
  })

  test('while it waits ends the wait, and leaves the line', async () => {
    const shell = aShell()
    await shell.run('lock', 'acquire', 'deploy', '--agent', 'bob')
    const run = start(shell, 'run', '--lock', 'deploy', '--wait', '--', 'echo', 'ran')
    const waiting = async () => (await shell.json<{ waiting: number }>('lock', 'status', 'deploy')).waiting
    await until(async () => (await waiting()) === 1)

    run.process.kill('SIGINT')

    expect(await run.ended).toBe(130)
    expect(await waiting()).toBe(0)
  })
})

describe('on a terminal', () => {
  test('the command has it, and an interrupt reaches it once', async () => {
    const shell = aShell()
    const script = `test -t 0 && echo "has a terminal"; trap 'echo heard; exit 4' INT; echo ready; while :; do sleep 0.05; done`

    const terminal = inTerminal(shell.folder, ['run', '--lock', 'deploy', '--', 'sh', '-c', script])
    await terminal.shows('ready')
    terminal.type(keys.interrupt)

    expect(await terminal.ended).toBe(4)
    expect(terminal.screen).toContain('has a terminal')
    expect(terminal.screen.match(/heard/g)).toHaveLength(1)
  })

  test('a lost lease stops the command and what it started', async () => {
    const shell = aShell()
    const script = `sh -c 'echo "pid $$"; while :; do sleep 0.05; done' & wait`
    const terminal = inTerminal(shell.folder, ['run', '--lock', 'deploy', '--', 'sh', '-c', script])
    await terminal.shows(/pid \d+/)
    const pid = Number(/pid (\d+)/.exec(terminal.screen)?.[1])

    await shell.run('lock', 'force-release', 'deploy', '--reason', 'test')

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
])('%s is refused before anything is run', async (_, options) => {
  const shell = aShell()

  const answer = await shell.run('run', ...options, '--', 'touch', join(shell.folder, 'ran'))

  expect(answer).toMatchObject({ code: 2, stdout: '' })
  expect(existsSync(join(shell.folder, 'ran'))).toBe(false)
})

test('no command is refused', async () => {
  expect((await aShell().run('run', '--lock', 'a')).code).toBe(2)
})

describe('next --wait', () => {
  test('blocks until there is something, without burning anything', async () => {
    const shell = aShell()
    await shell.run('init')
    const waiter = start(shell, 'queue', 'next', 'q', '--wait', '--json')
    await until(() => cpuTicks(waiter.pid) > 5)
    await new Promise((resolve) => setTimeout(resolve, 300))
    const before = cpuTicks(waiter.pid)

    await new Promise((resolve) => setTimeout(resolve, 1000))
    const burnt = cpuTicks(waiter.pid) - before
    await shell.run('queue', 'add', 'q', '{"n":1}')

    expect(await waiter.ended).toBe(0)
    expect(JSON.parse(waiter.output())).toMatchObject({ outcome: 'claimed', item: { payload: { n: 1 } } })
    // Hundredths of a second, of one.
    expect(burnt).toBeLessThanOrEqual(10)
  })

  test('gets what a killed holder leaves behind, though nobody else is awake', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const holder = start(shell, 'run', '--queue', 'q', '--', ...sleeper())
    await holder.prints('pid')
    const waiter = start(shell, 'queue', 'next', 'q', '--wait', '20s', '--agent', 'bob')

    holder.process.kill('SIGKILL')

    expect(await waiter.ended).toBe(0)
    expect(waiter.output()).toContain('k (')
  })

  test.each([
    ['queue', ['queue', 'next', 'q', '--wait', '50ms'], 6],
    ['task', ['task', 'next', '--wait', '50ms'], 6],
    ['lock', ['lock', 'acquire', 'held', '--wait', '50ms'], 4],
  ])('of a %s gives up after the time it was given', async (_, args, code) => {
    const shell = aShell()
    await shell.run('lock', 'acquire', 'held', '--agent', 'bob')

    expect((await shell.run(...args)).code).toBe(code)
  })

  test('of a task takes the one that is added', async () => {
    const shell = aShell()
    await shell.run('init')
    const waiting = shell.run('task', 'next', '--wait', '20s')
    await shell.run('task', 'add', 'write it', '--key', 'T-1')

    expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('T-1') })
  })

  test('of a lock gets it in its turn, bound to the process it names', async () => {
    const shell = aShell()
    await shell.run('lock', 'acquire', 'deploy', '--agent', 'bob')
    const waiting = shell.json('lock', 'acquire', 'deploy', '--wait', '20s', '--for-pid', String(process.pid))
    await until(async () => (await shell.json<{ waiting: number }>('lock', 'status', 'deploy')).waiting === 1)

    await shell.run('lock', 'release', 'deploy', '--agent', 'bob')

    expect(await waiting).toMatchObject({
      outcome: 'claimed',
      lock: { lease: { instance: expect.any(String) } },
    })
  })

  test('and an idempotency key are two things', async () => {
    const shell = aShell()
    await shell.run('init')
    const both = ['--wait', '1s', '--idempotency-key', 'k']

    for (const args of [
      ['queue', 'next', 'q'],
      ['lock', 'acquire', 'a'],
    ])
      expect((await shell.run(...args, ...both)).code).toBe(2)
  })
})

function cpuTicks(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
