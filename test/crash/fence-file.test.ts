/** The file fence, with real processes that write, die and freeze. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { uptime } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { writeFileFenced } from 'holdfast/fences'
import { systemEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { newStore, program, run, stateOf, until } from './support.ts'

test('a late holder is refused, in this process and in a new one, and the file stays as it was [X6]', async () => {
  const file = newFile()
  await write(file, 6, 'current')

  const refused = await refusal(() => write(file, 5, 'late'))
  const { stdout } = await writeElsewhere(file, [5])

  expect(refused).toMatchObject({
    code: 'LEASE_LOST',
    facts: { subject: 'r', token: 5, currentToken: 6 },
  })
  expect(stdout).toBe('5 LEASE_LOST\n')
  expect(contentOf(file)).toBe('current')
})

test('the same token may write again, and a higher one after it', async () => {
  const file = newFile()

  await write(file, 5, 'one')
  await write(file, 5, 'two')
  expect(contentOf(file)).toBe('two')
  await write(file, 6, new TextEncoder().encode('three'))

  expect(contentOf(file)).toBe('three')
})

test('a write killed before any of its steps leaves a whole file, no obstacle and no way in for a late one [X6]', async () => {
  const lanes = [1, 2, 3, 4]
  const seen = new Set<string>()
  let steps = 0
  for (let isKilled = true; isKilled; steps += lanes.length) {
    const killed = await Promise.all(lanes.map((lane) => killAtStep(steps + lane, seen)))
    isKilled = killed.every(Boolean)
  }

  expect(steps).toBeGreaterThan(15)
  expect([...seen].sort()).toEqual(['new content, token 2', 'old content, token 1', 'old content, token 2'])
})

/** False when a write takes fewer steps than that. */
async function killAtStep(step: number, seen: Set<string>): Promise<boolean> {
  const file = newFile()
  await write(file, 1, 'old')
  const first = await writeElsewhere(file, [2], step)
  // Where the first has left its lock, the second dies as its heir.
  if (readdirSync(`${file}.fence`).includes('lock')) await writeElsewhere(file, [2], step)

  const content = contentOf(file)
  const { token } = JSON.parse(readFileSync(join(`${file}.fence`, 'token.json'), 'utf8'))
  seen.add(`${content === 'old' ? 'old' : 'new'} content, token ${token}`)
  expect(['old', '2\n'.repeat(20_000)]).toContain(content)
  if (token === 2) expect(await refusalCode(() => write(file, 1, 'late'))).toBe('LEASE_LOST')

  await write(file, 3, 'next')
  expect(contentOf(file)).toBe('next')
  expect(await refusalCode(() => write(file, 2, 'late'))).toBe('LEASE_LOST')
  expect(readdirSync(`${file}.fence`)).toEqual(['token.json'])
  return first.signal === 'SIGKILL'
}

test('when several processes write at once, no content goes back to a lower token [X6]', async () => {
  const file = newFile()
  const processes = 4
  const writes = 25
  const tokensOf = (one: number) => Array.from({ length: writes }, (_, at) => 1 + one + at * processes)
  let isRunning = true
  const reading = (async () => {
    let highest = 0
    while (isRunning) {
      const token = Number((readIfThere(file) ?? '0\n').split('\n')[0])
      expect(token).toBeGreaterThanOrEqual(highest)
      highest = token
      await new Promise(setImmediate)
    }
  })()

  const endings = await Promise.all(
    Array.from({ length: processes }, (_, one) => writeElsewhere(file, tokensOf(one))),
  )
  isRunning = false
  await reading

  const lines = endings.flatMap(({ stdout }) => stdout.trim().split('\n'))
  expect(lines).toHaveLength(processes * writes)
  expect(lines.filter((line) => !/^\d+ (?:written|LEASE_LOST)$/.test(line))).toEqual([])
  expect(lines).toContain(`${processes * writes} written`)
  expect(contentOf(file)).toBe(`${processes * writes}\n`.repeat(20_000))
  expect(readdirSync(`${file}.fence`)).toEqual(['token.json'])
})

test('a frozen writer blocks others, who learn its pid, and finishes before them once it wakes', async () => {
  const file = newFile()
  await write(file, 1, 'old')
  const frozen = await freezeElsewhere(file, 2, 8)
  expect(readdirSync(`${file}.fence`)).toContain('lock')

  const refused = await refusal(() => write(file, 3, 'next', { waitMs: 50 }))
  expect(refused).toMatchObject({ code: 'BUSY', facts: { pid: frozen.pid } })

  const [, printed] = await Promise.all([write(file, 3, 'next'), frozen.awaken()])
  expect(printed).toBe('2 written\n')
  expect(contentOf(file)).toBe('next')
})

