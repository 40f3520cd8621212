/** How commands end: exit codes, errors, and who is asked before something is lost. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes, type Holdfast, open } from 'holdfast'
import { beforeAll, describe, expect, test } from 'vitest'
import { aShell, type Shell, sharedShell } from '../support/cli.ts'
import { openRaw } from '../support/sqlite-file.ts'

const shared = sharedShell()
beforeAll(() => prepare(shared))

/** Everything that the tests need which change nothing. */
async function prepare(shell: Shell): Promise<void> {
  await shell.run('queue', 'add', 'q', '1', '--key', 'held', '--priority', '0')
  await shell.run('queue', 'next', 'q', '--agent', 'bob')
  await shell.run('queue', 'add', 'paused', '1', '--key', 'k')
  await shell.run('queue', 'pause', 'paused')
  await shell.run('task', 'add', 'first', '--key', 'T-1')
  await shell.run('task', 'add', 'second', '--key', 'T-2', '--depends-on', 'T-1')
  await shell.run('state', 'set', 'k', '1')
  await shell.run('msg', 'register', 'carol')
}

const cases: [code: number, what: string, args: string[]][] = [
  [0, 'done', ['queue', 'show', 'q', 'held']],
  [2, 'the command line is wrong', ['queue', 'next', 'q', '--lease', '5']],
  [3, 'there is no such item', ['queue', 'complete', 'q', 'nothing']],
  [3, 'there is no such task', ['task', 'show', 'T-9']],
  [3, 'there is no such recipient', ['msg', 'send', 'caroll', 'hello']],
  [3, 'there is no such message', ['msg', 'receive-ack', '01a1e256-0000-7000-8000-000000000000']],
  [4, 'another holds it', ['queue', 'complete', 'q', 'held']],
  [4, 'its key belongs to an open item', ['queue', 'add', 'q', '1', '--key', 'held']],
  [4, 'it cannot go there', ['queue', 'retry', 'q', 'held']],
  [4, 'it is at another version', ['state', 'set', 'k', '2', '--expected-version', '7']],
  [4, 'it waits for another', ['task', 'claim', 'T-2']],
  [5, 'the lease is lost', ['queue', 'complete', 'q', 'held', '--token', '1']],
  [5, 'a release came too late', ['queue', 'release', 'q', 'held', '--token', '1']],
  [6, 'nothing to claim', ['queue', 'next', 'empty']],
  [6, 'nothing to look at', ['queue', 'peek', 'empty']],
  [9, 'paused', ['queue', 'next', 'paused']],
]

test.each(cases)('exit code %i: %s, the same with and without JSON', async (code, _, args) => {
  const json = await shared.run(...args, '--json')
  const text = await shared.run(...args)

  expect([json.code, text.code]).toEqual([code, code])
  expect(JSON.parse(json.stdout)).toMatchObject({ schemaVersion: 1 })
})

test('exit code 7: others write for longer than the command may wait', async () => {
  const shell = aShell()
  await shell.run('init')
  const writer = openRaw(join(shell.folder, '.holdfast', 'store.db'))
  writer.exec('begin immediate')

  const answer = await shell.runWith({ env: { HOLDFAST_BUSY_TIMEOUT: '50ms' } }, 'queue', 'add', 'q', '1')
  writer.exec('rollback')
  writer.close()

  expect(answer.code).toBe(errorCodes.BUSY.exit)
  expect(answer.stderr).not.toContain('database is locked')
})

test('exit code 10: the file is not a store', async () => {
  const shell = aShell()
  const file = join(shell.folder, 'store.db')
  writeFileSync(file, 'x'.repeat(4096))

  expect((await shell.run('queue', 'queues', '--store', file)).code).toBe(errorCodes.STORE_UNFIT.exit)
})

test('exit code 11: more leases are stale than the threshold allows [T16]', async () => {
  const shell = aShell()
  await losing(shell, async (hf) => {
    for (const name of ['one', 'two']) await hf.locks.acquireLock(name, { leaseMs: 0 })
  })

  const detect = ['locks', 'detect', '--stale', '0']
  const codes = [
    (await shell.run(...detect)).code,
    (await shell.run(...detect, '--alert-above', '2')).code,
    (await shell.run(...detect, '--alert-above', '1')).code,
    (await shell.run(...detect, '--alert-above', '1', '--json')).code,
  ]

  expect(codes).toEqual([0, 0, 11, 11])
})

