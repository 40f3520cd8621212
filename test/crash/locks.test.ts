/** Locks among real processes: one holder at a time, in order, whichever process is killed or frozen. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Lock, OpenOptions } from 'holdfast'
import { expect, test } from 'vitest'
import { taken } from '../support/locks.ts'
import {
  type Actor,
  audit,
  expectSoundAndFree,
  newStore,
  often,
  openActor,
  openHere,
  print,
  query,
  startActor,
  until,
} from './support.ts'

const rounds = often({ few: 50, many: 200 })

test(`8 processes racing for ${rounds} rounds have one winner at a time, and share fairly [L19] [L16] [X6]`, {
  timeout: 120_000,
}, async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false })
  const folder = join(dirname(store), 'effects')
  mkdirSync(folder)
  writeFileSync(join(folder, 'number'), '0')
  const names = Array.from({ length: 8 }, (_, number) => `locker-${number}`)
  const lockers = await Promise.all(names.map((agent) => openLocker(store, { agent, durability: 'normal' })))

  // They begin together, so that none has had its rounds before the others are there.
  const { lock } = await taken(hf.locks.acquireLock('one'))
  for (const locker of lockers) locker.send('rounds', { name: 'one', count: rounds, folder })
  await until('all wait', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 8)

  const startedAt = performance.now()
  await hf.locks.releaseLock('one', { token: lock.lease.token })
  const ends = () => lockers.filter((locker) => locker.all('answer').length === 2)
  await until('all are done', () => ends().length === 8, { patience: 100_000, lookEveryMs: 100 })
  const seconds = (performance.now() - startedAt) / 1000

  const order = readFileSync(join(folder, 'order'), 'utf8').trim().split('\n')
  const { least, most } = sharesWhenTheFirstEnds(order, names, rounds)
  print(
    `${8 * rounds} rounds in ${seconds.toFixed(1)} s; when the first was done: least ${least}, most ${most}`,
  )
  expect(existsSync(join(folder, 'collisions'))).toBe(false)
  expect(readFileSync(join(folder, 'number'), 'utf8')).toBe(String(8 * rounds))
  expect(least / most).toBeGreaterThanOrEqual(0.8)
  expect(query(store, 'select * from lock_waiter')).toEqual([])
  expectSoundAndFree(store)
})

/** How often each had the lock until one of them had it as often as it wanted. */
function sharesWhenTheFirstEnds(order: readonly string[], names: readonly string[], wanted: number) {
  const shares = new Map(names.map((name) => [name, 0]))
  for (const name of order) {
    shares.set(name, (shares.get(name) ?? 0) + 1)
    if (shares.get(name) === wanted) break
  }
  return { least: Math.min(...shares.values()), most: Math.max(...shares.values()) }
}

test('when a runner is killed, the next waiter has the lock within a second and the run is paused [L9] [X6]', async () => {
  const delays = [await takeOverFromKilled()]
  // A busy machine may be late once; a mechanism that is too slow is late every time.
  while (Math.min(...delays) >= 1000 && delays.length < 3) delays.push(await takeOverFromKilled())

  print(`the waiter had the lock ${delays.join(', ')} ms after the kill`)
  expect(Math.min(...delays)).toBeLessThan(1000)
  expect(Math.max(...delays)).toBeLessThan(3000)
})

/** How long the next in line waited, in ms. */
async function takeOverFromKilled(): Promise<number> {
  const store = newStore()
  const hf = await openHere(store)
  const runner = await openLocker(store, { agent: 'runner' })
  runner.send('batch', { run: 'c1', items: ['a', 'b', 'c', 'd'], endlessAt: 'c' })
  await runner.told('handling', ({ item }) => item === 'c')
  const waiting = hf.locks.acquireLock('global', { waitMs: 30_000, run: 'c1' })
  await until('somebody waits', async () => (await hf.locks.getCurrentLockInfo()).waiting === 1)

  const killedAt = performance.now()
  runner.kill('SIGKILL')
  const answer = await waiting
  const tookMs = performance.now() - killedAt

  expect(answer).toMatchObject({ outcome: 'acquired', lock: { holder: 'test' } })
  expect(await hf.runs.get('c1')).toMatchObject({
    status: 'paused',
    done: 2,
    pauseReason: expect.stringContaining('its lock was lost'),
  })
  expect(await hf.runs.resume('c1')).toMatchObject({ status: 'running', remaining: 2 })
  expect(await hf.runs.remaining('c1', ['a', 'b', 'c', 'd'])).toEqual(['c', 'd'])
  return Math.round(tookMs)
}

test('a waiter killed in line blocks nobody [L16] [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  await hf.locks.acquireLock('one', { agent: 'person' })
  const token = (await hf.locks.getCurrentLockInfo('one')).token as number
  const victim = await openLocker(store, { agent: 'victim' })
  victim.send('acquire', { name: 'one', waitMs: 60_000 })
  await until('it waits', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 1)
  const waiting = hf.locks.acquireLock('one', { waitMs: 30_000 })
  await until('both wait', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 2)

  victim.kill('SIGKILL')
  await hf.locks.releaseLock('one', { agent: 'person', token })
  const releasedAt = performance.now()

  expect(await waiting).toMatchObject({ outcome: 'acquired', lock: { holder: 'test' } })
  expect(performance.now() - releasedAt).toBeLessThan(2000)
})