test('a successor that comes too late does not act beside the next holder [X6]', async () => {
  const file = newFile()
  await write(file, 1, 'old')
  const dead = { id: 'dead', ...systemEnvironment.host.identity, bootId: 'another boot' }
  symlinkSync(JSON.stringify(dead), join(`${file}.fence`, 'lock'))
  const beforeOurs = new Date(Date.now() - uptime() * 1000 - 3_600_000)
  lutimesSync(join(`${file}.fence`, 'lock'), beforeOurs, beforeOurs)
  // Stopped when it has seen that the holder is dead, before it becomes its heir.
  const tardy = await freezeElsewhere(file, 5, 6, stepsOfWrite + 6)
  await write(file, 2, 'by the first heir')
  const holder = await freezeElsewhere(file, 4, 8)
  expect(readdirSync(`${file}.fence`)).toContain('lock')

  await tardy.awakenUntilFrozen()
  const hasWritten = contentOf(file).startsWith('5')
  const [first, second] = [holder.awaken(), tardy.awaken()]

  expect(hasWritten).toBe(false)
  expect(await Promise.all([first, second])).toEqual(['4 written\n', '5 written\n'])
  expect(contentOf(file)).toBe('5\n'.repeat(20_000))
  expect(readdirSync(`${file}.fence`)).toEqual(['token.json'])
})

test('a lock with another boot id is taken over only if its holder ran before our boot [S5b-3]', async () => {
  const file = newFile()
  await write(file, 1, 'old')
  const other = { id: 'other', ...systemEnvironment.host.identity, bootId: 'of a container' }
  const link = join(`${file}.fence`, 'lock')
  symlinkSync(JSON.stringify(other), link)

  const refused = await refusal(() => write(file, 2, 'beside it', { waitMs: 50 }))
  expect(refused).toMatchObject({ code: 'BUSY', facts: { pid: other.pid } })

  rmSync(link)
  // Its machine had been awake for longer than ours is now.
  const awakeAt = systemEnvironment.monotonic() + 3_600_000
  symlinkSync(JSON.stringify({ ...other, awakeAt }), link)
  await write(file, 2, 'after it')
  expect(contentOf(file)).toBe('after it')
})

test('many concurrent writes of one process take turns', async () => {
  const file = newFile()

  await Promise.all(Array.from({ length: 10 }, (_, at) => write(file, 5, `${at}`)))

  expect(contentOf(file)).toMatch(/^\d$/)
  expect(readdirSync(`${file}.fence`)).toEqual(['token.json'])
})

test('a link and the file it points to have one fence, and the file keeps its mode', async () => {
  const file = newFile()
  writeFileSync(file, 'old', { mode: 0o640 })
  const link = join(dirname(file), 'link')
  symlinkSync(file, link)

  await write(link, 6, 'new')

  expect(contentOf(file)).toBe('new')
  expect(statSync(file).mode & 0o777).toBe(0o640)
  expect(await refusalCode(() => write(file, 5, 'late'))).toBe('LEASE_LOST')
})

test.runIf(process.platform === 'linux')('no part of a private file is ever readable by others', async () => {
  const file = newFile()
  writeFileSync(file, 'old', { mode: 0o600 })

  // Fails in the middle of the content, as on a disk that is full.
  const limited = ['-c', 'ulimit -f 8; exec "$0" "$@"', process.execPath, program('writes'), file, '6']
  const { stdout } = await run('sh', limited)

  expect(stdout).toBe('6 STORE_UNAVAILABLE\n')
  expect(statSync(join(`${file}.fence`, 'content.tmp')).mode & 0o077).toBe(0)
})

test('a link to a file that does not exist yet has the fence of that file, and stays a link', async () => {
  const file = newFile()
  const folder = dirname(file)
  mkdirSync(join(folder, 'deep', 'er'), { recursive: true })
  symlinkSync('deep/er', join(folder, 'short'))
  symlinkSync('../../second', join(folder, 'deep', 'er', 'first'))
  symlinkSync('short/../../report.txt', join(folder, 'second'))

  await write(join(folder, 'short', 'first'), 6, 'new')

  expect(contentOf(file)).toBe('new')
  expect(readdirSync(folder).toSorted()).toEqual([
    'deep',
    'report.txt',
    'report.txt.fence',
    'second',
    'short',
  ])
  expect(await refusalCode(() => write(file, 5, 'late'))).toBe('LEASE_LOST')
})

test('anything that is not a regular file is refused before anything is created or replaced', async () => {
  const file = newFile()
  const folder = dirname(file)
  mkdirSync(join(folder, 'folder'))
  const socket = createServer().listen(join(folder, 'socket'))
  await once(socket, 'listening')
  onTestFinished(() => void socket.close())
  symlinkSync('loop', join(folder, 'loop'))

  const codes = [
    await refusalCode(() => write(join(folder, 'folder'), 6, 'new')),
    await refusalCode(() => write(join(folder, 'socket'), 6, 'new')),
    await refusalCode(() => write(join(folder, 'loop'), 6, 'new')),
  ]

  expect(codes).toEqual(['INVALID', 'INVALID', 'STORE_UNAVAILABLE'])
  expect(readdirSync(folder).toSorted()).toEqual(['folder', 'loop', 'socket'])
})