test('exit code 1: something unexpected', async () => {
  const shell = aShell()
  await shell.run('init')

  const answer = await shell.runWith({ cwd: '/nowhere\0' }, 'queue', 'queues')

  expect(answer.code).toBe(1)
  expect(answer.stderr).toMatch(/^error {2}.+\nnext {3}please report this/)
})

describe('an error', () => {
  test('says what happened and what to do next, on stderr', async () => {
    const answer = await shared.run('queue', 'cancel', 'q', 'nothing')

    expect(answer.stdout).toBe('')
    expect(answer.stderr).toMatch(/^error {2}queue q has no item "nothing"\nnext {3}\S/)
  })

  test('is one JSON object with its code, facts and whether to retry', async () => {
    const answer = await shared.json('queue', 'complete', 'q', 'held')

    expect(answer).toMatchObject({
      schemaVersion: 1,
      error: {
        code: 'HELD',
        what: expect.any(String),
        next: expect.any(String),
        retryable: true,
        facts: { holder: 'bob' },
      },
    })
  })

  test.each([
    ['a queue', ['queue', 'pause', 'paussed'], 'paused'],
    ['an item', ['queue', 'cancel', 'q', 'heldd'], 'held'],
    ['a task', ['task', 'review', 'T-11'], 'T-1'],
    ['a recipient', ['msg', 'send', 'karol', 'hello'], 'carol'],
  ])('names the nearest name of %s', async (_, args, nearest) => {
    const answer = await shared.run(...args)

    expect(answer.code).toBe(3)
    expect(answer.stderr).toMatch(new RegExp(`next .*"${nearest}"`))
  })

  test('never suggests a destructive command', async () => {
    const said = await Promise.all(cases.map(([, , args]) => shared.run(...args)))

    for (const { stderr } of said)
      expect(stderr).not.toMatch(/holdfast .*(?:remove|cleanup|clear|force|--yes)/)
  })
})

describe('an irreversible action', () => {
  const bulk: [what: string, args: string[], look: string[]][] = [
    ['finished items', ['queue', 'cleanup', 'q', '--max-age', '0'], ['queue', 'stats', 'q']],
    ['pending messages', ['msg', 'clear'], ['msg', 'count']],
    [
      "an agent's locks",
      ['lock', 'force-release-agent', 'ada', '--reason', 'gone'],
      ['lock', 'list', '--json'],
    ],
  ]

  test.each(bulk)('is not done without confirmation where nobody can be asked: %s', async (_, args, look) => {
    const shell = aShell()
    await prepareBulk(shell)
    const before = await lookAt(shell, look)

    const unasked = await shell.run(...args)
    const dry = await shell.run(...args, '--dry-run')
    const untouched = await lookAt(shell, look)
    const told = await shell.run(...args, '--yes')

    expect([unasked.code, dry.code, told.code]).toEqual([2, 0, 0])
    expect(unasked.stderr).toMatch(/\d.*--dry-run.*--yes/s)
    expect(dry.stdout).toMatch(/^would \w+ \d/)
    expect(untouched).toBe(before)
    expect(await lookAt(shell, look)).not.toBe(before)
  })

  /** What is there, without how long its leases still last. */
  async function lookAt(shell: Shell, look: string[]): Promise<string> {
    return (await shell.run(...look)).stdout.replace(/"remainingMs":\d+/g, '')
  }

  test.each([
    ['queue', 'cleanup', 'none', '--max-age', '0'],
    ['msg', 'clear', '--sender', 'nobody'],
  ])('needs no confirmation if there is nothing to lose: %s %s', async (...args) => {
    const shell = aShell()
    await prepareBulk(shell)

    expect((await shell.run(...args)).code).toBe(0)
  })

  async function prepareBulk(shell: Shell): Promise<void> {
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('queue', 'cancel', 'q', 'k')
    await shell.run('msg', 'register', 'bob')
    await shell.run('msg', 'send', 'bob', 'hello')
    await shell.run('lock', 'acquire', 'deploy')
  }
})

