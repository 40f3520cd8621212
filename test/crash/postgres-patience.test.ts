/** How long a call waits for an unreachable PostgreSQL server: as the guide says, whatever else waits with it. */
import type { Holdfast } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { ownServer } from './server-store.ts'
import { openHere, print, until } from './support.ts'

const own = ownServer()
const patienceMs = 20_000
/** With a clock that is five times as fast, that is over in four seconds. */
const speed = 5
/** A busy machine is late; the waits that were too long were so by 4 s and more. */
const lateMs = 3_000
const hurried: typeof systemEnvironment = {
  ...systemEnvironment,
  monotonic: () => systemEnvironment.monotonic() * speed,
  timer: (ms, callback, isRef) => systemEnvironment.timer(ms / speed, callback, isRef),
}

const calls: Record<string, (hf: Holdfast) => Promise<unknown>> = {
  'a change': (hf) => hf.queue('q').add(1),
  'a claim': (hf) => hf.queue('q').next(),
  'a look': (hf) => hf.queue('q').stats(),
}

test('[S5-10] each call gives up when its own patience ends, even beside later calls', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false, environment: hurried, patienceMs })
  await hf.queue('q').add('before')
  proxy.cut()

  const waits: Promise<number>[] = []
  for (let round = 0; round < 3; round++) {
    waits.push(...Object.values(calls).map((call) => waitOf(() => call(hf))))
    await new Promise((resolve) => hurried.timer(4_000, () => resolve(null), true))
  }
  const waitedMs = await Promise.all(waits)
  proxy.mend()

  print(`waited ${waitedMs.map((ms) => (ms / 1000).toFixed(1)).join(', ')} s`)
  expect(Math.min(...waitedMs)).toBeGreaterThanOrEqual(patienceMs - 100)
  expect(Math.max(...waitedMs)).toBeLessThan(patienceMs + lateMs)
  expect(await hf.queue('q').add('after')).toMatchObject({ item: { payload: 'after' } })
})

test('[S5-10] a server that is found again and falls silent does not restart anyone’s wait', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false, environment: hurried, patienceMs })
  await hf.queue('q').add('before')
  proxy.cut()

  const change = waitOf(() => hf.queue('q').add(1))
  await new Promise((resolve) => hurried.timer(6_000, () => resolve(null), true))
  proxy.breakCommits(() => {
    proxy.stall()
    return null
  })
  proxy.mend()
  const waitedMs = await change
  proxy.breakCommits(null)
  proxy.mend()

  expect(waitedMs).toBeGreaterThanOrEqual(patienceMs - 100)
  expect(waitedMs).toBeLessThan(patienceMs + lateMs)
  await until('the server is found again', async () => {
    const { payload } = (await hf.queue('q').add('after')).item
    return payload === 'after'
  })
})

test('[S5-10] a call that has given up changes nothing, even if later calls of its batch are tried again', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false, environment: hurried, patienceMs })
  await hf.queue('q').add('before')
  const pause = (ms: number) => new Promise((resolve) => hurried.timer(ms, () => resolve(null), true))
  proxy.cut()

  // The first looks for the server; the other two wait behind it and share the next batch.
  const first = waitOf(() => hf.queue('q').add('first'))
  await pause(3_000)
  const second = waitOf(() => hf.queue('q').add('second'))
  // Long enough that the third still has time when the second has given up, on a busy machine too.
  await pause(12_000)
  // The first item of a queue is tried twice, because the queue has to be created too.
  const third = hf.queue('new').add('third')
  await Promise.all([first, second])
  proxy.mend()
  await third

  const { items } = await hf.queue('q').list()
  expect(items.map(({ payload }) => payload)).toEqual(['before'])
})

test('[S5-10] a wait that is longer than anyone’s patience outlasts a server that was away for longer', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false, environment: hurried, patienceMs })
  const holder = await openHere(store, { agent: 'holder', background: false })
  await holder.locks.acquireLock('deploy')
  const waitMs = 120_000
  const waits = [
    hf.queue('q').next({ waitMs }),
    hf.tasks.claimNext({ waitMs }),
    hf.locks.acquireLock('deploy', { waitMs }),
  ].map((wait) => wait.then(({ outcome }) => outcome, String))
  const inAWhile = (ms: number) => new Promise((resolve) => hurried.timer(ms, () => resolve(null), true))
  await inAWhile(2_500)

  proxy.cut()
  await inAWhile(patienceMs + lateMs)
  proxy.mend()
  await holder.queue('q').add('after')
  await holder.tasks.addTask('after')
  await holder.locks.releaseLock('deploy')

  expect(await Promise.all(waits)).toEqual(['claimed', 'claimed', 'acquired'])
})

/** On the hurried clock. */
async function waitOf(call: () => Promise<unknown>): Promise<number> {
  const askedAt = hurried.monotonic()
  const error = await refusal(call)
  expect(error.code).toBe('STORE_UNAVAILABLE')
  return hurried.monotonic() - askedAt
}
