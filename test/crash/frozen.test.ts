/** Processes that are alive but do not move: stopped, blocked, wedged. Alive and renewing is never stolen from. */
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import {
  audit,
  claimBy,
  eventOf,
  expectCompletedOnce,
  expectSoundAndFree,
  isRenewed,
  newStore,
  openActor,
  openHere,
  print,
  reclaimOf,
  warmUp,
} from './support.ts'

/** Short, so that it can lapse while a test waits; long enough for a busy machine to renew it in time. */
const leaseMs = 2000

test('a stopped holder keeps its item until its lease lapses, and comes back too late [X6] [Q13] [Q18] [Z7]', async () => {
  const store = newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const queue = hf.queue('q')
  const holder = await openActor(store, { agent: 'frozen', leaseMs, recovery: false })
  await warmUp(hf, holder)
  await queue.add('work')
  const item = await claimBy(holder, 'q')

  // The next renewal is a third of the lease away. Stopped in the middle of one, the process would hold up every
  // writer, which is the next test's promise.
  expect(await isRenewed(hf, item)).toBe(true)
  holder.kill('SIGSTOP')
  const stoppedAt = performance.now()
  const remainingMs = (await queue.get(item.id))?.lease?.remainingMs as number
  expect(await queue.next()).toMatchObject({ outcome: 'empty' })
  const { detail, seenAt } = await reclaimOf(hf, item.id)
  const heir = await queue.next()
  await queue.complete(item.id)
  const late = holder.askRefusal('complete', { queue: 'q', item: item.id, token: item.token })
  holder.kill('SIGCONT')

  print(
    `${remainingMs} ms were left when it was stopped; reclaimed after ${Math.round(seenAt - stoppedAt)} ms`,
  )
  expect(remainingMs).toBeGreaterThan(0)
  expect(seenAt - stoppedAt).toBeGreaterThan(remainingMs - 5)
  expect(detail?.expiredForMs).toBeGreaterThan(0)
  expect(detail?.evidence).toBe(`its lease lapsed ${detail?.expiredForMs} ms ago`)
  expect(heir).toMatchObject({ outcome: 'claimed', item: { id: item.id } })
  expect(await late).toMatchObject({ code: 'LEASE_LOST' })
  expect(await holder.told('aborted', (message) => message.item === item.id)).toMatchObject({
    code: 'LEASE_LOST',
  })
  const events = (await audit(hf)).filter(({ id }) => id === item.id)
  expectCompletedOnce(events, [item.id])
  expect(events.find(({ kind }) => kind === 'item.completed')).toMatchObject({ agent: 'test' })
  expectSoundAndFree(store)
})

test('a process stopped inside a transaction makes writers BUSY, and its death lets them continue [X6] [EP-001] [X4]', async () => {
  const store = newStore()
  const hf = await openHere(store, { busyTimeoutMs: 500 })
  const queue = hf.queue('q')
  const { item: before } = await queue.add('before')
  const stopped = await openActor(store)
  await stopped.ask('set', { point: 'transaction.begun', signal: 'SIGSTOP' })
  stopped.send('add', { queue: 'q', payload: 'never acknowledged' })
  await stopped.told('trapped')

  const askedAt = performance.now()
  const error = await refusal(() => queue.add('refused'))
  const refusedAfterMs = performance.now() - askedAt
  const readMeanwhile = await queue.stats()
  stopped.kill()
  await stopped.ended()
  const { item: after } = await queue.add('after')

  print(`refused after ${Math.round(refusedAfterMs)} ms, allowed were 500 ms`)
  expect(error).toMatchObject({ code: 'BUSY', retryable: true, facts: { timeoutMs: 500 } })
  expect(refusedAfterMs).toBeGreaterThan(500)
  expect(refusedAfterMs).toBeLessThan(3500)
  expect(readMeanwhile).toMatchObject({ total: 1 })
  expect((await queue.list()).items.map(({ id, payload }) => ({ id, payload }))).toEqual([
    { id: before.id, payload: 'before' },
    { id: after.id, payload: 'after' },
  ])
  expectSoundAndFree(store)
})

test('a handler that blocks its event loop for three leases keeps its item [X6] [Z1] [E-05]', async () => {
  const store = newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const busy = await openActor(store, { agent: 'busy', leaseMs })
  await warmUp(hf, busy)
  const { item } = await hf.queue('q').add('work')
  await busy.ask('work', { queue: 'q', each: true, blockMs: 3 * leaseMs })
  await busy.told('handling')

  const rival = hf.work('q', () => {})
  await eventOf(hf, 'the end of the item', ({ kind, id }) => kind === 'item.completed' && id === item.id)
  await rival.stop()

  const events = (await audit(hf)).filter(({ id }) => id === item.id)
  expect(events.map(({ kind, agent }) => `${kind} by ${agent}`)).toEqual([
    'item.created by test',
    'item.claimed by busy',
    'item.completed by busy',
  ])
  await busy.ask('stop')
  expectSoundAndFree(store)
})

test('a process whose main loop hangs for too long stops renewing, and its item heals [X6] [Q13]', async () => {
  const store = newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const wedged = await openActor(store, { agent: 'wedged', leaseMs, wedgedAfterMs: 1000 })
  await warmUp(hf, wedged)
  await hf.queue('q').add('work')
  const item = await claimBy(wedged, 'q')

  const hangsSince = performance.now()
  wedged.send('block', { ms: 600_000 })
  const { seenAt, detail } = await reclaimOf(hf, item.id)

  print(`hung for ${Math.round(seenAt - hangsSince)} ms, then its item was given back`)
  expect(wedged.child.exitCode).toBeNull()
  expect(detail).toMatchObject({ holder: 'wedged', evidence: expect.stringContaining('its lease lapsed') })
  expect(await hf.queue('q').next()).toMatchObject({ outcome: 'claimed', item: { id: item.id } })
})
