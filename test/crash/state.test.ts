/** One document and many real processes: no update is lost or counted twice, whichever process dies. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  type Actor,
  audit,
  expectSound,
  newStore,
  openActor,
  openHere,
  print,
  query,
  startActor,
} from './support.ts'

const pending = ['A', 'B', 'C'].map((id) => ({ id, retries: 0 }))
const reached = (actor: Actor, point: string) => actor.told('trapped', (told) => told.point === point)

// First, since those that come through it serve the tests that follow.
test('8 processes that add 1 to one counter 50 times each reach exactly 400 [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false, durability: 'normal' })
  const counters = await Promise.all(
    Array.from({ length: 8 }, () => openActor(store, { durability: 'normal', background: false })),
  )

  const startedAt = performance.now()
  const counts = await Promise.all(
    counters.map((counter) =>
      counter.ask<{ versions: number[]; gaveUp: number }>('countUp', { key: 'count', times: 50 }),
    ),
  )
  const tookMs = Math.round(performance.now() - startedAt)

  const versions = counts.flatMap((count) => count.versions)
  const gaveUp = counts.reduce((total, count) => total + count.gaveUp, 0)
  print(`400 updates of one counter by 8 processes in ${tookMs} ms; ${gaveUp} gave up and were tried again`)
  expect(await hf.state('count').get()).toMatchObject({ value: 400, version: 400 })
  expect(versions.toSorted((left, right) => left - right)).toEqual(versions.map((_, index) => index + 1))
  expect((await audit(hf)).filter(({ kind }) => kind === 'state.set')).toHaveLength(400)
  expect(query(store, 'select count(*) as documents from state')).toEqual([{ documents: 1 }])
  expectSound(store)
})

test('a file that is read, changed and written back loses what another process wrote in between', async () => {
  const path = `${newStore()}.json`
  writeFileSync(path, JSON.stringify(pending))
  const [retrier, receiver] = await Promise.all([startActor(), startActor()])

  const retrying = retrier.ask('rewriteSlowly', { path, mark: 'A' })
  await reached(retrier, 'read')
  receiver.send('goOn')
  await receiver.ask('rewriteSlowly', { path, drop: 'B' })
  retrier.send('goOn')
  await retrying

  // B was acknowledged and is waited for again.
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual([
    { id: 'A', retries: 1 },
    { id: 'B', retries: 0 },
    { id: 'C', retries: 0 },
  ])
})

test('a long update loses nothing: what was acknowledged in the meantime stays [A9] [A10]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false })
  await hf.state('acks').set(pending)
  const [retrier, receiver] = await Promise.all([openActor(store), openActor(store)])

  const retrying = retrier.ask('updateSlowly', { key: 'acks', mark: 'A' })
  await reached(retrier, 'read')
  receiver.send('goOn')
  const acknowledged = await receiver.ask('updateSlowly', { key: 'acks', drop: 'B' })
  retrier.send('goOn')
  const retried = await retrying

  expect(acknowledged).toEqual({ attempts: 1, version: 2 })
  expect(retried).toEqual({ attempts: 2, version: 3 })
  expect((await hf.state('acks').get())?.value).toEqual([
    { id: 'A', retries: 1 },
    { id: 'C', retries: 0 },
  ])
})

test('an effect between two updates, claim and record, happens once whoever writes in between [A9] [A10]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false })
  await hf.state('acks').set(pending)
  const retrier = await openActor(store)

  const resending = retrier.ask<{ claim: number; version: number }>('resend', { key: 'acks', id: 'A' })
  await reached(retrier, 'sent')
  await hf.state<typeof pending>('acks').update((acks) => (acks ?? []).filter(({ id }) => id !== 'B'))
  retrier.send('goOn')
  const resent = await resending

  expect(retrier.all('trapped').map(({ point }) => point)).toEqual(['sent'])
  expect(resent).toEqual({ claim: 2, version: 4 })
  expect((await hf.state('acks').get())?.value).toEqual([
    { id: 'A', retries: 1, sending: false },
    { id: 'C', retries: 0 },
  ])
})

test('a process killed between its read and its save leaves the document to the others [X6]', async () => {
  const store = newStore()
  const hf = await openHere(store, { background: false })
  await hf.state('acks').set(pending)
  const victim = await openActor(store)

  victim.send('updateSlowly', { key: 'acks', mark: 'A', die: true })
  await reached(victim, 'read')
  expect(await victim.ended()).toBe('SIGKILL')
  const update = await hf
    .state<typeof pending>('acks')
    .update((acks) => (acks ?? []).filter(({ id }) => id !== 'B'))

  expect(update).toMatchObject({ outcome: 'saved', version: 2, attempts: 1 })
  expect(update.value).toEqual([
    { id: 'A', retries: 0 },
    { id: 'C', retries: 0 },
  ])
  expectSound(store)
})

test.each([
  { point: 'begun', saved: false },
  { point: 'applied', saved: false },
  { point: 'committed', saved: true },
])(
  'a process killed when its save is $point leaves value, version and event together, or none of them [X6] [X2]',
  async ({ point, saved }) => {
    const store = newStore()
    const hf = await openHere(store, { background: false })
    await hf.state('plan').set('old')
    const victim = await openActor(store)

    await victim.ask('set', { point: `transaction.${point}`, signal: 'SIGKILL' })
    victim.send('setState', { key: 'plan', value: 'new', expectedVersion: 1 })
    expect(await victim.ended()).toBe('SIGKILL')

    const expected = saved ? { value: 'new', version: 2 } : { value: 'old', version: 1 }
    const { entries } = await hf.state('plan').history()
    expect(await hf.state('plan').get()).toMatchObject(expected)
    expect(entries[0]).toMatchObject(expected)
    expect(await hf.state('plan').set('next', { expectedVersion: expected.version })).toMatchObject({
      version: expected.version + 1,
    })
    expectSound(store)
  },
)
