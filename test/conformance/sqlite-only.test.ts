/** What only the SQLite engine promises. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
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

test('a store on a network file system is refused before anything is made there', async () => {
  const folder = aFolder()
  const environment = new MovableEnvironment({ host: { networkFileSystem: () => 'NFS' } })

  const refusal = await open(join(folder, 'store.db'), { environment }).catch((error: unknown) => error)

  expect(isHoldfastError(refusal) && refusal.code).toBe('STORE_UNFIT')
  expect(refusal).toMatchObject({ facts: { fileSystem: 'NFS' } })
  expect(readdirSync(folder)).toEqual([])
})

test('every acknowledged change is on disk unless asked otherwise, and status says which', async () => {
  const folder = aFolder()
  const environment = new MovableEnvironment()

  const full = await open(join(folder, 'full.db'), { environment })
  const normal = await open(join(folder, 'normal.db'), { environment, durability: 'normal' })

  expect([full.status.durability, normal.status.durability]).toEqual(['full', 'normal'])
  expect(full.status).toMatchObject({ engine: 'sqlite', schemaVersion: expect.any(Number) })
  await Promise.all([full.close(), normal.close()])
})

test("a fit SQLite reads the store: Node's own from 24 on where it is fit, else the package's", async () => {
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

describe('after the last close', () => {
  test('a copy of the file alone is the whole store', async () => {
    const folder = aFolder()
    await addTo(join(folder, 'store.db'), 'work')

    copyFileSync(join(folder, 'store.db'), join(folder, 'copy.db'))

    expect(await payloadsIn(join(folder, 'copy.db'))).toEqual(['work'])
  })

  test('a file put in its place is not changed by what was there before', async () => {
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

test('closing does not wait for others that are at work, and loses nothing', async () => {
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
  'the address %j is refused in words',
  async (url) => {
    const refusal = await open(url).catch((error: unknown) => error)

    expect(isHoldfastError(refusal) && refusal.code).toBe('INVALID')
  },
)

test('the names of log lines are these, and no others', () => {
  expect([...logNames].toSorted()).toEqual([
    'cleanup.done',
    'clock.doubtful',
    'clock.jumped',
    'delivery.failed',
    'lease.reclaimed',
    'locks.many_stale',
    'locks.summary',
    'message.dead',
    'message.escalated',
    'process.rejoined',
    'process.wedged',
    'recovery.completed',
    'recovery.failed',
    'redelivery.failed',
    'renew.failed',
    'renew.seldom',
    'retention.failed',
    'state.conflict',
    'state.gave_up',
    'state.saved',
    'worker.failed',
  ])
})