describe('the output of commands', () => {
  test('never lets stored text control the reader’s terminal', async () => {
    const shell = aShell()
    const evil = '\u001b[2Jgone\u0007\u009b2J'
    await shell.run('queue', 'add', 'q', JSON.stringify(evil))
    await shell.run('task', 'add', evil, '--key', 'T-2')
    await shell.run('msg', 'register', 'ada')
    await shell.run('msg', 'send', 'ada', evil)
    await shell.run('state', 'set', 'k', JSON.stringify({ evil }))
    await shell.run('lock', 'acquire', 'deploy', '--reason', evil)

    const looks = [
      ['queue', 'peek', 'q'],
      ['queue', 'list', 'q'],
      ['queue', 'next', 'q'],
      ['task', 'list'],
      ['task', 'show', 'T-2'],
      ['msg', 'inbox'],
      ['msg', 'pending'],
      ['state', 'get', 'k'],
      ['state', 'history', 'k'],
      ['lock', 'status', 'deploy'],
      ['lock', 'list'],
      ['events'],
    ]
    for (const look of looks) {
      const { stdout, stderr } = await shell.run(...look)
      for (const sign of ['\u001b', '\u0007', '\u009b'])
        expect(stdout + stderr, look.join(' ')).not.toContain(sign)
    }
  })

  test('colours are for terminals, unless NO_COLOR says otherwise', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    const plain = await shell.run('queue', 'list', 'q')
    const colored = await shell.runWith({ hasColors: true }, 'queue', 'list', 'q')

    expect(plain.stdout).not.toContain('\u001b[')
    expect(colored.stdout).toContain('\u001b[1m')
  })

  test('the same thing has the same shape in JSON, whichever verb prints it [S5c-37]', async () => {
    const shell = aShell()
    const shapes = async (...lines: string[]) => {
      const nouns: string[] = []
      for (const line of lines) {
        const { schemaVersion: _, ...answer } = await shell.json<Record<string, unknown>>(...line.split(' '))
        nouns.push(Object.keys(answer).find((key) => key !== 'outcome') ?? '')
      }
      return new Set(nouns)
    }

    const items = await shapes(
      'queue add q 1 --key k',
      'queue peek q',
      'queue next q',
      'queue show q k',
      'queue renew q k',
      'queue progress q k 1',
      'queue complete q k',
      'queue add q 1 --key b',
      'queue priority q b 1',
      'queue cancel q b',
    )
    const tasks = await shapes(
      'task add T --key T',
      'task claim T',
      'task show T',
      'task renew T',
      'task update T --note n',
      'task review T',
      'task complete T',
    )
    const locks = await shapes('lock acquire l', 'lock renew l', 'lock transfer l bob --reason r')
    await shell.run('lock', 'acquire', 'e', '--run', 'r')
    const runs = await shapes(
      'runs start r --lock e',
      'runs record r --done 1',
      'runs show r',
      'runs pause r',
    )
    const queues = await shapes('queue define p', 'queue describe p')

    expect([items, tasks, locks, runs, queues].map((each) => [...each])).toEqual([
      ['item'],
      ['task'],
      ['lock'],
      ['progress'],
      ['queue'],
    ])
  })

  test('a table row stays one line on a narrow terminal, and is complete elsewhere', async () => {
    const shell = aShell()
    const title = 'a very long title that goes on and on until nobody wants to read it any more, really'
    await shell.run('task', 'add', title, '--key', 'T-1')

    const narrow = await shell.runWith({ columns: 60 }, 'task', 'list')
    const wide = await shell.run('task', 'list')

    expect(Math.max(...narrow.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(60)
    expect(narrow.stdout).toContain('…')
    expect(wide.stdout).toContain(title)
  })

  test('counts of an unused queue say so [S5c-51]', async () => {
    const known = await shared.run('queue', 'stats', 'paused')
    const mistyped = await shared.run('queue', 'stats', 'pausd')
    const json = await shared.run('queue', 'stats', 'pausd', '--json')

    expect([known.code, mistyped.code]).toEqual([0, 0])
    expect(known.stdout).not.toContain('exists')
    expect(mistyped.stdout).toContain('nobody has used a queue of this name yet')
    expect(JSON.parse(json.stdout)).toMatchObject({ total: 0, exists: false })
  })

  test('hints are only for people at a terminal', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const claimed = await shell.runWith({ isTalkSeen: true }, 'queue', 'next', 'q')
    const off = await shell.run('queue', 'next', 'q')

    expect(claimed.stderr).toContain('holdfast queue complete q k')
    expect(off.stderr).toBe('')
  })

  test('expiry is shown in wall time, whatever the lease clock says', async () => {
    const shell = aShell()
    const before = Date.now()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'deploy', '--lease', '1h')

    const { stdout } = await shell.run('lock', 'status', 'deploy')

    const [, until = ''] = /^until +(\S+)$/m.exec(stdout) ?? []
    expect(Math.abs(Date.parse(until) - before - 3_600_000)).toBeLessThan(10_000)
  })

  test('what healing reclaimed before a claim is reported on stderr', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('queue', 'next', 'q', '--lease', '0', '--agent', 'bob')

    const answer = await shell.run('queue', 'next', 'q', '--json')

    expect(JSON.parse(answer.stdout)).toMatchObject({ outcome: 'claimed' })
    expect(answer.stderr).toMatch(/^healed item \S+ of bob: its lease lapsed/)
  })
})

