/** Leases of the command line: manual, under a token that is found again, or bound to a process that is named. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { open } from 'holdfast'
import { describe, expect, onTestFinished, test } from 'vitest'
import { aShell, cleanEnvironment, program, type Shell } from '../support/cli.ts'
import { anOpenFolder, holdfastAs, noStranger, stranger } from '../support/stranger.ts'

interface Claimed {
  readonly item: {
    readonly id: string
    readonly token: number
    readonly lease: { readonly instance: string | null }
  }
}

async function claim(shell: Shell, ...options: string[]): Promise<Claimed['item']> {
  return ((await shell.json('queue', 'next', 'q', ...options)) as unknown as Claimed).item
}

const leaseFiles = ({ folder }: Shell) => readdirSync(join(folder, '.holdfast', 'store.db-leases'))

describe('the token of a lease', () => {
  test('is kept in a file only its user can read, and found again by id and by key', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await claim(shell)

    const renewed = await shell.run('queue', 'renew', 'q', 'k')
    const done = await shell.run('queue', 'complete', 'q', 'k')

    expect([renewed.code, done.code]).toEqual([0, 0])
  })

  test('is kept in its own folder and file, closed to others', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    const { token } = await claim(shell)

    const folder = join(shell.folder, '.holdfast', 'store.db-leases')
    const [file = ''] = leaseFiles(shell)

    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600)
    expect(JSON.parse(readFileSync(join(folder, file), 'utf8'))).toMatchObject({ kind: 'item', token })
  })

  test('that `run` exported is replaced once its command claims the same thing again, but by no other claim', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    const first = (await shell.json('task', 'claim', 'T-1')) as unknown as { task: Claimed['item'] }
    const { id, token } = first.task
    const exported = { HOLDFAST_TOKEN: String(token), HOLDFAST_ID: id, HOLDFAST_KEY: 'T-1' }
    const underRun = (...args: string[]) => shell.runWith({ env: exported }, ...args)

    const released = await underRun('task', 'release', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    const byOther = await underRun('task', 'renew', 'T-1')
    await shell.run('task', 'release', 'T-1')
    const claimed = await underRun('task', 'claim', 'T-1')
    const done = await underRun('task', 'complete', 'T-1')

    expect([released.code, byOther.code, claimed.code, done.code]).toEqual([0, 5, 0, 0])
    expect(leaseFiles(shell)).toEqual([])
  })

  test('need not be stored for a completion to succeed: the folder may belong to another user [S5c-44]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    const { id, token } = await claim(shell)
    const folder = join(shell.folder, '.holdfast', 'store.db-leases')
    rmSync(folder, { recursive: true })
    writeFileSync(folder, 'no folder that we could write to')

    const done = await shell.run('queue', 'complete', 'q', id, '--token', String(token))

    expect(done.code).toBe(0)
    expect(done.stderr).toMatch(/^warning .*store\.db-leases is not used: it is not a folder/)
  })

  test.skipIf(noStranger)(
    'that root left there does not stop commands under `run` that cannot read it',
    () => {
      const cwd = anOpenFolder()
      chownSync(cwd, stranger.uid, stranger.gid)
      const slots = ['--slots', '2']
      holdfastAs(stranger, { cwd }, 'init')
      const named = ['--store', '.holdfast/store.db', '--agent', `u${stranger.uid}`]
      const acquire = [program, 'lock', 'acquire', 'gate', ...slots, ...named]
      execFileSync(process.execPath, acquire, { cwd, env: cleanEnvironment() })

      const renew = [process.execPath, program, 'lock', 'renew', 'gate']
      const renewed = holdfastAs(stranger, { cwd }, 'run', '--lock', 'gate', ...slots, '--', ...renew)

      expect(renewed).toMatchObject({ status: 0, stderr: '' })
    },
  )

  test.skipIf(noStranger)('is copied along with the store although root left another there', () => {
    const cwd = anOpenFolder()
    chownSync(cwd, stranger.uid, stranger.gid)
    const user = (...args: string[]) => holdfastAs(stranger, { cwd }, ...args)
    const [from, to] = ['one.db', 'two.db']
    for (const key of ['T-1', 'T-2']) user('task', 'add', 'Write', '--key', key, '--store', from)
    user('task', 'claim', 'T-1', '--store', from)
    const claim = [program, 'task', 'claim', 'T-2', '--store', from]
    execFileSync(process.execPath, claim, { cwd, env: cleanEnvironment() })

    const copied = user('copy', '--from', from, '--to', to)
    const done = user('task', 'complete', 'T-1', '--store', to)

    expect(copied).toMatchObject({ status: 0, stderr: '' })
    expect(done).toMatchObject({ status: 0 })
  })

  test('is found again whichever link leads to the store [S5b-6]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')
    symlinkSync(join(shell.folder, '.holdfast', 'store.db'), join(shell.folder, 'link.db'))
    const { id } = await claim(shell, '--store', 'link.db')

    const done = await shell.run('queue', 'complete', 'q', id)

    expect(done).toMatchObject({ code: 0, stderr: '' })
    expect(readdirSync(shell.folder).filter((name) => name.startsWith('link.db'))).toEqual(['link.db'])
  })

  test('of a reservation lets its agent reserve inside it, stored or given, and nobody else [S5c-39]', async () => {
    const shell = aShell()
    await shell.run('init')
    const outer = (await shell.json('lock', 'reserve', 'src/**')) as unknown as {
      lock: { name: string; lease: { token: number } }
    }
    const { name, lease } = outer.lock
    const inside = (...options: string[]) => shell.run('lock', 'reserve', 'src/a.ts', ...options)

    const codes = [
      await inside(),
      await inside('--holding', `${name}=${lease.token}`, '--agent', 'bob'),
      await inside('--holding', `${name}=${lease.token}`),
      await inside('--holding', name, '--mode', 'shared'),
    ].map(({ code }) => code)

    // The last meets the one before it.
    expect(codes).toEqual([4, 4, 0, 4])
  })

  test('is forgotten with the end of the lease', async () => {
    const shell = aShell()
    for (const key of ['done', 'released', 'lost']) await shell.run('queue', 'add', 'q', '1', '--key', key)
    for (const _ of [1, 2, 3]) await claim(shell, '--lease', '1h')
    await shell.run('queue', 'reclaim-stale', 'other', '0')

    await shell.run('queue', 'complete', 'q', 'done')
    await shell.run('queue', 'release', 'q', 'released')
    await shell.run('queue', 'cancel', 'q', 'lost')
    const lost = await shell.run('queue', 'complete', 'q', 'lost')

    expect(lost.code).toBe(5)
    // But for what was done or lost: later commands need to know.
    expect(leaseFiles(shell).filter((file) => !/^(done|lost)-/.test(file))).toEqual([])
  })

  test('is not used by another agent', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await claim(shell)

    const stranger = await shell.run('queue', 'complete', 'q', 'k', '--agent', 'bob')

    expect(stranger.code).toBe(4)
    expect(stranger.stderr).toContain('held by ada')
  })

  test('is useless to another agent that knows it [S5-15]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const { token } = await claim(shell)

    const stranger = await shell.run(
      'queue',
      'complete',
      'q',
      'k',
      '--agent',
      'bob',
      '--token',
      String(token),
    )
    const release = await shell.run('queue', 'release', 'q', 'k', '--agent', 'bob', '--token', String(token))

    expect(stranger.code).toBe(4)
    expect(stranger.stderr).toContain('held by ada')
    expect(release.code).not.toBe(0)
    expect((await shell.run('queue', 'complete', 'q', 'k')).code).toBe(0)
  })

  test('may be given, or come from the environment of its lease', async () => {
    const shell = aShell()
    for (const key of ['one', 'two', 'three']) await shell.run('queue', 'add', 'q', '1', '--key', key)
    const [one, two, three] = [await claim(shell), await claim(shell), await claim(shell)]
    rmSync(join(shell.folder, '.holdfast', 'store.db-leases'), { recursive: true })

    const given = await shell.run('queue', 'complete', 'q', 'one', '--token', String(one.token))
    const exported = await shell.runWith(
      { env: { HOLDFAST_TOKEN: String(two.token), HOLDFAST_ID: two.id } },
      ...['queue', 'complete', 'q', 'two'],
    )
    const forAnother = await shell.runWith(
      { env: { HOLDFAST_TOKEN: String(two.token), HOLDFAST_ID: two.id } },
      ...['queue', 'complete', 'q', three.id],
    )

    expect([given.code, exported.code, forAnother.code]).toEqual([0, 0, 4])
  })

  test.each<[string, Record<string, string>, string[], string[]]>([
    ['namespace', { HOLDFAST_NAMESPACE: 'a' }, ['lock', 'acquire', 'k'], ['lock', 'release', 'k']],
    ['store', { HOLDFAST_URL: 'other.db' }, ['lock', 'acquire', 'k'], ['lock', 'release', 'k']],
    ['kind of thing', { HOLDFAST_KIND: 'lock' }, ['queue', 'next', 'q'], ['queue', 'complete', 'q', 'k']],
    [
      'queue',
      { HOLDFAST_KIND: 'item', HOLDFAST_ID: 'x', HOLDFAST_KEY: 'k', HOLDFAST_QUEUE: 'other' },
      ['queue', 'next', 'q'],
      ['queue', 'complete', 'q', 'k'],
    ],
  ])(
    'that was exported for a lease of another %s is not taken for this one',
    async (_, exported, ...both) => {
      const shell = aShell()
      const place = ['--namespace', 'default', '--store', join(shell.folder, 'store.db')]
      await shell.run('queue', 'add', 'q', '1', '--key', 'k', ...place)
      const env = { HOLDFAST_TOKEN: '7', HOLDFAST_ID: 'k', ...exported }

      const answers = []
      for (const args of both) answers.push(await shell.runWith({ env }, ...args, ...place))

      expect(answers.map(({ code, stderr }) => [code, stderr])).toEqual([
        [0, ''],
        [0, ''],
      ])
    },
  )

  test('that is not a number is refused', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')

    const answer = await shell.runWith({ env: { HOLDFAST_TOKEN: 'secret' } }, 'queue', 'complete', 'q', 'k')

    expect(answer.code).toBe(2)
  })

  test.each([
    ['a file', (folder: string) => join(folder, '.holdfast', 'store.db')],
    ['/proc', () => '/proc/nowhere'],
  ])('that cannot be kept under %s is answered all the same, with a warning', async (_, stateIn) => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    writeFileSync(join(shell.folder, '.holdfast', 'store.db-leases'), 'no folder')

    const nowhere = { env: { XDG_STATE_HOME: stateIn(shell.folder) } }
    const claimed = await shell.runWith(nowhere, 'queue', 'next', 'q', '--json')
    const { item } = JSON.parse(claimed.stdout) as Claimed
    const done = await shell.runWith(nowhere, 'queue', 'complete', 'q', 'k', '--token', String(item.token))

    expect([claimed.code, done.code]).toEqual([0, 0])
    expect(claimed.stderr).toContain('--token')
  })

  test('moves with a store that is copied', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k', '--store', 'old.db')
    await claim(shell, '--store', 'old.db')

    const copied = await shell.run('copy', '--from', 'old.db', '--to', 'new.db')
    const done = await shell.run('queue', 'complete', 'q', 'k', '--store', 'new.db')

    expect([copied.code, done.code]).toEqual([0, 0])
    expect(statSync(join(shell.folder, 'new.db-leases')).mode & 0o777).toBe(0o700)
  })

  test('is kept when the date jumps ahead, and removed once it is old by both clocks', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const { token } = await claim(shell)
    const folder = join(shell.folder, '.holdfast', 'store.db-leases')
    const hourMicros = 60 * 60 * 1_000_000
    const name = (each: number) => `item-${'0'.repeat(24)}-${each}.json`
    for (let hours = 1; hours <= 60; hours++)
      writeFileSync(join(folder, name(token - hours * hourMicros)), '{}')
    const threeDaysAgo = Date.now() / 1000 - 72 * 60 * 60
    for (const file of leaseFiles(shell)) utimesSync(join(folder, file), threeDaysAgo, threeDaysAgo)

    await shell.run('lock', 'acquire', 'deploy')
    const left = leaseFiles(shell)
    const done = await shell.run('queue', 'complete', 'q', 'k')

    expect(done.code).toBe(0)
    expect(left.filter((file) => file.includes('0'.repeat(24)))).toHaveLength(47)
  })

  test('of each slot of a lock is kept, and released one by one', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'pool', '--slots', '2')
    await shell.run('lock', 'acquire', 'pool', '--slots', '2')

    const codes = []
    for (const _ of [1, 2, 3]) codes.push((await shell.run('lock', 'release', 'pool')).code)

    expect(codes).toEqual([0, 0, 5])
  })
})

describe('a claim from the command line', () => {
  test('is a manual lease that outlives the command', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1')

    const { lease } = await claim(shell)
    const next = await shell.run('queue', 'next', 'q')

    expect(lease).toMatchObject({ instance: null, leaseMs: 300_000 })
    expect(next.code).toBe(6)
  })

  test('for a process belongs to it, is as long as a manual one, and ends at once when that is dead', async () => {
    const shell = aShell()
    const sleeper = aProcess()
    for (const key of ['a', 'b']) await shell.run('queue', 'add', 'q', '1', '--key', key)
    const forPid = ['--for-pid', String(sleeper.pid)]

    const item = await claim(shell, ...forPid)
    const lock = await shell.json('lock', 'acquire', 'deploy', ...forPid)
    const again = await claim(shell, ...forPid)
    await killed(sleeper)
    const heir = await shell.runWith({}, 'queue', 'next', 'q', '--agent', 'bob')
    const free = await shell.run('lock', 'acquire', 'deploy', '--agent', 'bob')

    expect(item.lease).toMatchObject({ leaseMs: 300_000, instance: expect.any(String) })
    expect(lock).toMatchObject({ lock: { lease: { leaseMs: 3_600_000, instance: item.lease.instance } } })
    expect(again.lease.instance).toBe(item.lease.instance)
    expect(heir.stderr).toContain(`process ${sleeper.pid} is gone`)
    expect([heir.code, free.code]).toEqual([0, 0])
  })

  test('whose process is gone is not shown as running with time left [S5-3]', async () => {
    const shell = aShell()
    const sleeper = aProcess()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('task', 'add', 'write it', '--key', 'T-1')
    const forPid = ['--for-pid', String(sleeper.pid)]
    await claim(shell, ...forPid)
    await shell.run('task', 'claim', 'T-1', ...forPid)
    await shell.run('lock', 'acquire', 'deploy', ...forPid)
    const looks = [
      ['queue', 'list', 'q'],
      ['queue', 'show', 'q', 'k'],
      ['task', 'list'],
      ['task', 'show', 'T-1'],
      ['lock', 'status', 'deploy'],
    ]
    const look = async () => {
      const answers = await Promise.all(looks.map((args) => shell.run(...args)))
      return answers.map(({ stdout }) => stdout)
    }

    const alive = await look()
    await killed(sleeper)
    const dead = await look()

    for (const text of alive) expect(text).toContain(' left')
    for (const text of dead) {
      expect(text).toContain('its process is gone')
      expect(text).not.toContain(' left')
    }
  })

  test('is bound to no process of another agent without a name', async () => {
    const shell = aShell()
    const unnamed = { env: { HOLDFAST_AGENT: '' } }
    await shell.run('init')

    const register = ['agent', 'register', '--pid', String(process.pid)]
    const refused = await shell.runWith(unnamed, ...register)
    const named = await shell.runWith(unnamed, ...register, '--agent', 'eve')

    expect([refused.code, named.code]).toEqual([2, 0])
    expect(refused.stderr).toContain('set HOLDFAST_AGENT')
  })

  test('for a missing process is refused, and nothing is claimed', async () => {
    const shell = aShell()
    const sleeper = aProcess()
    await shell.run('queue', 'add', 'q', '1')
    await killed(sleeper)

    const answer = await shell.run('queue', 'next', 'q', '--for-pid', String(sleeper.pid))

    expect(answer.code).toBe(3)
    expect((await shell.run('queue', 'peek', 'q')).code).toBe(0)
  })

  test('of an agent whose process is registered belongs to that process', async () => {
    const shell = aShell()
    const sleeper = aProcess()
    await shell.run('task', 'add', 'write it', '--key', 'T-1')
    await shell.run('agent', 'register', '--pid', String(sleeper.pid))

    await shell.run('task', 'claim', 'T-1')
    await killed(sleeper)
    const heir = await shell.run('task', 'claim', 'T-1', '--agent', 'bob')

    expect(heir.code).toBe(0)
  })
})

describe('a lease that was lost', () => {
  const bob = ['--agent', 'bob']

  test('stays lost for every later command, until the item is claimed again [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await claim(shell)
    await shell.run('queue', 'reclaim-stale', 'q', '0s')
    await shell.run('queue', 'next', 'q', ...bob)

    const answers = []
    for (const name of ['complete', 'renew', 'release', 'complete', 'release'])
      answers.push(await shell.run('queue', name, 'q', 'k'))
    await shell.run('queue', 'release', 'q', 'k', ...bob)
    await claim(shell)
    const again = await shell.run('queue', 'complete', 'q', 'k')

    expect(answers.map(({ code }) => code)).toEqual([5, 5, 5, 5, 5])
    for (const { stdout, stderr } of answers) expect(`${stdout}${stderr}`).toContain('no longer')
    expect(again.code).toBe(0)
  })

  test('stays lost if it was a task’s [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    await shell.run('queue', 'reclaim-stale', 'tasks', '0s')
    await shell.run('task', 'claim', 'T-1', ...bob)

    const codes = []
    for (const name of ['complete', 'renew', 'release', 'complete'])
      codes.push((await shell.run('task', name, 'T-1')).code)
    const claimed = await shell.run('task', 'claim', 'T-1')

    expect(codes).toEqual([5, 5, 5, 5])
    expect(claimed.code).toBe(4)
  })

  test('does not keep its former holder from changing the task by force [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    await shell.run('queue', 'reclaim-stale', 'tasks', '0s')
    await shell.run('task', 'claim', 'T-1', ...bob)
    const update = ['task', 'update', 'T-1', '--priority', '1']

    const refused = await shell.run(...update)
    const forced = await shell.run(...update, '--force', '--reason', 'it is urgent')

    expect([refused.code, forced.code]).toEqual([5, 0])
  })

  test('stays lost if it was a lock’s, which can be acquired again [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'deploy')
    await shell.run('lock', 'force-release', 'deploy', '--reason', 'it hangs')
    await shell.run('lock', 'acquire', 'deploy', ...bob)

    const codes = []
    for (const name of ['renew', 'release', 'renew', 'release'])
      codes.push((await shell.run('lock', name, 'deploy')).code)
    const held = await shell.run('lock', 'acquire', 'deploy')
    await shell.run('lock', 'release', 'deploy', ...bob)
    const acquired = await shell.run('lock', 'acquire', 'deploy')
    const released = await shell.run('lock', 'release', 'deploy')

    expect(codes).toEqual([5, 5, 5, 5])
    expect([held.code, acquired.code, released.code]).toEqual([4, 0, 0])
  })

  test('leaves the other slots of its lock held [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('init')
    const slots = ['--slots', '2']
    await shell.run('lock', 'acquire', 'gate', ...slots)
    const second = (await shell.json('lock', 'acquire', 'gate', ...slots)) as unknown as {
      lock: { lease: { token: number } }
    }
    const { token } = second.lock.lease
    await shell.run('lock', 'release', 'gate', '--token', String(token))

    const lost = await shell.run('lock', 'renew', 'gate', '--token', String(token))
    const renewed = await shell.run('lock', 'renew', 'gate')

    expect([lost.code, renewed.code]).toEqual([5, 0])
  })

  test('is held again once its lock is transferred back, under a token that is kept [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'deploy')
    await shell.run('lock', 'transfer', 'deploy', 'bob', '--reason', 'she is away')
    const lost = await shell.run('lock', 'renew', 'deploy')
    const byBob = await shell.run('lock', 'renew', 'deploy', ...bob)
    await shell.run('lock', 'transfer', 'deploy', 'ada', '--reason', 'she is back', '--agent', 'ops')

    const codes = []
    for (const name of ['renew', 'release']) codes.push((await shell.run('lock', name, 'deploy')).code)

    expect([lost.code, byBob.code, ...codes]).toEqual([5, 0, 0, 0])
  })

  test('does not keep its former holder from changing the task once nobody holds it', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    await shell.run('task', 'claim', 'T-1')
    await shell.run('queue', 'reclaim-stale', 'tasks', '0s')
    const update = () => shell.run('task', 'update', 'T-1', '--note', 'it was half done')

    const told = await update()
    const free = await update()
    const asHolder = await shell.run('task', 'renew', 'T-1')
    await shell.run('task', 'claim', 'T-1', ...bob)
    const held = await update()
    await shell.run('task', 'complete', 'T-1', ...bob)
    const done = await update()

    expect([told, free, asHolder, held, done].map(({ code }) => code)).toEqual([5, 0, 5, 5, 0])
  })

  test.each(['complete', 'release'])(
    'is not what a command under `run` is told of when it adds a note after its own `task %s`',
    async (end) => {
      const shell = aShell()
      await shell.run('task', 'add', 'one', '--key', 'T-1')
      const { task } = (await shell.json('task', 'claim', 'T-1')) as unknown as { task: Claimed['item'] }
      const env = { HOLDFAST_TOKEN: String(task.token), HOLDFAST_ID: task.id, HOLDFAST_KEY: 'T-1' }
      const underRun = (...args: string[]) => shell.runWith({ env }, 'task', ...args)
      const update = () => underRun('update', 'T-1', '--note', 'it took an hour')

      const holding = await update()
      await underRun(end, 'T-1')
      const free = await update()
      const asHolder = await underRun('renew', 'T-1')

      expect([holding, free, asHolder].map(({ code }) => code)).toEqual([0, 0, 5])
    },
  )

  test('does not let a command under `run` change a task that somebody else has claimed since', async () => {
    const shell = aShell()
    await shell.run('task', 'add', 'one', '--key', 'T-1')
    const { task } = (await shell.json('task', 'claim', 'T-1')) as unknown as { task: Claimed['item'] }
    const env = { HOLDFAST_TOKEN: String(task.token), HOLDFAST_ID: task.id, HOLDFAST_KEY: 'T-1' }
    await shell.runWith({ env }, 'task', 'release', 'T-1')
    await shell.run('task', 'claim', 'T-1', ...bob)

    const noted = await shell.runWith({ env }, 'task', 'update', 'T-1', '--note', 'it took an hour')

    expect(noted.code).toBe(5)
  })

  test('is not lost any more once its agent was granted the thing again elsewhere', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('lock', 'acquire', 'deploy')
    await claim(shell)
    await shell.run('lock', 'transfer', 'deploy', 'bob', '--reason', 'she is away')
    await shell.run('queue', 'reclaim-stale', 'q', '0s')
    const asked = [
      ['lock', 'renew', 'deploy'],
      ['lock', 'release', 'deploy'],
      ['queue', 'renew', 'q', 'k'],
    ]
    const answers = async () => {
      const each = []
      for (const args of asked) each.push(await shell.run(...args))
      return each
    }

    const lost = await answers()
    // Not by a command of this user, so no token is kept here.
    const hf = await open(join(shell.folder, '.holdfast', 'store.db'), { background: false, logger: false })
    await hf.locks.transfer('deploy', { to: 'ada', reason: 'she is back' })
    await hf.queue('q').next({ agent: 'ada' })
    await hf.close()
    const held = await answers()

    expect(lost.map(({ code }) => code)).toEqual([5, 5, 5])
    expect(held.map(({ code }) => code)).toEqual([4, 4, 4])
    for (const { stderr } of held) expect(stderr).toContain('is held by ada\n')
  })

  test.each([
    ['lock', 'renew', 'deploy'],
    ['lock', 'release', 'deploy'],
    ['queue', 'complete', 'q', 'k'],
    ['task', 'renew', 'T-1'],
    ['task', 'release', 'T-1'],
    ['task', 'update', 'T-1', '--note', 'x'],
  ])('whose token is not kept here can be used as the refusal says: %s %s', async (...args) => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('task', 'add', 'Write', '--key', 'T-1')
    await shell.run('lock', 'acquire', 'deploy')
    await shell.run('queue', 'next', 'q')
    await shell.run('task', 'next')
    // As on another machine, or as when the command was killed before it could keep the token.
    rmSync(join(shell.folder, '.holdfast', 'store.db-leases'), { recursive: true })

    const refused = await shell.run(...args)
    const [, explain = ''] = /`holdfast (.*)` shows/.exec(refused.stderr) ?? []
    const { stdout } = await shell.run(...explain.split(' '))
    const [, token = ''] = /^token +(\d+)$/m.exec(stdout) ?? []

    expect(refused.code).toBe(4)
    expect(await shell.run(...args, '--token', token)).toMatchObject({ code: 0 })
  })

  test.each([
    ['the lock', []],
    ['one of its slots', ['--slots', '2']],
  ])('is not one that its agent transferred to itself and released: %s [S6-E1]', async (_, slots) => {
    const shell = aShell()
    await shell.run('init')
    const acquire = ['lock', 'acquire', 'deploy', ...slots, '--json']
    const first = JSON.parse((await shell.run(...acquire)).stdout)
    const several = slots.length > 0
    if (several) await shell.run(...acquire, ...bob)
    const which = several ? ['--token', String(first.lock.lease.token)] : []
    await shell.run('lock', 'transfer', 'deploy', 'ada', '--reason', 'for longer', ...which)
    const released = await shell.run('lock', 'release', 'deploy')

    const kept = leaseFiles(shell)
    const never = await shell.run('lock', 'renew', 'deploy', '--agent', 'eve')
    const renewed = await shell.run('lock', 'renew', 'deploy')

    expect(released.code).toBe(0)
    expect(kept).toHaveLength(several ? 1 : 0)
    expect(renewed).toEqual(never)
  })

  test('is held again by commands under `run` once its lock is transferred back, unless that is another slot', async () => {
    const shell = aShell()
    await shell.run('init')
    const tokenOf = async (...args: string[]) => {
      const { lock } = (await shell.json('lock', ...args)) as unknown as {
        lock: { lease: { token: number } }
      }
      return lock.lease.token
    }
    const acquired = (...args: string[]) => tokenOf('acquire', 'gate', '--slots', '2', ...args)
    const transfer = (token: number, to: string) =>
      tokenOf('transfer', 'gate', to, '--token', String(token), '--reason', 'r', '--agent', 'ops')
    const own = await acquired()
    const env = { HOLDFAST_TOKEN: String(own), HOLDFAST_ID: 'gate', HOLDFAST_KIND: 'lock' }
    const underRun = (verb: string) => shell.runWith({ env }, 'lock', verb, 'gate')

    const other = await transfer(await acquired(...bob), 'ada')
    const renewed = await underRun('renew')
    const ofOther = await shell.run('lock', 'release', 'gate', '--token', String(other))
    const away = await transfer(own, 'bob')
    const lost = await underRun('renew')
    await transfer(away, 'ada')
    const back = [await underRun('renew'), await underRun('release')]

    expect([renewed, ofOther, lost, ...back].map(({ code }) => code)).toEqual([0, 0, 5, 0, 0])
    expect(renewed.stdout).toContain(String(own))
  })

  test.each([
    ['lost', 'queue reclaim-stale q 0s'],
    ['done', 'queue complete q k'],
  ])('may be half noted as %s by a command that died [S6-E1]', async (how, end) => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await claim(shell)
    await shell.run(...end.split(' '))
    await shell.run('queue', 'complete', 'q', 'k')
    const folder = join(shell.folder, '.holdfast', 'store.db-leases')
    const [noted = ''] = leaseFiles(shell)
    renameSync(join(folder, noted), join(folder, `${noted}.4242`))

    const { code, stderr } = await shell.run('queue', 'complete', 'q', 'k')

    expect(noted).toMatch(new RegExp(`^${how}-`))
    expect(code).toBe(5)
    expect(stderr).toContain('no token was given')
  })

  test('is not taken for lost because somebody mistyped its token [S6-E1]', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const { id } = await claim(shell)
    await shell.run('lock', 'acquire', 'deploy')

    const mistyped = [
      await shell.run('queue', 'renew', 'q', id, '--token', '8999999999999999'),
      await shell.run('lock', 'renew', 'deploy', '--token', '5'),
    ]
    const renewed = await shell.run('queue', 'renew', 'q', id)
    await shell.run('lock', 'release', 'deploy')
    await shell.run('lock', 'acquire', 'deploy', ...bob)
    const another = await shell.run('lock', 'renew', 'deploy')

    expect(mistyped.map(({ code }) => code)).toEqual([5, 5])
    expect([renewed.code, another.code]).toEqual([0, 4])
  })
})

describe('a caller without a token has lost nothing:', () => {
  test('a release under a mistyped name says that it is not held, not that it no longer is', async () => {
    const shell = aShell()
    await shell.run('init')
    await shell.run('lock', 'acquire', 'deploy')

    const answer = await shell.run('lock', 'release', 'deplyo')

    expect(answer).toMatchObject({ code: 5, stdout: 'not released: you do not hold deplyo\n' })
  })

  test.each([
    ['lock renew', ['lock', 'renew', 'held']],
    ['lock release', ['lock', 'release', 'held']],
    ['queue unlock', ['queue', 'unlock', 'q']],
    ['queue renew-lock', ['queue', 'renew-lock', 'q']],
    ['queue release', ['queue', 'release', 'q', 'k']],
    ['runs record', ['runs', 'record', 'run', '--done', '1']],
  ])('%s of something another agent holds is refused with exit code 4 [S5c-36]', async (_, args) => {
    const shell = aShell()
    const bob = ['--agent', 'bob']
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('queue', 'next-with-lock', 'q', ...bob)
    await shell.run('lock', 'acquire', 'held', '--run', 'run', ...bob)
    await shell.run('runs', 'start', 'run', '--lock', 'held', ...bob)

    const answer = await shell.run(...args)

    expect(answer).toMatchObject({ code: 4, stdout: '' })
    expect(answer.stderr).toContain('is held by bob')
    expect(answer.stderr).toContain('give the token of your grant')
    expect(answer.stderr).not.toContain('stop working')
  })

  test('the outer lock of a nested run, held by the same agent [S5c-36]', async () => {
    const shell = aShell()
    await shell.run('init')
    const told = join(shell.folder, 'told.txt')
    const cli = `'${process.execPath}' '${program}'`
    const inner = `${cli} run --lock inner -- sh -c '${cli} lock renew outer 2> told.txt; exit $?'`

    const answer = await shell.run('run', '--lock', 'outer', '--', 'sh', '-c', inner)

    expect(answer.code).toBe(4)
    expect(readFileSync(told, 'utf8')).toContain('lock outer is held by ada')
  })

  test('unless nobody holds it: then it is lost, whoever had it [S5c-36]', async () => {
    const shell = aShell()
    await shell.run('init')

    expect((await shell.run('lock', 'renew', 'free')).code).toBe(5)
    expect((await shell.run('lock', 'release', 'free')).code).toBe(5)
  })
})

describe('an idempotency key', () => {
  test('makes a change once and returns it twice', async () => {
    const shell = aShell()
    const add = ['queue', 'add', 'q', '1', '--idempotency-key', 'once']

    const first = await shell.run(...add)
    const second = await shell.run(...add)
    const other = await shell.run('queue', 'add', 'q', '2', '--idempotency-key', 'once')

    expect(second.stdout).toBe(first.stdout)
    expect(other.code).toBe(4)
    expect(await shell.json('queue', 'stats', 'q')).toMatchObject({ total: 1 })
  })

  test('works for a change that takes several transactions', async () => {
    const shell = aShell()
    await shell.run('init')
    const hf = await open(join(shell.folder, '.holdfast', 'store.db'), { background: false, logger: false })
    const queue = hf.queue('q')
    const { ids } = await queue.addMany(Array.from({ length: 600 }, (_, payload) => ({ payload })))
    await Promise.all(ids.map((id) => queue.cancel(id)))
    await hf.close()

    const cleanup = ['queue', 'cleanup', 'q', '--max-age', '0', '--yes', '--idempotency-key', 'k']
    const removed = await shell.json(...cleanup)

    expect(removed).toMatchObject({ removed: 600 })
  })

  test.each([
    ['queue cleanup', ['queue', 'cleanup', 'q', '--max-age', '0'], { removed: 1 }],
    ['lock force-release-agent', ['lock', 'force-release-agent', 'ada', '--reason', 'r'], { released: 1 }],
  ])('is for the change, not for the question before it: %s', async (_, command, changed) => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    await shell.run('queue', 'cancel', 'q', 'k')
    await shell.run('lock', 'acquire', 'deploy')
    const keyed = [...command, '--idempotency-key', 'once']

    const asked = await shell.run(...keyed)
    const answers = [await shell.json(...keyed, '--yes'), await shell.json(...keyed, '--yes')]

    expect(asked.code).toBe(2)
    expect(answers).toMatchObject([changed, changed])
  })

  test('is refused by `queue retry-failed`, whose items are retried one by one', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k', '--max-attempts', '1')
    await claim(shell)
    await shell.run('queue', 'fail', 'q', 'k', 'broken')

    const refused = await shell.run('queue', 'retry-failed', 'q', '--idempotency-key', 'once')

    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('--idempotency-key') })
    expect(await shell.json('queue', 'list', 'q', '--retryable')).toMatchObject({ items: [{ key: 'k' }] })
  })

  test('goes on with `msg clear` where it was interrupted, and then repeats its answer', async () => {
    const shell = aShell()
    await shell.run('init')
    const store = join(shell.folder, '.holdfast', 'store.db')
    const hf = await open(store, { agent: 'ada', background: false, logger: false })
    await hf.messages.register('bob')
    await hf.messages.register('carol', { sendsPerMinute: 0 })
    for (let number = 0; number < 30; number++)
      await hf.messages.sendWithAck('bob', { agent: 'carol', content: number })
    await hf.execute('messages.clearPendingAcks', {}, { idempotencyKey: 'k' })
    await hf.close()

    const clear = () => shell.json('msg', 'clear', '--yes', '--idempotency-key', 'k')

    expect([await clear(), await clear()]).toMatchObject([{ cancelled: 30 }, { cancelled: 30 }])
    expect((await shell.run('msg', 'pending')).stdout).toBe('(none)\n')
  })
})

function aProcess(): ChildProcess & { readonly pid: number } {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child as ChildProcess & { readonly pid: number }
}

async function killed(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

describe('a completed item', () => {
  test('can be completed again, by id and by key, without a token [S5c-44]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const { id } = await claim(shell)
    await shell.run('queue', 'complete', 'q', 'k')

    const again = [
      await shell.run('queue', 'complete', 'q', 'k'),
      await shell.run('queue', 'complete', 'q', id),
    ]
    const renewed = await shell.run('queue', 'renew', 'q', 'k')
    const stranger = await shell.run('queue', 'complete', 'q', 'k', '--agent', 'eve')

    expect(again).toMatchObject([
      { code: 0, stderr: '' },
      { code: 0, stderr: '' },
    ])
    expect([renewed.code, stranger.code]).toEqual([5, 5])
  })

  test('can be completed again under `run` after it was given back and claimed again [S5c-44]', async () => {
    const shell = aShell()
    await shell.run('queue', 'add', 'q', '1', '--key', 'k')
    const { id, token } = await claim(shell)
    const env = { HOLDFAST_TOKEN: String(token), HOLDFAST_ID: id, HOLDFAST_KEY: 'k', HOLDFAST_QUEUE: 'q' }
    const underRun = (...args: string[]) => shell.runWith({ env }, 'queue', ...args)
    await underRun('release', 'q', 'k')
    await underRun('next', 'q')
    await underRun('complete', 'q', 'k')

    const again = [await underRun('complete', 'q', 'k'), await underRun('complete', 'q', id)]
    const renewed = await underRun('renew', 'q', 'k')

    expect(again).toMatchObject([
      { code: 0, stderr: '' },
      { code: 0, stderr: '' },
    ])
    expect(renewed.code).toBe(5)
  })

  test('leaves only a few small files behind [S5c-44]', async () => {
    const shell = aShell()
    const folder = join(shell.folder, '.holdfast', 'store.db-leases')
    await shell.run('queue', 'add', 'q', '1')
    await claim(shell)
    // As if many had been done here before.
    const [file = ''] = leaseFiles(shell)
    const name = (token: number) => `done-${file.replace(/-\d+\.json$/, '')}-${token}.json`
    for (let token = 1; token <= 120; token++) writeFileSync(join(folder, name(token)), '{}')

    const { id } = JSON.parse((await shell.run('queue', 'list', 'q', '--json')).stdout).items[0]
    const done = await shell.run('queue', 'complete', 'q', id)
    const left = leaseFiles(shell)

    expect(done.code).toBe(0)
    expect(left.length).toBeLessThanOrEqual(50)
    expect((await shell.run('queue', 'complete', 'q', id)).code).toBe(0)
  })
})
