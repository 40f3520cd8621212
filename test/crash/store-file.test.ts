/** A store is one file: it never has a second name, and is lost at once when deleted or replaced. */
import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isHoldfastError, open } from 'holdfast'
import { expect, test } from 'vitest'
import { Actor, expectSound, newStore, openActor, openHere, program, query, startActor } from './support.ts'

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0
const lock = { noun: 'locks', method: 'acquireLock', args: ['deploy'] }

test('a second hard link is refused, and nothing is claimed twice or lost [S5b-6]', async () => {
  const store = newStore()
  const other = join(dirname(store), 'other.db')
  const first = await openActor(store, { agent: 'first' })
  for (let number = 0; number < 20; number++) await first.ask('add', { queue: 'q', payload: number })
  linkSync(store, other)

  const second = await startActor()
  const refusal = await second.askRefusal('open', { store: other, agent: 'second' })

  expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { location: other, links: 2, name: store } })
  expect(readdirSync(dirname(store)).filter((name) => name.startsWith('other.db'))).toEqual(['other.db'])
  await first.ask('add', { queue: 'q', payload: 20 })
  await first.ask('close')
  const hf = await openHere(store)
  expect(await hf.queue('q').stats()).toMatchObject({ total: 21 })
  expect(hf.status.warnings).toEqual([expect.objectContaining({ check: 'links' })])
  expect((await hf.fleet.doctor()).findings).toContainEqual(
    expect.objectContaining({ check: 'links', level: 'warning', what: expect.stringContaining('2 names') }),
  )
})

test.each(['deleted', 'replaced'])(
  'a store that is %s never has two holders of a lock, and acknowledges nothing more [S5b-6]',
  async (how) => {
    const store = newStore()
    const spare = join(dirname(newStore()), 'spare.db')
    await (await open(spare, { background: false })).close()
    const first = await openActor(store, { agent: 'first' })
    expect(await first.ask('call', lock)).toMatchObject({ outcome: 'acquired' })
    expect(await first.ask('holds', { lock: 'deploy' })).toBe(true)

    for (const end of ['', '-wal', '-shm']) rmSync(`${store}${end}`)
    if (how === 'replaced') renameSync(spare, store)
    const second = await openActor(store, { agent: 'second' })
    expect(await second.ask('call', lock)).toMatchObject({ outcome: 'acquired' })
    const holds = await first.ask('holds', { lock: 'deploy' })
    const answers = await Promise.all([
      first.order('add', { queue: 'q', payload: 'into nowhere' }),
      first.order('call', { noun: 'locks', method: 'releaseLock', args: ['deploy'] }),
      first.order('call', { noun: 'locks', method: 'list', args: [] }),
    ])

    expect(holds).toBe(false)
    expect(answers.map(({ error }) => error?.code)).toEqual(Array(3).fill('STORE_UNAVAILABLE'))
    expect(await first.told('aborted')).toMatchObject({ code: 'LEASE_LOST' })
    expect(await second.ask('holds', { lock: 'deploy' })).toBe(true)
    await first.ask('close')
    await second.ask('add', { queue: 'q', payload: 'kept' })
    await second.ask('close')
    const hf = await openHere(store)
    expect((await hf.queue('q').list()).items.map(({ payload }) => payload)).toEqual(['kept'])
    expectSound(store)
  },
)

test.each(['deleted', 'renamed'])(
  'no store is created beside the log of one that was %s, and acknowledged changes are kept [S5b-6]',
  async (how) => {
    const store = newStore()
    const former = join(dirname(store), 'former.db')
    const first = await openActor(store, { agent: 'first' })
    await first.ask('add', { queue: 'q', payload: 'acknowledged' })
    if (how === 'renamed') renameSync(store, former)
    else rmSync(store)

    const second = await startActor()
    const refusal = await second.askRefusal('open', { store })

    expect(refusal).toMatchObject({ code: 'STORE_UNFIT', facts: { location: store, log: `${store}-wal` } })
    expect(existsSync(store)).toBe(false)
    expect((await first.order('add', { queue: 'q', payload: 2 })).error?.code).toBe('STORE_UNAVAILABLE')
    if (how === 'renamed') renameSync(former, store)
    else for (const end of ['-wal', '-shm']) rmSync(`${store}${end}`)
    const hf = await openHere(store)
    expect((await hf.queue('q').list()).items).toHaveLength(how === 'renamed' ? 1 : 0)
  },
)

test('a busy holder learns of the loss from its thread, which renews nothing more [S5b-6]', async () => {
  const store = newStore()
  const first = await openActor(store, { agent: 'first', leaseMs: 1500 })
  await first.ask('call', lock)

  first.send('block', { ms: 400 })
  for (const end of ['', '-wal', '-shm']) rmSync(`${store}${end}`)
  const second = await openActor(store, { agent: 'second' })

  expect(await second.ask('call', lock)).toMatchObject({ outcome: 'acquired' })
  expect(await first.told('aborted')).toMatchObject({ code: 'LEASE_LOST' })
  expect(query(store, 'select agent from instance where ended_at is null')).toEqual([{ agent: 'second' }])
})

