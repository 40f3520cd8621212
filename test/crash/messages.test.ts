/** Couriers that die, freeze and race between claim, sending and record, and a real server that counts what arrives. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Holdfast, importPendingAcks, type OpenOptions, webhook } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import {
  type Actor,
  audit,
  countById,
  eventOf,
  expectHeardAtOnce,
  expectSound,
  newStore,
  openHere,
  print,
  startActor,
  until,
} from './support.ts'

interface Arrival {
  readonly id: string
  readonly attempt: number
}

/** Answers every request with 200, or lets the test answer it. */
async function startServer(answer: (response: ServerResponse) => void = (response) => void response.end()) {
  const arrived: Arrival[] = []
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const { 'holdfast-message': id, 'holdfast-attempt': attempt } = request.headers
      arrived.push({ id: String(id), attempt: Number(attempt) })
      answer(response)
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', () => listening()))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { arrived, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

async function openCourier(store: string, url: string, options: OpenOptions = {}): Promise<Actor> {
  const courier = await startActor('courier')
  await courier.ask('open', { store, url, ...options })
  return courier
}

/** Bob is reached by the hook; the test's own process only watches, unless it is told to heal or to send. */
async function openOffice(store: string, options: OpenOptions = {}): Promise<Holdfast> {
  const hf = await openHere(store, { background: false, ...options })
  await hf.messages.register('test', { sendsPerMinute: 0 })
  await hf.messages.register('bob', { adapter: 'hook' })
  return hf
}

const healing = { background: true, redelivery: false, recovery: { everyMs: 50 } }

// First, since those that come through it serve the tests that follow.
test('8 processes that run processRetries at once send each due message once [A8] [A12] [A17] [S8]', async () => {
  const store = newStore()
  const { arrived, url } = await startServer()
  const hf = await openOffice(store, { durability: 'normal' })
  const sends = Array.from({ length: 200 }, (_, content) => hf.messages.sendWithAck('bob', { content }))
  const ids = (await Promise.all(sends)).map(({ message }) => message.id)
  const couriers = await Promise.all(
    Array.from({ length: 8 }, (_, number) =>
      openCourier(store, url, { agent: `courier-${number}`, redelivery: false, durability: 'normal' }),
    ),
  )

  const counts = await Promise.all(couriers.map((courier) => courier.ask<{ retried: number }>('pass')))

  const shares = counts.map(({ retried }) => retried)
  print(`200 messages by 8 processes: ${shares.join(', ')}`)
  expect(shares.reduce((sum, each) => sum + each)).toBe(200)
  expect(arrived.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  const claims = countById(await audit(hf), 'delivery.claimed')
  expect([...claims.values()].every((count) => count === 1)).toBe(true)
  expectSound(store)
})

test('a process that only reads its inbox learns at once of what another process sends [S5c-12]', async () => {
  const store = newStore()

  await expectHeardAtOnce(store)

  expectSound(store)
})

const points = [
  { point: 'delivery.claimed', when: 'after the claim, before sending', arrivals: 1 },
  { point: 'delivery.sent', when: 'after sending, before the record', arrivals: 2 },
  { point: 'delivery.recorded', when: 'after the record', arrivals: 1 },
]

for (const { point, when, arrivals } of points) {
  test(`a courier killed ${when} loses nothing and repeats at most that one, under the same id [A8] [A17] [X6] [S1]`, async () => {
    const store = newStore()
    const { arrived, url } = await startServer()
    const hf = await openOffice(store)
    const { message } = await hf.messages.sendWithAck('bob', { content: 'once' })
    const victim = await openCourier(store, url, { agent: 'victim', redelivery: false })
    await victim.ask('set', { point, signal: 'SIGKILL' })
    victim.send('pass')
    expect(await victim.ended()).toBe('SIGKILL')

    // Another process that has the hook finds the death and goes on by itself.
    const heir = await openHere(store, { agent: 'heir', adapters: { hook: webhook({ url }) } })
    await eventOf(heir, 'the death of the courier', ({ kind }) => kind === 'instance.died')
    await until('the message counts as sent', async () => {
      const [delivery] = (await heir.messages.get(message.id))?.deliveries ?? []
      return delivery?.attempts === 1 && delivery.holder === null
    })
    await heir.close()

    print(`killed ${when}: it arrived ${arrived.length} times`)
    expect(arrived).toEqual(Array(arrivals).fill({ id: message.id, attempt: 1 }))
    const events = await audit(hf)
    expect(countById(events, 'delivery.reclaimed').size).toBe(point === 'delivery.recorded' ? 0 : 1)
    expect(countById(events, 'delivery.sent').get(`${message.id}/0`)).toBe(1)
    expect((await hf.messages.receiveAck(message.id, { agent: 'bob' })).outcome).toBe('acked')
    expectSound(store)
  })
}

for (const { point, escalatedByTheDead } of [
  { point: 'transaction.begun', escalatedByTheDead: 0 },
  { point: 'transaction.applied', escalatedByTheDead: 0 },
  { point: 'transaction.committed', escalatedByTheDead: 1 },
]) {
  test(`a process killed at ${point} while it escalates has escalated once or leaves it to another [A4] [A17] [X6]`, async () => {
    const store = newStore()
    const { arrived, url } = await startServer()
    const hf = await openOffice(store)
    await hf.messages.register('carol', { adapter: 'hook' })
    const ladder = [{ to: ['carol'], waitMs: 3_600_000 }]
    const { message } = await hf.messages.sendWithAck('test', { content: 1, delaysMs: [], ladder })
    const victim = await openCourier(store, url, { agent: 'victim', redelivery: false, background: false })
    await victim.ask('set', { point, signal: 'SIGKILL' })
    victim.send('execute', { operation: 'messages.settle', input: {} })
    await victim.ended()

    hf.messages.adapter('hook', webhook({ url }))
    await hf.messages.processRetries()
    await hf.messages.processRetries()

    const escalations = (await audit(hf)).filter(({ kind }) => kind === 'message.escalated')
    expect(escalations.map(({ agent }) => agent)).toEqual([escalatedByTheDead === 1 ? 'victim' : 'test'])
    expect(arrived).toEqual([{ id: message.id, attempt: 1 }])
    expectSound(store)
  })
}

test('a message sent in one process goes out at once through another that has its adapter [A12]', async () => {
  const store = newStore()
  const { arrived, url } = await startServer()
  const hf = await openOffice(store)
  await openCourier(store, url, { agent: 'courier' })
  await hf.messages.sendWithAck('bob', { content: 'so that the courier has looked, and sleeps' })
  await until('the first arrived', () => arrived.length === 1)

  const sentAt = performance.now()
  await hf.messages.sendWithAck('bob', { content: 1 })
  await until('it arrived', () => arrived.length === 2)

  print(`it arrived after ${Math.round(performance.now() - sentAt)} ms`)
  expect(performance.now() - sentAt).toBeLessThan(5_000)
})

test('a message whose couriers all die is sent a few times, not forever [A8] [S1]', async () => {
  const store = newStore()
  const { arrived, url } = await startServer()
  const hf = await openOffice(store, healing)
  const { message } = await hf.messages.sendWithAck('bob', { content: 'poison' })

  for (let number = 1; number <= 4; number++) {
    const courier = await openCourier(store, url, { agent: `courier-${number}`, redelivery: false })
    await courier.ask('set', { point: 'delivery.sent', signal: 'SIGKILL' })
    const answer = courier.send('pass')
    if (number === 4) await courier.told('answer', (told) => told.number === answer)
    else await courier.ended()
    await until('nobody holds it', async () => {
      const [delivery] = (await hf.messages.get(message.id))?.deliveries ?? []
      return delivery?.holder === null && delivery.dueInMs !== null
    })
  }

  expect(arrived).toHaveLength(3)
  expect((await hf.messages.get(message.id))?.deliveries).toMatchObject([
    { state: 'failed', attempts: 1, error: 'its sender was lost 3 times' },
  ])
})

test('the record of a courier that was frozen until its lease lapsed is refused [A8] [A17] [X6]', async () => {
  const store = newStore()
  const { arrived, url } = await startServer()
  const hf = await openOffice(store, healing)
  const { message } = await hf.messages.sendWithAck('bob', { content: 1 })
  const frozen = await openCourier(store, url, { agent: 'frozen', redelivery: false, recovery: false })
  const { claims } = await frozen.ask<{ claims: { id: string; token: number }[] }>('execute', {
    operation: 'messages.claimDue',
    input: { adapters: ['hook'], leaseMs: 400 },
  })
  frozen.kill('SIGSTOP')

  const { detail } = await eventOf(hf, 'the reclaim', ({ kind }) => kind === 'delivery.reclaimed')
  hf.messages.adapter('hook', webhook({ url }))
  const counts = await hf.messages.processRetries()
  const record = { delivery: claims[0]?.id, token: claims[0]?.token, outcome: 'sent' }
  const late = frozen.askRefusal('execute', { operation: 'messages.record', input: record })
  frozen.kill('SIGCONT')

  expect(await late).toMatchObject({ code: 'LEASE_LOST' })
  expect(detail).toMatchObject({ holder: 'frozen', evidence: expect.stringContaining('its lease lapsed') })
  expect(counts).toMatchObject({ retried: 1 })
  expect(arrived).toEqual([{ id: message.id, attempt: 1 }])
  expect((await hf.messages.get(message.id))?.deliveries).toMatchObject([{ attempts: 1, state: 'sent' }])
})

test('an acknowledgement from another process during a slow retry wins [A9] [A17] [S1] [S8]', async () => {
  const store = newStore()
  const waiting: ServerResponse[] = []
  const { arrived, url } = await startServer((response) => void waiting.push(response))
  const hf = await openOffice(store)
  const { message } = await hf.messages.sendWithAck('bob', { content: 1 })
  const courier = await openCourier(store, url, { agent: 'courier', redelivery: false })
  const pass = courier.ask('pass')
  await until('the request is under way', () => waiting.length === 1)

  const { outcome } = await hf.messages.receiveAck(message.id, { agent: 'bob' })
  waiting[0]?.end()

  expect(outcome).toBe('acked')
  expect(await pass).toMatchObject({ retried: 0, superseded: 1 })
  expect(await hf.messages.get(message.id)).toMatchObject({ state: 'acked' })
  expect(await courier.ask('pass')).toMatchObject({ processed: 0 })
  expect(arrived).toHaveLength(1)
})

test('10,000 due messages are processed with one lease each [A8] [A17]', async () => {
  const hf = await openHere(newStore(), { durability: 'normal', background: false })
  const pending = Array.from({ length: 10_000 }, (_, number) => ({
    msg_id: `m${number}`,
    sender_id: 'test',
    recipient_id: 'bob',
    message: { content: number },
    sent_at: '2026-01-01T00:00:00Z',
    next_retry_at: '2026-01-01T00:00:30Z',
  }))
  await importPendingAcks(hf, JSON.stringify({ pending_acks: pending }))

  const startedAt = performance.now()
  const counts = await hf.messages.processRetries()

  print(`10,000 due messages in ${Math.round(performance.now() - startedAt)} ms`)
  expect(counts).toMatchObject({ processed: 10_000, retried: 10_000, superseded: 0 })
  const claims = countById(await audit(hf), 'delivery.claimed')
  expect(claims.size).toBe(10_000)
  expect([...claims.values()].every((count) => count === 1)).toBe(true)
})