test.each([
  'null',
  '{}',
  'garbage',
  JSON.stringify({ ...systemEnvironment.host.identity, id: '../../outside' }),
  JSON.stringify({ id: 'a', bootId: 'another boot' }),
  JSON.stringify({ ...systemEnvironment.host.identity, id: 'a', awakeAt: 'noon' }),
])('a lock that says %s is told, not broken, and nothing is made outside its folder', async (text) => {
  const file = newFile()
  await write(file, 1, 'old')
  symlinkSync(text, join(`${file}.fence`, 'lock'))

  const refused = await refusal(() => write(file, 2, 'new', { waitMs: 0 }))

  expect(refused).toMatchObject({ code: 'STORE_UNFIT', message: expect.stringContaining('lock') })
  expect(contentOf(file)).toBe('old')
  expect(readdirSync(dirname(file)).toSorted()).toEqual(['report.txt', 'report.txt.fence'])
})

test('a writer whose lock was removed by hand does not remove that of the next', async () => {
  const file = newFile()
  await write(file, 1, 'old')
  const robbed = await freezeElsewhere(file, 2, 8)
  rmSync(join(`${file}.fence`, 'lock'))
  const next = { id: 'next', ...systemEnvironment.host.identity }
  symlinkSync(JSON.stringify(next), join(`${file}.fence`, 'lock'))

  await robbed.awaken()

  expect(readdirSync(`${file}.fence`)).toContain('lock')
})

test('a file belongs to the resource of its first write', async () => {
  const file = newFile()
  await write(file, 6, 'one')

  const refused = await refusal(() => writeFileFenced(file, 'other', { resource: 's', token: 7 }))

  expect(refused).toMatchObject({ code: 'INVALID', facts: { resource: 's', belongsTo: 'r' } })
  expect(contentOf(file)).toBe('one')
})

test.each(['', '{', 'null', '{"resource":"r","token":"6"}'])(
  'a fence that contains %j is an error, not an open fence',
  async (damage) => {
    const file = newFile()
    await write(file, 6, 'one')
    writeFileSync(join(`${file}.fence`, 'token.json'), damage)

    expect(await refusalCode(() => write(file, 7, 'two'))).toBe('STORE_UNFIT')
    expect(contentOf(file)).toBe('one')
  },
)

test('a missing folder and a network file system are refused by name', async () => {
  const file = newFile()
  const host = { ...systemEnvironment.host, networkFileSystem: () => 'NFS' }
  const environment = { ...systemEnvironment, host }

  expect(await refusalCode(() => write(join(file, 'no', 'file'), 6, 'one'))).toBe('STORE_UNAVAILABLE')
  const refused = await refusal(() => write(file, 6, 'one', { environment }))
  expect(refused).toMatchObject({ code: 'STORE_UNFIT', facts: { network: 'NFS' } })
})

test.each([
  { path: '' },
  { path: 'a\0b' },
  { content: 5 },
  { options: { waitMs: -1 } },
  { options: { waitMs: Number.NaN } },
  { options: { wait: 5 } },
  { options: null },
])('%j is refused', async (wrong) => {
  const { path, content, options } = { path: newFile(), content: 'one', options: {}, ...wrong }

  const code = await refusalCode(() => write(path, 6, content as string, options as { waitMs: number }))

  expect(code).toBe('INVALID')
})

function newFile(): string {
  return join(dirname(newStore()), 'report.txt')
}

function write(
  file: string,
  token: number,
  content: string | Uint8Array,
  options: Parameters<typeof writeFileFenced>[3] = {},
): Promise<void> {
  return writeFileFenced(file, content, { resource: 'r', token }, options)
}

function writeElsewhere(file: string, tokens: readonly number[], step?: number) {
  const trap = step === undefined ? [] : [String(step), 'SIGKILL']
  return run(process.execPath, [program('writes'), file, tokens.join(','), ...trap])
}

/** More than a write takes that need not wait: who has taken so many either has written or waits. */
const stepsOfWrite = 60

/** A process that writes and has stopped before that step. Awaken it, and it answers what it printed. */
async function freezeElsewhere(file: string, token: number, ...steps: number[]) {
  const args = [program('writes'), file, String(token), steps.join(','), 'SIGSTOP']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const printed = text(child.stdout)
  const pid = child.pid as number
  await until('it is frozen', () => stateOf(pid) === 'T')
  return {
    pid,
    /** To the next step at which it stops, or to its end. */
    async awakenUntilFrozen() {
      child.kill('SIGCONT')
      await until('it is frozen again or has ended', () => child.exitCode !== null || stateOf(pid) === 'T')
    },
    awaken() {
      child.kill('SIGCONT')
      return printed
    },
  }
}

function contentOf(file: string): string {
  return readFileSync(file, 'utf8')
}

function readIfThere(file: string): string | null {
  try {
    return contentOf(file)
  } catch {
    return null
  }
}