test('fifty waiters in each of two processes are served in order, and none loses its position [S5e-9] [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const { lock } = await taken(hf.locks.acquireLock('one'))
  const open = (agent: string) =>
    openLocker(store, { agent, durability: 'normal', quotas: { lockWaits: 100 } })
  const lockers = await Promise.all(['left', 'right'].map(open))
  const served = lockers.map((locker) => locker.ask('line', { name: 'one', count: 50 }))
  await until('all wait', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 100)

  const startedAt = performance.now()
  await hf.locks.releaseLock('one', { token: lock.lease.token })
  await Promise.all(served)
  print(`${((performance.now() - startedAt) / 100).toFixed(1)} ms per hand-over`)

  const events = (await audit(hf)).filter(({ subject }) => subject === 'waiter')
  const joined = events.filter(({ kind }) => kind === 'waiter.joined').map(({ token }) => token)
  const left = events.filter(({ kind }) => kind === 'waiter.left')
  expect(joined).toHaveLength(100)
  expect(left.map(({ token }) => token)).toEqual(joined)
  expect(left.filter(({ detail }) => detail?.because !== 'it got the lock')).toEqual([])
  expectSoundAndFree(store)
})

test('a waiter whose event loop is stuck when its turn comes does not keep the next one from a free lock [S5e-9] [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  const { lock } = await taken(hf.locks.acquireLock('one'))
  const stuck = await openLocker(store, { agent: 'stuck' })
  stuck.send('acquire', { name: 'one', waitMs: 60_000 })
  await until('it waits', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 1)
  const waiting = hf.locks.acquireLock('one', { waitMs: 30_000 })
  await until('both wait', async () => (await hf.locks.getCurrentLockInfo('one')).waiting === 2)
  stuck.send('block', { ms: 30_000 })
  await stuck.told('handling')

  const releasedAt = performance.now()
  await hf.locks.releaseLock('one', { token: lock.lease.token })
  const answer = await waiting
  const waitedMs = performance.now() - releasedAt

  print(`the next in line had the lock after ${Math.round(waitedMs)} ms`)
  expect(answer).toMatchObject({ outcome: 'acquired', lock: { holder: 'test' } })
  // Its place lasts 5 s more. Its lease would have lasted until its process counts as wedged.
  expect(waitedMs).toBeLessThan(10_000)
})

test('a frozen holder that wakes late has its record and release refused, and its signal has fired [L3] [L8] [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const frozen = await openLocker(store, { agent: 'frozen', leaseMs: 2000, recovery: false })
  const { lock } = await frozen.ask<{ lock: Lock }>('acquire', { name: 'global', run: 'c1' })
  const { token } = lock.lease
  await frozen.ask('start', { run: 'c1', total: 5 })
  // Right after a renewal: stopped in the middle of one, it would hold up every writer.
  const renewedAt = async () => (await hf.locks.getCurrentLockInfo()).renewedAt
  const before = await renewedAt()
  await until('its lease was renewed', async () => (await renewedAt()) !== before)

  frozen.kill('SIGSTOP')
  const answer = await hf.locks.acquireLock('global', { waitMs: 20_000, run: 'c1' })
  await hf.runs.resume('c1')
  const lateRecord = frozen.askRefusal('record', { run: 'c1', token, done: 3 })
  const lateRelease = frozen.ask('release', { name: 'global', token })
  frozen.kill('SIGCONT')

  expect(answer).toMatchObject({ outcome: 'acquired' })
  expect(await lateRecord).toMatchObject({ code: 'LEASE_LOST' })
  expect(await lateRelease).toBe(false)
  expect(await frozen.told('aborted')).toMatchObject({ code: 'LEASE_LOST' })
  expect(await hf.runs.get('c1')).toMatchObject({ status: 'running', done: 0 })
  expect(await hf.locks.isLockedBy('global', { agent: 'test' })).toBe(true)
})

test('an agent whose own process is killed loses its locks, though helpers took them; a helper’s exit loses nothing [L9] [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store)
  await hf.queue('merges', { workflow: 'merge' }).submit('w1', { headSha: 'abcd' })
  const agent = await openActor(store, { agent: 'bystander', background: false })
  const helper = await openActor(store, { agent: 'helper', background: false })
  const call = (noun: string, method: string, ...args: unknown[]) =>
    helper.ask('call', { noun, method, args })
  await call('agents', 'register', { agent: 'coder', pid: agent.pid })
  await call('locks', 'acquireLock', 'deploy', { agent: 'coder' })
  await call('locks', 'reserve', 'src/**', { agent: 'coder' })
  await helper.ask('next', { queue: 'merges', agent: 'coder' })
  helper.kill()
  await helper.ended()
  await hf.locks.recoverLocksOnStartup()
  const kept = (await hf.locks.list()).locks.map(({ holder }) => holder)
  const waiting = hf.locks.acquireLock('deploy', { waitMs: 30_000 })

  const killedAt = performance.now()
  agent.kill()
  const answer = await waiting
  const tookMs = performance.now() - killedAt
  const merge = await hf.queue('merges').next()
  const paths = await hf.locks.reserve('src/a.ts')

  print(`the waiter had the lock ${Math.round(tookMs)} ms after the agent was killed`)
  expect(kept).toEqual(['coder', 'coder', 'coder'])
  expect(answer).toMatchObject({ outcome: 'acquired', lock: { holder: 'test' } })
  expect(tookMs).toBeLessThan(3000)
  expect(merge).toMatchObject({ outcome: 'claimed', item: { key: 'w1', crashes: 1 } })
  expect(paths).toMatchObject({ outcome: 'acquired' })
})

async function openLocker(store: string, options: OpenOptions): Promise<Actor> {
  const locker = await startActor('locker')
  await locker.ask('open', { store, ...options })
  return locker
}
