/** `--wait`: blocks until there is something, costs nothing meanwhile, and ends when it should. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'

/** A command in a process of its own, and how it ended. */
function start(shell: Shell, ...args: string[]) {
  const child = spawn(process.execPath, [program, ...args], { cwd: shell.folder, env: cleanEnvironment() })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stdout = ''
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString()
  })
  const ended = once(child, 'exit').then(([code]) => ({ code: code as number, stdout }))
  return { process: child, pid: child.pid as number, ended }
}

test('a wait costs nothing while others work, and ends with what it waited for', async () => {
  const shell = aShell()
  await shell.run('init')
  const waiter = start(shell, 'queue', 'next', 'q', '--wait', '--json')
  const othersWork = async () => {
    for (let number = 0; number < 40; number++) await shell.run('queue', 'add', 'others', String(number))
  }
  // It has read and compiled its program long before these are through.
  while (cpuTicks(waiter.pid) < 5) await othersWork()
  await othersWork()
  const before = cpuTicks(waiter.pid)

  await othersWork()
  const burnt = cpuTicks(waiter.pid) - before
  await shell.run('queue', 'add', 'q', '{"n":1}')

  const { code, stdout } = await waiter.ended
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ outcome: 'claimed', item: { payload: { n: 1 } } })
  // Hundredths of a second, for a look at each of 40 wake-ups.
  expect(burnt).toBeLessThanOrEqual(20)
})

test.each([
  ['queue', 'next', 'buidls'],
  ['run', '--queue', 'buidls', '--', 'true'],
])('a queue that is not there is called that, and a wait for it says so at once: %s', async (...args) => {
  const shell = aShell()
  await shell.run('queue', 'add', 'builds', '1')
  await shell.run('queue', 'next', 'builds')
  const waiting = [...args.slice(0, 3), '--wait', '1ms', ...args.slice(3)]

  const there = await shell.run(...args.map((word) => (word === 'buidls' ? 'builds' : word)))
  const answers = [await shell.run(...args), await shell.run(...waiting)]

  expect(`${there.stdout}${there.stderr}`).not.toContain('ever')
  expect(answers.map(({ code }) => code)).toEqual([6, 6])
  const why = 'nothing to claim: nothing has ever been added there'
  expect(answers.map(({ stdout, stderr }) => `${stdout}${stderr}`.split(why).length - 1)).toEqual([1, 2])
})

test('it gets what a killed holder leaves behind, even if no other process is awake', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '1', '--key', 'k')
  const holder = start(shell, 'run', '--queue', 'q', '--', 'sh', '-c', 'echo ready; exec sleep 60')
  await once(holder.process.stdout, 'data')
  const waiting = shell.run('queue', 'next', 'q', '--wait', '20s', '--agent', 'bob')

  holder.process.kill('SIGKILL')

  expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('k (') })
})

test.each([
  ['task', ['task', 'next']],
  ['item', ['queue', 'next', 'q']],
  ['lock', ['lock', 'acquire', 'deploy']],
])('it takes no %s for an agent whose process has died meanwhile', async (_, args) => {
  const shell = aShell()
  const bob = ['--agent', 'bob']
  await shell.run('init')
  await shell.run('lock', 'acquire', 'deploy', ...bob)
  const agent = spawn('sleep', ['60'])
  onTestFinished(() => void agent.kill('SIGKILL'))
  await shell.run('agent', 'register', '--pid', String(agent.pid))
  const waiter = start(shell, ...args, '--wait', '20s')
  while (!isWatching(waiter.pid)) await setImmediate()

  agent.kill('SIGKILL')
  await once(agent, 'exit')
  await shell.run('recover')
  await shell.run('task', 'add', 'Write')
  await shell.run('queue', 'add', 'q', '1')
  await shell.run('lock', 'release', 'deploy', ...bob)

  expect(await waiter.ended).toMatchObject({ code: 7, stdout: '' })
  expect(await shell.json('status')).toMatchObject({ held: { total: 0 } })
})

test.each([
  ['queue', ['queue', 'next', 'q', '--wait', '50ms'], 6],
  ['task', ['task', 'next', '--wait', '50ms'], 6],
  ['lock', ['lock', 'acquire', 'held', '--wait', '50ms'], 4],
])('a wait for a %s gives up after the given time', async (_, args, code) => {
  const shell = aShell()
  await shell.run('init')
  await shell.run('lock', 'acquire', 'held', '--agent', 'bob')

  expect((await shell.run(...args)).code).toBe(code)
})

test('a wait for a paused queue lasts until it is resumed', async () => {
  const shell = aShell()
  await shell.run('queue', 'add', 'q', '1', '--key', 'k')
  await shell.run('queue', 'pause', 'q')
  const waiting = shell.run('queue', 'next', 'q', '--wait', '20s')

  await shell.run('queue', 'resume', 'q')

  expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('k (') })
})

test('a wait for a task takes the one that is added', async () => {
  const shell = aShell()
  await shell.run('init')
  const waiting = shell.run('task', 'next', '--wait', '20s')

  await shell.run('task', 'add', 'write it', '--key', 'T-1')

  expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringContaining('T-1') })
})

test('a wait for a lock gets it in its turn, bound to the process it names', async () => {
  const shell = aShell()
  await shell.run('init')
  await shell.run('lock', 'acquire', 'deploy', '--agent', 'bob')
  const waiting = shell.json('lock', 'acquire', 'deploy', '--wait', '20s', '--for-pid', String(process.pid))
  const isInLine = async () => (await shell.json<{ waiting: number }>('lock', 'status', 'deploy')).waiting > 0
  // The one that waits needs its turns of the loop too.
  while (!(await isInLine())) await setImmediate()

  await shell.run('lock', 'release', 'deploy', '--agent', 'bob')

  expect(await waiting).toMatchObject({
    outcome: 'acquired',
    lock: { lease: { instance: expect.any(String) } },
  })
})

test.each([
  ['queue', 'next', 'q'],
  ['task', 'next'],
  ['lock', 'acquire', 'a'],
])('%s %s: a wait cannot have an idempotency key', async (...args) => {
  const shell = aShell()
  await shell.run('init')

  expect((await shell.run(...args, '--wait', '1s', '--idempotency-key', 'k')).code).toBe(2)
})

/** It has looked once, and now listens for changes. */
function isWatching(pid: number): boolean {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).some((name) => isInotify(`${folder}/${name}`))
}

function isInotify(path: string): boolean {
  try {
    return readlinkSync(path) === 'anon_inode:inotify'
  } catch {
    // Closed meanwhile.
    return false
  }
}

function cpuTicks(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