test('names that are links lead to one store with one wake-up file and one line [S5b-6] [S5c-28]', async () => {
  const store = newStore()
  const folder = join(dirname(store), 'folder')
  mkdirSync(folder)
  const real = join(folder, 'store.db')
  symlinkSync(folder, join(dirname(store), 'linked'))
  symlinkSync(real, store)
  const names = [store, join(dirname(store), 'linked', 'store.db'), real]

  const actors = await Promise.all(names.map((name) => openActor(name, { agent: basename(dirname(name)) })))
  const statuses = await Promise.all(actors.map((actor) => actor.ask('work', { queue: 'q', each: 'tell' })))
  await actors[0]?.ask('add', { queue: 'q', payload: 'work' })
  await Promise.race(actors.map((actor) => actor.told('handling')))

  expect(statuses).toHaveLength(3)
  expect(readdirSync(dirname(store)).sort()).toEqual(['folder', 'linked', 'store.db'])
  expect(readdirSync(folder)).toContain('store.db-bells')
})

test.runIf(canMount)(
  'a folder mounted under another path is the same store, even beside a hard link [S5b-6]',
  async () => {
    const store = newStore()
    const elsewhere = join(dirname(newStore()), 'mounted')
    mkdirSync(elsewhere)
    const hf = await openHere(store)
    await hf.queue('q').add('work')
    linkSync(store, join(dirname(store), 'backup.db'))
    const before = query(store, "select value from meta where key = 'name'")

    const inside = await startMounted(dirname(store), elsewhere)
    await inside.ask('open', { store: join(elsewhere, 'store.db'), agent: 'inside' })

    expect(await inside.ask('next', { queue: 'q' })).toMatchObject({ outcome: 'claimed' })
    expect(query(store, "select value from meta where key = 'name'")).toEqual(before)
    expect(await inside.askRefusal('open', { store: join(elsewhere, 'backup.db') })).toMatchObject({
      code: 'STORE_UNFIT',
    })
  },
)

test.runIf(canMount)(
  'a store file that is mounted alone is refused: its log would be elsewhere [S5b-6]',
  async () => {
    const store = newStore()
    await (await open(store, { background: false })).close()
    const elsewhere = newStore()
    cpSync(store, elsewhere)

    const inside = await startMounted(store, elsewhere)

    expect(await inside.askRefusal('open', { store: elsewhere })).toMatchObject({
      code: 'STORE_UNFIT',
      message: expect.stringContaining('mount its folder'),
    })
  },
)

test.runIf(canMount).each(['others have open', 'nobody else has open'])(
  'a user who may only read a store that %s sees what is written, and refuses another in its place [S5b-6]',
  async (how) => {
    const store = newStore()
    const elsewhere = join(dirname(newStore()), 'mounted')
    mkdirSync(elsewhere)
    const writer = await openActor(store)
    await writer.ask('add', { queue: 'q', payload: 1 })
    if (how === 'nobody else has open') await writer.ask('close')
    const reader = await startMounted(dirname(store), elsewhere, 'ro')
    const status = await reader.ask('open', {
      store: join(elsewhere, 'store.db'),
      background: false,
      recovery: false,
    })
    const total = async () => (await reader.ask<{ total: number }>('stats', { queue: 'q' })).total

    const totals = [await total()]
    if (how === 'nobody else has open') await writer.ask('open', { store })
    await writer.ask('add', { queue: 'q', payload: 2 })
    totals.push(await total())
    await writer.ask('close')
    await writer.ask('open', { store })
    await writer.ask('add', { queue: 'q', payload: 3 })
    totals.push(await total())
    await writer.ask('close')
    for (const end of ['', '-wal', '-shm']) rmSync(`${store}${end}`, { force: true })
    await (await open(store, { background: false })).close()
    const refusals = [await reader.askRefusal('stats', { queue: 'q' })]
    refusals.push(await reader.askRefusal('stats', { queue: 'q' }))

    expect(status).toMatchObject({ isReadOnly: true })
    expect(totals).toEqual([1, 2, 3])
    expect(refusals).toMatchObject([
      { code: 'STORE_UNAVAILABLE', facts: { lost: 'replaced by another file' } },
      { code: 'STORE_UNAVAILABLE', facts: { lost: 'replaced by another file' } },
    ])
  },
)

test('a store renamed while its log holds changes is refused until both are together again [S5b-6]', async () => {
  const store = newStore()
  const renamed = join(dirname(store), 'renamed.db')
  const first = await openActor(store)
  await first.ask('add', { queue: 'q', payload: 'acknowledged' })
  renameSync(store, renamed)
  first.kill()
  await first.ended()

  const refusal = await open(renamed, { background: false }).catch((error: unknown) => error)

  expect(isHoldfastError(refusal) && refusal.code).toBe('STORE_UNFIT')
  expect(refusal).toMatchObject({ facts: { location: renamed, log: `${store}-wal` } })
  renameSync(renamed, store)
  expect(await (await openHere(store)).queue('q').stats()).toMatchObject({ total: 1 })
})

/** An actor that sees one path mounted under another. */
async function startMounted(from: string, to: string, mode = 'rw'): Promise<Actor> {
  const script = 'mount --bind "$1" "$2" && mount -o "remount,bind,$4" "$2" && exec "$0" "$3"'
  const args = [from, to, program('actor'), mode]
  const child = spawn('unshare', ['--mount', 'sh', '-c', script, process.execPath, ...args], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  const actor = new Actor(child)
  await actor.told('ready')
  return actor
}
