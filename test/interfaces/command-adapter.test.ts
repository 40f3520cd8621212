/** Messages by a command: how it ends decides, whatever it started, and nothing of it outstays its time. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { command, open } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import { aFolder } from '../support/fixtures.ts'

const pidsIn = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').match(/\d+/g) : null) ?? []

/** Whoever wrote its pid there is killed after the test. */
function pidFile(): string {
  const file = join(aFolder(), 'pids')
  onTestFinished(() => {
    for (const pid of pidsIn(file)) if (isRunning(pid)) process.kill(Number(pid), 'SIGKILL')
  })
  return file
}

function isRunning(pid: string): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** One message by a command, tried as often as it takes. */
async function deliver(script: string, timeoutMs: number) {
  const hf = await open('sqlite::memory:', {
    agent: 'alice',
    logger: false,
    redelivery: false,
    adapters: { run: command({ argv: ['sh', '-c', script], timeoutMs }) },
  })
  onTestFinished(() => hf.close())
  await hf.messages.register('bob', { adapter: 'run' })
  const { message } = await hf.messages.sendWithAck('bob', { content: 1 })
  await hf.messages.processRetries()
  return (await hf.messages.get(message.id))?.deliveries[0]?.error
}

test('a command that fails has failed once, even if its children hold its stderr open [S5c-33]', async () => {
  const file = pidFile()

  const error = await deliver(`echo 'no such pane' >&2; sleep 600 & echo $! >> '${file}'; exit 3`, 20_000)

  expect(error).toBe('sh exited with code 3: no such pane')
  expect(pidsIn(file)).toHaveLength(1)
})

test('what a command printed before it failed is kept, however much it was [S5c-33]', async () => {
  const error = await deliver(
    `sleep 600 <&- >&- & echo $! >> '${pidFile()}'; yes 'much' | head -c 60000 >&2; exit 3`,
    20_000,
  )

  expect(error).toHaveLength('sh exited with code 3: '.length + 499)
})

test('when its time is up a command is killed with everything it started [S5c-33]', async () => {
  const file = pidFile()

  const error = await deliver(`sleep 600 & echo "$$ $!" >> '${file}'; wait`, 300)

  expect(error).toBe('no answer within 300 ms')
  // Tried three times.
  expect(pidsIn(file)).toHaveLength(6)
  await expect.poll(() => pidsIn(file).filter(isRunning)).toEqual([])
})

test('a program can exit even if a child of its command left the group and lives on [S5c-33]', async () => {
  const file = pidFile()
  const program = `import { command } from ${JSON.stringify(import.meta.resolve('holdfast'))}
const over = new AbortController()
const script = "setsid sh -c 'echo $$ > \\"$0\\"; exec sleep 600' '${file}' & wait"
setTimeout(() => over.abort(), 500)
await command({ argv: ['sh', '-c', script] }).send({}, over.signal).catch(() => console.log('time is up'))`

  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])

  expect(stdout).toBe('time is up\n')
  expect(pidsIn(file).filter(isRunning)).toHaveLength(1)
})

test('the adapter in the guide passes a message on as data, whatever it contains [S5d-12]', async () => {
  const folder = aFolder()
  const guide = readFileSync(new URL('../../docs/guides/messages.md', import.meta.url), 'utf8')
  const file = join(folder, 'fleet-1.jsonl')
  const others = join(folder, 'others.jsonl')
  const files = new Map([['fleet-1', file]])
  const hf = await open('sqlite::memory:', {
    agent: 'alice',
    logger: false,
    redelivery: false,
    adapters: { file: command({ argv: ({ address }) => ['tee', '-a', files.get(address ?? '') ?? others] }) },
  })
  onTestFinished(() => hf.close())
  await hf.messages.register('alice', { sendsPerMinute: 0 })
  await hf.messages.register('bob', { adapter: 'file', address: 'fleet-1' })
  const contents = [
    '; touch pwned',
    '$(touch pwned)',
    '#(touch pwned)',
    'x\ntouch pwned\n',
    '\u001b[2J\u202e',
  ]
  for (const content of contents) await hf.messages.sendWithAck('bob', { content })
  for (const [index, address] of ['outside', 'fleet-1/outside', 'fleet-1.x', '__proto__'].entries()) {
    await hf.messages.register(`eve-${index}`, { adapter: 'file', address })
    await hf.messages.sendWithAck(`eve-${index}`, { content: 'x' })
  }

  await hf.messages.processRetries()

  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  const heard = lines.map((line) => (JSON.parse(line) as { content: string }).content)
  expect(guide).toContain(
    "command({ argv: ({ address }) => ['tee', '-a', files.get(address ?? '') ?? 'others.jsonl'] })",
  )
  expect(readdirSync(folder)).toEqual(['fleet-1.jsonl', 'others.jsonl'])
  expect(readFileSync(others, 'utf8').trimEnd().split('\n')).toHaveLength(4)
  expect([...guide.matchAll(/```js\n(.*?)```/gs)].join('')).not.toMatch(/send-keys|display-message|sh', '-c/)
  expect(heard.toSorted()).toEqual(contents.toSorted())
  expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u)
  expect([existsSync('pwned'), existsSync(join(folder, 'pwned'))]).toEqual([false, false])
})