describe('healing', () => {
  test('prints a dated line per action and one summary [X5]', async () => {
    const shell = aShell()
    await lose(shell)

    const { stdout, code } = await shell.run('recover')

    const lines = stdout.trimEnd().split('\n')
    expect(code).toBe(0)
    expect(lines).toHaveLength(4)
    for (const line of lines) expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}freed /)
    expect(lines.at(-1)).toContain('2 items, 1 lock, 0 deliveries')
  })

  test('prints one JSON line per action on request [X5]', async () => {
    const shell = aShell()
    await lose(shell)

    const { stdout } = await shell.run('recover', '--json', '--lines')

    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map(({ action, kind }) => [action, kind])).toEqual([
      ['freed', 'item'],
      ['freed', 'item'],
      ['freed', 'lock'],
      [undefined, undefined],
    ])
    expect(lines.at(-1)).toMatchObject({ entriesReclaimed: 2, locksCleaned: 1, reclaimed: [] })
  })

  test('changes nothing as a dry run, and then does the same for real [X5]', async () => {
    const shell = aShell()
    await lose(shell)

    const tried = await shell.json('recover', '--dry-run')
    const done = await shell.json('recover')
    const again = await shell.json('recover')

    const { entriesReclaimed, locksCleaned } = tried as Record<string, unknown>
    expect([entriesReclaimed, locksCleaned]).toEqual([2, 1])
    expect(done).toMatchObject({ entriesReclaimed, locksCleaned })
    expect(again).toMatchObject({ entriesReclaimed: 0, locksCleaned: 0 })
  })

  test('by age takes only leases that lapsed longer ago, of every kind [T16]', async () => {
    const shell = aShell()
    await lose(shell)

    const young = await shell.json('locks', 'cleanup', '--max-age', '1h')
    const all = await shell.json('locks', 'cleanup', '--report')

    expect(young).toMatchObject({ entriesReclaimed: 0, locksCleaned: 0 })
    expect(all).toMatchObject({ entriesReclaimed: 2, locksCleaned: 1, left: { total: 0 } })
  })

  test('never touches a live lease', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    await shell.run('queue', 'next', 'q', '--lease', '1h')

    const healed = [await shell.json('recover'), await shell.json('locks', 'cleanup')]

    for (const each of healed) expect(each).toMatchObject({ entriesReclaimed: 0, locksCleaned: 0 })
  })

  /** An item, a task and a lock, all lapsed. */
  const lose = (shell: Shell) =>
    losing(shell, async (hf) => {
      await hf.queue('q').add(1)
      await hf.tasks.addTask('write it', { key: 'T-1' })
      await hf.queue('q').next({ leaseMs: 0 })
      await hf.tasks.claimTaskForAgent('T-1', { leaseMs: 0 })
      await hf.locks.acquireLock('deploy', { leaseMs: 0 })
    })
})

/** Through the library, with healing off: a claim of the command line would heal what was lost before it. */
async function losing({ folder }: Shell, act: (hf: Holdfast) => Promise<void>): Promise<void> {
  const options = { background: false, recovery: false, logger: false, agent: 'ada' } as const
  mkdirSync(join(folder, '.holdfast'))
  const hf = await open(join(folder, '.holdfast', 'store.db'), options)
  await act(hf)
  await hf.close()
}
