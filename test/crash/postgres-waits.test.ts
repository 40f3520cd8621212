/** Waits for locks and for work while the PostgreSQL server is away: they end on time, and leave nothing held. */
import type { Holdfast } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'
import { describe, expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { ownServer } from './server-store.ts'
import { audit, openHere, print, until } from './support.ts'

const own = ownServer()
const waitMs = 6_000
/** With a clock that is three times as fast, 6 s are over in two. */
const speed = 3
/** A busy machine is late; without a bound each of these waits took 20 s and more. */
const lateMs = 3_000
const hurried: typeof systemEnvironment = {
  ...systemEnvironment,
  monotonic: () => systemEnvironment.monotonic() * speed,
  timer: (ms, callback, isRef) => systemEnvironment.timer(ms / speed, callback, isRef),
}

interface Wait {
  readonly waitMs: number
  readonly signal?: AbortSignal
}

const waits: Record<string, (hf: Holdfast, wait?: Wait) => Promise<unknown>> = {
  'a lock': (hf, wait = { waitMs }) => hf.locks.acquireLock('deploy', wait),
  'an item': (hf, wait = { waitMs }) => hf.queue('q').next(wait),
  'an item and the lock of its queue': (hf, wait = { waitMs }) => hf.queue('q').nextWithLock(wait),
  'a task': (hf, wait = { waitMs }) => hf.tasks.claimNext(wait),
}

describe.each(['cut', 'stall'] as const)('the connection to the server is %s', (fault) => {
  test('[S5b-21] every wait ends on time', async () => {
    const store = own.newStore()
    const proxy = await own.openProxy()
    const holder = await openHere(store, { agent: 'holder', background: false })
    await holder.locks.acquireLock('deploy')
    const hf = await openHere(proxy.through(store), { background: false, environment: hurried })

    const waiting = Object.values(waits).map((wait) => durationOf(() => wait(hf)))
    await until(
      'it waits in line',
      async () => (await holder.locks.getCurrentLockInfo('deploy')).waiting === 1,
    )
    proxy[fault]()
    const waitedMs = await Promise.all(waiting)
    proxy.mend()

    print(`waited ${waitedMs.map((ms) => (ms / 1000).toFixed(1)).join(', ')} s`)
    expect(Math.min(...waitedMs)).toBeGreaterThanOrEqual(waitMs - 100)
    expect(Math.max(...waitedMs)).toBeLessThan(waitMs + lateMs)
    await until('its place in line is free', async () => {
      return (await holder.locks.getCurrentLockInfo('deploy')).waiting === 0
    })
  })

  test.each(Object.entries(waits))('a signal ends the wait for %s soon', async (_, wait) => {
    const proxy = await own.openProxy()
    const hf = await openHere(proxy.through(own.newStore()), { background: false, environment: hurried })
    const abort = new AbortController()
    proxy[fault]()

    const waiting = wait(hf, { waitMs: 60_000, signal: abort.signal }).then(() => 'claimed', String)
    const abortedAt = hurried.monotonic()
    abort.abort(new Error('not wanted any more'))

    expect(await waiting).toBe('Error: not wanted any more')
    expect(hurried.monotonic() - abortedAt).toBeLessThan(2_000 + lateMs)
    proxy.mend()
  })
})

test.each(Object.entries(waits))(
  '[S5b-21] a process that was frozen past the end of its wait for %s got nothing, and does not blame the server',
  async (_, wait) => {
    const store = own.newStore()
    let frozenMs = 0
    const environment = { ...hurried, monotonic: () => hurried.monotonic() + frozenMs }
    const holder = await openHere(store, { agent: 'holder', background: false })
    await holder.locks.acquireLock('deploy')
    const hf = await openHere(store, { background: false, environment })

    const waiting = wait(hf)
    await hf.queue('q').stats()
    frozenMs = 60_000

    expect(await waiting).toMatchObject({ outcome: expect.stringMatching(/^(empty|held)$/) })
  },
)

test('[S5b-21] anything granted after the wait has ended is released', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const witness = await openHere(store, { background: false })
  const hf = await openHere(proxy.through(store), { agent: 'late', environment: hurried, background: false })
  await hf.queue('q').addMany([{ payload: 1 }, { payload: 2 }])
  await hf.tasks.addTask('work')
  proxy.stall()

  const waitedMs = await Promise.all(Object.values(waits).map((wait) => durationOf(() => wait(hf))))
  proxy.mend()

  expect(Math.max(...waitedMs)).toBeLessThan(waitMs + lateMs)
  const countOf = async (isOne: (kind: string) => boolean) =>
    (await audit(witness)).filter(({ kind }) => isOne(kind)).length
  await until('all are granted: two locks, two items, a task', async () => (await countOf(isGrant)) === 5)
  await until('all are given back', async () => (await countOf(isRelease)) === 5)
  expect(await hf.queue('q').stats()).toMatchObject({ pending: 2, processing: 0, quarantined: 0 })
  expect((await witness.locks.list()).locks).toEqual([])
})

function isGrant(kind: string): boolean {
  return kind === 'item.claimed' || kind === 'lock.acquired'
}

function isRelease(kind: string): boolean {
  return kind === 'item.released' || kind === 'lock.released'
}

/** On the hurried clock. */
async function durationOf(wait: () => Promise<unknown>): Promise<number> {
  const askedAt = hurried.monotonic()
  const error = await refusal(wait)
  expect(error.code).toBe('STORE_UNAVAILABLE')
  return hurried.monotonic() - askedAt
}
