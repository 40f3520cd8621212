/** What only the SQLite engine promises. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isHoldfastError, logNames, open } from 'holdfast'
import { MovableEnvironment } from 'holdfast/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openRaw } from '../support/sqlite-file.ts'

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

test('a store on a network file system is refused before anything is created there', async () => {
  const folder = aFolder()
  const environment = new MovableEnvironment({ host: { networkFileSystem: () => 'NFS' } })

  const refusal = await open(join(folder, 'store.db'), { environment }).catch((error: unknown) => error)

  expect(isHoldfastError(refusal) && refusal.code).toBe('STORE_UNFIT')
  expect(refusal).toMatchObject({ facts: { fileSystem: 'NFS' } })
  expect(readdirSync(folder)).toEqual([])
})

test('every acknowledged change is on disk by default, and status shows the setting', async () => {
  const folder = aFolder()
  const environment = new MovableEnvironment()

  const full = await open(join(folder, 'full.db'), { environment })
  const normal = await open(join(folder, 'normal.db'), { environment, durability: 'normal' })

  expect([full.status.durability, normal.status.durability]).toEqual(['full', 'normal'])
  expect(full.status).toMatchObject({ engine: 'sqlite', schemaVersion: expect.any(Number) })
  await Promise.all([full.close(), normal.close()])
})

test('a usable SQLite reads the store: Node’s own from 24 on if usable, else the package’s', async () => {
  const chosen = openRaw(':memory:')
  const [expected] = chosen.prepare('select sqlite_version() as version').all() as { version: string }[]
  chosen.close()

  const hf = await open('sqlite::memory:')

  expect(hf.status.engineVersion).toBe(expected?.version)
  const [, minor = 0, patch = 0] = hf.status.engineVersion.split('.').map(Number)
  expect(minor * 1000 + patch).toBeGreaterThanOrEqual(51_003)
  expect(minor).not.toBe(52)
  await hf.close()
})

// The pages are put together above the engine; on a server a thousand answers to one message would take seconds.
test('the timeline of a message has every event, however many there are', async () => {
  const hf = await open('sqlite::memory:', { agent: 'ada', background: false })
  await hf.messages.register('bob')
  const { message } = await hf.messages.sendWithAck('bob', { content: 1 })
  const before = await hf.messages.timeline(message.id)
  const byStranger = { agent: 'carol' }
  await Promise.all(Array.from({ length: 1_000 }, () => hf.messages.receiveAck(message.id, byStranger)))

  const after = await hf.messages.timeline(message.id)

  expect(after).toHaveLength(before.length + 1_000)
  await hf.close()
})

test('an open that fails midway leaves no timer behind', async () => {
  const path = join(aFolder(), 'store.db')
  await (await open(path, { background: false })).close()
  const refuse = () => {
    throw new Error('refused')
  }
  const environment = Object.assign(new MovableEnvironment(), { reached: refuse })
  const running = new Set<object>()
  const timer = environment.timer.bind(environment)
  environment.timer = (ms, run) => {
    const own = {}
    running.add(own)
    const over = () => running.delete(own)
    const cancel = timer(ms, () => {
      over()
      run()
    })
    return () => {
      over()
      cancel()
    }
  }

  const refusal = await open(path, { environment, logger: false }).catch((error: unknown) => error)

  expect(refusal).toMatchObject({ message: 'refused' })
  expect(running.size).toBe(0)
})

describe('after the last close', () => {
  test('a copy of the file alone is the whole store', async () => {
    const folder = aFolder()
    await addTo(join(folder, 'store.db'), 'work')

    copyFileSync(join(folder, 'store.db'), join(folder, 'copy.db'))

    expect(await payloadsIn(join(folder, 'copy.db'))).toEqual(['work'])
  })

  test('a file put in its place is not affected by the old one', async () => {
    const folder = aFolder()
    await addTo(join(folder, 'store.db'), 'early')
    copyFileSync(join(folder, 'store.db'), join(folder, 'backup.db'))
    await addTo(join(folder, 'store.db'), 'late')

    copyFileSync(join(folder, 'backup.db'), join(folder, 'store.db'))

    expect(await payloadsIn(join(folder, 'store.db'))).toEqual(['early'])
  })

  async function addTo(path: string, payload: string): Promise<void> {
    const hf = await open(path, { background: false })
    await hf.queue('jobs').add(payload)
    await hf.close()
  }

  async function payloadsIn(path: string): Promise<unknown[]> {
    const hf = await open(path, { background: false })
    const { items } = await hf.queue('jobs').list()
    await hf.close()
    return items.map(({ payload }) => payload)
  }
})

test('closing does not wait for other busy processes, and loses nothing', async () => {
  const path = join(aFolder(), 'store.db')
  const [leaving, staying] = await Promise.all([
    open(path, { background: false }),
    open(path, { background: false }),
  ])
  await leaving.queue('jobs').add('work')
  const reading = openRaw(path)
  reading.exec('begin; select * from item')

  const startedAt = performance.now()
  await leaving.close()
  const tookMs = performance.now() - startedAt
  reading.close()

  expect(tookMs).toBeLessThan(2_000)
  expect(await staying.queue('jobs').next()).toMatchObject({ outcome: 'claimed', item: { payload: 'work' } })
  await staying.close()
})

test('a store in memory is private and works like any other', async () => {
  const one = await open('sqlite::memory:', { agent: 'one', logger: false })
  const two = await open('sqlite::memory:', { agent: 'two', logger: false })

  await one.queue('jobs').add('mine')
  const claim = await one.queue('jobs').next()

  expect(claim).toMatchObject({ outcome: 'claimed', item: { payload: 'mine' } })
  expect((await two.queue('jobs').next()).outcome).toBe('empty')
  await Promise.all([one.close(), two.close()])
})

test.each(['mysql://host/db', 'postgres://host/db?shema=mine', 'http://host', ''])(
  'the address %j is refused with an explanation',
  async (url) => {
    const refusal = await open(url).catch((error: unknown) => error)

    expect(isHoldfastError(refusal) && refusal.code).toBe('INVALID')
  },
)

describe('what one handle has cached about a lock', () => {
  async function twoHandles() {
    const file = join(aFolder(), 'store.db')
    const environment = new MovableEnvironment()
    const alice = await open(file, { environment, agent: 'alice', background: false })
    const bob = await open(file, { environment, agent: 'bob', background: false })
    onTestFinished(async () => {
      await Promise.all([alice.close(), bob.close()])
    })
    return { alice: alice.locks, bob: bob.locks }
  }

  test('is discarded when another takes or releases it', async () => {
    const { alice, bob } = await twoHandles()
    await alice.acquireLock('build')
    await alice.releaseLock('build')

    const taken = await bob.acquireLock('build')
    const refused = await alice.acquireLock('build')
    await bob.releaseLock('build')
    const again = await alice.acquireLock('build')

    expect(refused).toMatchObject({ outcome: 'held', holder: 'bob' })
    expect([taken, again]).toMatchObject([{ outcome: 'acquired' }, { outcome: 'acquired' }])
    const tokens = [taken, again].map((each) => (each.outcome === 'acquired' ? each.lock.lease.token : 0))
    expect(tokens[1]).toBeGreaterThan(tokens[0] as number)
  })

  test('lists every taken slot, in whatever order they were released', async () => {
    const { alice } = await twoHandles()
    const acquire = async () => {
      const acquired = await alice.acquireLock('pool', { slots: 3 })
      return acquired.outcome === 'acquired' ? acquired.lock : null
    }
    const [first, second, third] = [await acquire(), await acquire(), await acquire()]

    const full = await acquire()
    await alice.releaseLock('pool', { token: second?.lease.token ?? 0 })
    await alice.releaseLock('pool', { token: first?.lease.token ?? 0 })
    const [fourth, fifth] = [await acquire(), await acquire()]

    expect(full).toBeNull()
    expect([first, second, third, fourth, fifth].map((lock) => lock?.slot)).toEqual([0, 1, 2, 0, 1])
    const tokens = [first, second, third, fourth, fifth].map((lock) => lock?.lease.token ?? 0)
    expect(tokens).toEqual([...new Set(tokens)].sort((left, right) => left - right))
  })

  test('is discarded with a transaction that was rolled back', async () => {
    const file = join(aFolder(), 'store.db')
    const hf = await open(file, { environment: new MovableEnvironment(), background: false })
    onTestFinished(() => hf.close())
    await hf.locks.acquireLock('build')
    await hf.locks.releaseLock('build')
    const raw = openRaw(file)
    raw.exec(`create trigger refuse before insert on event when new.kind = 'lock.acquired'
begin select raise(abort, 'refused'); end`)

    const refused = await hf.locks.acquireLock('build').catch((error: unknown) => error)
    raw.exec('drop trigger refuse')
    raw.close()
    const acquired = await hf.locks.acquireLock('build')

    expect(refused).toBeInstanceOf(Error)
    expect(acquired).toMatchObject({ outcome: 'acquired' })
  })
})

test('a caller that asks again as soon as it is answered does not starve the event loop', async () => {
  const environment = new MovableEnvironment()
  const hf = await open('sqlite::memory:', { environment, durability: 'normal', background: false })
  let turns = 0
  const count = () => {
    turns++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)

  for (let round = 0; round < 80; round++) {
    await hf.locks.acquireLock('build')
    await hf.locks.releaseLock('build')
  }
  clearImmediate(counting)

  expect(turns).toBeGreaterThanOrEqual(5)
  await hf.close()
})

test('a process without a caretaker moves its log between transactions, before it gets long', async () => {
  const file = join(aFolder(), 'store.db')
  const environment = new MovableEnvironment()
  const hf = await open(file, { environment, background: false, durability: 'normal' })
  const value = 'x'.repeat(200_000)

  for (let round = 0; round < 100; round++) await hf.state('document').set(value)

  // A hundred times fifty pages of 4 KiB and more were written.
  expect(statSync(`${file}-wal`).size).toBeLessThan(10 * 2 ** 20)
  await hf.close()
})

test('a process with a caretaker wakes it to move the log once it is long enough [S5e-6]', async () => {
  const file = join(aFolder(), 'store.db')
  const environment = new MovableEnvironment()
  const hf = await open(file, { environment, durability: 'normal', recovery: false, redelivery: false })
  const value = 'x'.repeat(200_000)

  for (let round = 0; round < 100; round++) {
    await hf.state('document').set(value)
    await environment.advance(20)
  }

  // Two seconds: by itself the caretaker would not have looked yet.
  expect(statSync(`${file}-wal`).size).toBeLessThan(10 * 2 ** 20)
  await hf.close()
})

test('these are the names of all log lines', () => {
  expect([...logNames].toSorted()).toEqual([
    'cleanup.done',
    'clock.doubtful',
    'clock.jumped',
    'delivery.failed',
    'item.failed',
    'lease.reclaimed',
    'locks.many_stale',
    'locks.summary',
    'message.conflict',
    'message.dead',
    'message.escalated',
    'process.rejoined',
    'process.wedged',
    'recovery.completed',
    'recovery.failed',
    'redelivery.failed',
    'release.failed',
    'renew.failed',
    'renew.seldom',
    'result.dropped',
    'retention.failed',
    'state.conflict',
    'state.gave_up',
    'state.saved',
    'store.branch_adopted',
    'store.branch_refused',
    'store.commits_lost',
    'store.lost',
    'store.warning',
    'wake.degraded',
    'worker.failed',
    'worker.stopping',
  ])
})
