/** Connections to PostgreSQL that break: nothing is taken from a living holder, and work goes on by itself. */
import type { Holdfast, QueueItem } from 'holdfast'
import { expect, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { ownServer, wholeAudit } from './server-store.ts'
import {
  type Actor,
  claimBy,
  countById,
  expectCompletedOnce,
  isRenewed,
  openActor,
  openHere,
  print,
  startProgram,
  until,
  warmUp,
} from './support.ts'

const own = ownServer()
const leaseMs = 3000

const endBackends = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'`

test('a holder keeps its item while connections are reset, backends ended and the server crashes [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const holder = await openActor(proxy.through(store), { agent: 'holder', leaseMs })
  await warmUp(hf, holder)
  await hf.queue('q').add('work')
  const item = await claimBy(holder, 'q')
  const rival = hf.work('q', () => {})

  proxy.reset()
  expect(await isRenewed(hf, item)).toBe(true)
  await own.query(store, endBackends)
  expect(await isRenewed(hf, item)).toBe(true)
  await own.server.kill()
  await own.server.start()
  expect(await isRenewed(hf, item)).toBe(true)
  await holder.ask('complete', { queue: 'q', item: item.id })
  await rival.stop()

  const events = (await wholeAudit(hf, own.server)).filter(({ id }) => id === item.id)
  expect(holder.all('aborted').filter((told) => told.item === item.id)).toEqual([])
  expect(events.map(({ kind, agent }) => `${kind} by ${agent}`)).toEqual([
    'item.created by test',
    'item.claimed by holder',
    'item.completed by holder',
  ])
})

test('under load every acknowledged change is there once, whatever ends the connections [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store)
  const loads = await Promise.all([openLoad(proxy.through(store), 'left'), openLoad(store, 'right')])
  await goesOn(loads)

  for (let round = 0; round < 3; round++) {
    proxy.reset()
    await goesOn(loads)
    await own.query(store, endBackends)
    await goesOn(loads)
  }
  await own.server.kill()
  await own.server.start()
  await goesOn(loads)
  await own.server.restart()
  await goesOn(loads)

  await expectAcknowledgedOnce(hf, loads)
})

test('a client cut off past its lease is told before the end, and its late completion is refused [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const holder = await openActor(proxy.through(store), { agent: 'cut off', leaseMs })
  await warmUp(hf, holder)
  await hf.queue('q').add('work')
  const item = await claimBy(holder, 'q')
  const lock = await holder.ask<{ token: number }>('call', {
    noun: 'locks',
    method: 'acquireLock',
    args: ['l', { leaseMs }],
  })

  proxy.cut()
  const aborted = await holder.told('aborted', (told) => told.item === item.id)
  const leftMs = (await hf.queue('q').get(item.id))?.lease?.remainingMs as number
  const heir = await takenOver(hf, item)
  await until('the lock is free', async () => (await hf.locks.acquireLock('l')).outcome === 'claimed')
  proxy.mend()
  const late = await holder.askRefusal('complete', { queue: 'q', item: item.id, token: item.token })
  const seen = await holder.ask('call', { noun: 'locks', method: 'getLockStatus', args: ['l'] })

  print(`its signal fired ${leftMs} ms before the store ended its lease`)
  expect(aborted.code).toBe('LEASE_LOST')
  expect(leftMs).toBeGreaterThan(0)
  expect(heir.token).toBeGreaterThan(item.token)
  expect(late).toMatchObject({ code: 'LEASE_LOST', facts: { holder: 'test' } })
  expect(seen).toMatchObject({ holder: 'test' })
  expect(lock.token).toBeLessThan((seen as { token: number }).token)
})

test('a server that takes no more connections is told as STORE_UNAVAILABLE, and served again later [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  await hf.queue('q').add('before')
  await own.server.restart({ max_connections: 12 })
  await until('it works again', async () => (await hf.queue('q').stats()).total === 1)
  const taken = await takeAll()

  const error = await refusal(() => openHere(store, { agent: 'too many' }))
  const { item } = await hf.queue('q').add('meanwhile')
  await Promise.all(taken.map((client) => client.end()))
  const other = await openHere(store, { agent: 'at last' })

  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
  expect(error.message).toContain('no more connections')
  expect(await other.queue('q').get(item.id)).toMatchObject({ payload: 'meanwhile' })
  await own.server.restart({ max_connections: 100 })
})

/** Every connection the server gives to anybody. */
async function takeAll() {
  const taken = []
  for (;;) {
    try {
      taken.push(await own.connect())
    } catch {
      return taken
    }
  }
}

async function takenOver(hf: Holdfast, { queue, id }: QueueItem<unknown>): Promise<QueueItem<unknown>> {
  let heir: QueueItem<unknown> | null = null
  await until('another holds it', async () => {
    const claim = await hf.queue(queue).next()
    if (claim.outcome === 'claimed') heir = claim.item
    return heir !== null
  })
  expect(heir).toMatchObject({ id })
  return heir as unknown as QueueItem<unknown>
}

async function openLoad(store: string, name: string): Promise<Actor> {
  const load = await startProgram('load')
  await load.ask('open', { store, agent: name, leaseMs: 5000 })
  await load.ask('start', { name })
  return load
}

interface Look {
  readonly added: number
  readonly counted: number
  readonly handled: number
}

/** Each of them has got more of each thing done than before. */
async function goesOn(loads: readonly Actor[]): Promise<void> {
  await Promise.all(
    loads.map(async (load) => {
      const before = await load.ask<Look>('look')
      await until('the load goes on', async () => {
        const now = await load.ask<Look>('look')
        return now.added > before.added && now.counted > before.counted && now.handled > before.handled
      })
    }),
  )
}

interface Known {
  readonly added: readonly string[]
  readonly counted: number
  readonly handled: readonly string[]
  readonly refused: readonly { readonly code: string; readonly inDoubt: boolean | null }[]
  readonly lost: number
}

/** What the processes were told is what the store says, no more and no less. */
async function expectAcknowledgedOnce(hf: Holdfast, loads: readonly Actor[]): Promise<void> {
  const known = await Promise.all(loads.map((load) => load.ask<Known>('stop')))
  const rest = hf.work('q', () => {}, { concurrency: 20 })
  await until('nothing is left', async () => (await hf.queue('q').stats()).pending === 0)
  await rest.stop()

  const events = await wholeAudit(hf, own.server)
  const created = events.filter(({ kind }) => kind === 'item.created')
  const numbers = created.map(({ change }) => (JSON.parse(String(change?.payload)) as { number: string }).number)
  const acknowledged = known.flatMap(({ added }) => added)
  print(`${acknowledged.length} items and ${sum(known.map(({ counted }) => counted))} counts acknowledged`)
  expect(known.flatMap(({ refused }) => refused)).toEqual([])
  expect(numbers.toSorted()).toEqual(acknowledged.toSorted())
  expectCompletedOnce(events, created.map(({ id }) => id))
  expect([...countById(events, 'item.claimed').values()].every((count) => count === 1)).toBe(true)
  expect(known.map(({ lost }) => lost)).toEqual(known.map(() => 0))
  const handled = known.flatMap((each) => each.handled)
  expect(new Set(handled).size).toBe(handled.length)
  expect(await hf.state('counter').get()).toMatchObject({ value: sum(known.map(({ counted }) => counted)) })
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
