/** Releasing while the PostgreSQL server is unreachable: nothing is held forever, and no call waits forever. */
import { systemEnvironment } from 'holdfast/testing'
import { expect, test } from 'vitest'
import { taken } from '../support/locks.ts'
import { refusal } from '../support/outcomes.ts'
import { ownServer } from './server-store.ts'
import { audit, openHere, print, until } from './support.ts'

const own = ownServer()
const speed = 10
/** A clock that is ten times as fast, except for the thread of the engine. */
const hurried: typeof systemEnvironment = {
  ...systemEnvironment,
  monotonic: () => systemEnvironment.monotonic() * speed,
  timer: (ms, callback, isRef) => systemEnvironment.timer(ms / speed, callback, isRef),
}

test('a lock and an item released while the server was unreachable are free when it is back [S5b-16]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const witness = await openHere(store, { agent: 'witness' })
  const hf = await openHere(proxy.through(store), { agent: 'ada', patienceMs: 1_000 })
  const { lock, lease } = await taken(hf.locks.acquireLock('press'))
  const { item } = await hf.queue('q').add('work')
  await hf.queue('q').next()
  proxy.cut()

  const refused = [hf.locks.releaseLock('press'), hf.queue('q').complete(item.id)].map((call) =>
    refusal(() => call),
  )
  const isHeld = lease?.isHeld
  const errors = await Promise.all(refused)
  proxy.mend()
  await until('both are given back', async () => {
    const isLocked = await witness.locks.isLockedBy('press', { agent: 'ada' })
    return !isLocked && (await witness.queue('q').get(item.id))?.phase !== 'held'
  })

  expect(errors.map(({ code }) => code)).toEqual(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'])
  expect(isHeld).toBe(false)
  // Two renewals may fail, and a failover of half a minute loses nothing.
  expect(lock.lease.leaseMs).toBe(60_000)
  expect(await witness.queue('q').get(item.id)).toMatchObject({ state: 'done' })
  expect((await audit(witness)).filter(({ kind }) => kind.endsWith('.reclaimed'))).toEqual([])
})

test('a process that asks again for a lock it is still releasing gets it when the server is back [S5b-16]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  // Asked just before the release gives up, it has nearly all of this left to find the server on a busy machine.
  const patienceMs = 4_000
  const hf = await openHere(proxy.through(store), { agent: 'ada', patienceMs })
  const before = await taken(hf.locks.acquireLock('press'))
  proxy.cut()

  const released = refusal(() => hf.locks.releaseLock('press'))
  await new Promise((resolve) => setTimeout(resolve, patienceMs - 500))
  const again = taken(hf.locks.acquireLock('press'))
  await released
  proxy.mend()

  expect((await again).lock.lease.token).toBeGreaterThan(before.lock.lease.token)
})

test('a wait for a lock outlasts an outage that is longer than the patience of a call [S5b-16]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const options = { environment: hurried, background: false, patienceMs: 5_000 }
  const hf = await openHere(proxy.through(store), options)
  proxy.cut()

  const acquired = taken(hf.locks.acquireLock('press', { waitMs: 60_000 }))
  await new Promise((resolve) => hurried.timer(15_000, () => resolve(null), true))
  proxy.mend()

  expect((await acquired).lock.name).toBe('press')
})

test('close() waits no longer than its drain time for an unreachable server [S5b-16]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { environment: hurried })
  await taken(hf.locks.acquireLock('press'))
  proxy.cut()
  void hf
    .queue('q')
    .add('work')
    .catch(() => {})
  void hf.locks.releaseLock('press').catch(() => {})

  const startedAt = hurried.monotonic()
  const error = await refusal(() => hf.close())
  const closedAfterMs = hurried.monotonic() - startedAt

  print(`closed after ${(closedAfterMs / 1000).toFixed(1)} s`)
  expect(error.code).toBe('STORE_UNAVAILABLE')
  expect(closedAfterMs).toBeLessThan(30_000 + 10_000)
})
