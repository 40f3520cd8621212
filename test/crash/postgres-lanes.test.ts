/** What shares a connection to the server: reads that take long, renewals, and more than a slow link carries at once. */
import type { Event, Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { ownServer, schemaOf } from './server-store.ts'
import { openHere, until } from './support.ts'

const own = ownServer()

/** Of another program: it has written something, and does not end. */
async function openTransaction(): Promise<void> {
  const client = await own.connect()
  await client.query('begin')
  await client.query('select pg_current_xact_id()')
}

test('a slow read does not keep any lease from being renewed [S5c-7]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const watcher = await openHere(store, { background: false })
  await hf.queue('q').add('work')
  const claim = await hf.queue('q').next({ leaseMs: 2000 })
  if (claim.outcome !== 'claimed') throw new Error('there was nothing to claim')
  const { item, lease } = claim
  const client = await own.connect()
  await client.query('begin')
  await client.query(`lock table ${schemaOf(store)}.state in access exclusive mode`)

  const reading = Promise.allSettled([1, 2, 3].map(() => hf.state('document').get()))
  const { expiresAt } = (await watcher.queue('q').get(item.id))?.lease ?? {}
  await until('its lease was renewed often enough to outlive the first, or lost', async () => {
    const { lease: now } = (await watcher.queue('q').get(item.id)) ?? {}
    return lease.signal.aborted || (now?.renewedAt ?? 0) > Number(expiresAt)
  })
  await client.query('commit')
  await reading

  expect(lease.signal.aborted).toBe(false)
})

test('a renewal that is sent along with a read does not wait for it [S5c-7]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false, busyTimeoutMs: 500 })
  const client = await own.connect()
  await client.query('begin')
  await client.query(`lock table ${schemaOf(store)}.state in access exclusive mode`)
  const renew = () => hf.execute('lease.renew', { leases: [] })
  // The next turn is the read's: renewals do not go twice in a row while others wait.
  await renew()

  const reading = Promise.allSettled([hf.state('document').get()]).then(() => 'read')
  const first = await Promise.race([reading, renew().then(() => 'renewal')])
  await client.query('commit')
  await reading

  expect(first).toBe('renewal')
})

test('of reads sent together, only the one that is held back is repeated [S5c-7]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  await openTransaction()
  const { item } = await hf.queue('q').add('work')
  const answered: string[] = []

  const feed = hf.execute('events.list', { since: 0 }).then(() => answered.push('feed'))
  const others = [1, 2, 3].map(() =>
    hf
      .queue('q')
      .get(item.id)
      .then(() => answered.push('item')),
  )
  await Promise.all([feed, ...others])

  expect(answered).toEqual(['item', 'item', 'item', 'feed'])
})

test('an open transaction keeps back the events of everything, but not of one thing, whatever kinds are wanted', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  await openTransaction()
  await hf.state('theme').set('dark')
  const one = { subject: 'state', id: 'theme' } as const

  const feed = await hf.execute('events.list', { kinds: ['state.set'] })
  const all = await hf.execute('events.list', one)
  const some = await hf.execute('events.list', { ...one, kinds: ['state.set'] })

  expect(feed.events).toEqual([])
  expect(all.events).toMatchObject([{ kind: 'state.set' }])
  expect(some).toEqual({ ...all, next: null })
})

test('a read takes one transaction, including what the process has to know about its server [S5e-6]', async () => {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false })
  await hf.state('document').get()
  const began = performance.now()
  const before = proxy.syncs
  let reads = 0

  // Longer than the process may go by what it knows.
  for (; performance.now() - began < 2500; reads++) await hf.state('document').get()

  expect(proxy.syncs - before).toBe(reads)
})

test('calls that share the first batch prepare each statement once [S5e-6]', async () => {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false })
  const before = proxy.prepared.length

  await Promise.all([1, 2, 3, 4, 5].map((value) => hf.state(`document-${value}`).set(value)))

  const prepared = proxy.prepared.slice(before)
  expect(prepared.filter((text) => text.includes('.state t'))).toHaveLength(1)
  expect(prepared).toEqual([...new Set(prepared)])
})

/** Ends as many processes at once, each of which holds `items`; returns how many statements that took for each. */
async function statementsPerEnd(count: number, items: number): Promise<number> {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false, recovery: false })
  const ids = Array.from({ length: count }, (_, index) => `process-${index}`)
  const machine = { bootId: 'boot', hostName: 'host', pidNamespace: 'pid', startTime: null }
  await hf.queue('q').addMany(ids.map((payload) => ({ payload })))
  for (const [pid, id] of ids.entries())
    await hf.execute('instance.start', { id, pid, ...machine }, { agent: id })
  if (items > 0)
    await Promise.all(
      ids.map((id) =>
        hf.execute('queue.claimMany', { queue: 'q', limit: items }, { agent: id, instance: id }),
      ),
    )
  const before = proxy.statements

  const ended = await Promise.all(
    ids.map((id) => hf.execute('instance.end', { id, reason: 'over' }, { agent: id })),
  )

  expect(ended).toEqual(ids.map(() => ({ released: items, more: false })))
  return (proxy.statements - before) / count
}

/** Runs 80 calls at once; returns how many statements that took for each. */
async function statementsPerCall(call: (hf: Holdfast, index: number) => Promise<unknown>): Promise<number> {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false, recovery: false })
  const before = proxy.statements
  await Promise.all(Array.from({ length: 80 }, (_, index) => call(hf, index)))
  return (proxy.statements - before) / 80
}

test('calls that each add to a new queue share a transaction', async () => {
  expect(await statementsPerCall((hf, index) => hf.queue(`q-${index}`).add('work'))).toBeLessThan(6)
})

test('a call that is refused because of its input leaves the others their transaction', async () => {
  const call = (hf: Holdfast, index: number) => {
    const dedupeKey = index === 40 ? 'bad' : `workspace:${index}`
    const submitted = hf.queue('q').submit(`key-${index}`, { headSha: 'abc1234', payload: 1, dedupeKey })
    return index === 40 ? expect(submitted).rejects.toMatchObject({ code: 'INVALID' }) : submitted
  }

  expect(await statementsPerCall(call)).toBeLessThan(10)
})

test('completions that each free another item share a transaction', async () => {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false, recovery: false })
  const queue = hf.queue('q')
  const added = await Promise.all(Array.from({ length: 40 }, () => queue.add('first')))
  await queue.claimMany(40)
  await Promise.all(added.map(({ item }) => queue.add('second', { blockers: [item.id] })))
  const before = proxy.statements

  await Promise.all(added.map(({ item }) => queue.complete(item.id)))

  expect((proxy.statements - before) / 40).toBeLessThan(3)
  expect(await queue.stats()).toMatchObject({ completed: 40, pending: 40, blocked: 0 })
})

test('a process that holds nothing ends in the same transaction as all others that end then', async () => {
  expect(await statementsPerEnd(80, 0)).toBeLessThan(10)
})

test('calls that cannot be decided together do not load the rows of all others each time', async () => {
  expect(await statementsPerEnd(80, 1)).toBeLessThan(60)
})

test('calls that have to wait for each other keep no others waiting', async () => {
  const hf = await openHere(own.newStore(), { background: false, recovery: false })
  const answered: string[] = []

  const saved = Array.from({ length: 40 }, async (_, value) => {
    await hf.state('document').set(value)
    answered.push('save')
  })
  await saved[3]
  await hf.queue('q').add('work')
  const before = answered.length
  await Promise.all(saved)

  expect(before).toBeLessThan(20)
  expect(await hf.state('document').get()).toMatchObject({ value: 39 })
})

test.each([{}, { subject: 'item' }] as const)(
  'the newest events (%j) include what was just written while another transaction ends [S5e-1]',
  async (about) => {
    const store = own.newStore()
    const hf = await openHere(store, { background: false })
    const client = await own.connect()
    await hf.queue('q').addMany([{ payload: 1 }, { payload: 2 }])
    await client.query('begin')
    await client.query('select pg_current_xact_id()')
    const { item } = await hf.queue('q').add('last')

    const reading = hf.execute('events.list', { newest: true, limit: 2, ...about })
    await client.query('commit')
    const { events } = (await reading) as { events: Event[] }

    expect(events.at(-1)?.id).toBe(item.id)
  },
)

test('without a server, a command gives up after its own time limit, even behind one with a longer limit', async () => {
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(own.newStore()), { background: false, patienceMs: 400 })
  await hf.queue('q').define()
  await proxy.close()
  const add = () => hf.queue('q').add('work')
  await expect(add()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })

  const waiting = Promise.allSettled([hf.queue('q').next({ waitMs: 2500 })]).then(() => 'claim')
  // By then the claim looks for a server.
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  const first = await Promise.race([waiting, add().catch(() => 'add')])
  await waiting

  expect(first).toBe('add')
})

/** 10 s of sending, and the kernel has taken the last of it long before the server has. */
const bytesPerSecond = 1_000_000
const count = 20
const payloads = Array.from({ length: count }, (_, number) => String(number).padEnd(250_000, 'x'))

test('what is too much for a slow link at once still gets through, in one command or in many [S5c-8]', async () => {
  const store = own.newStore()
  const watcher = await openHere(store, { background: false })
  const openFar = async () => {
    const proxy = await own.openProxy()
    const hf = await openHere(proxy.through(store), {
      background: false,
      busyTimeoutMs: 100,
      patienceMs: 15_000,
    })
    proxy.bytesPerSecond = bytesPerSecond
    return hf
  }
  const [one, many] = await Promise.all([openFar(), openFar()])

  await Promise.all([
    one.queue('one').addMany(payloads.map((payload) => ({ payload }))),
    ...payloads.map((payload) => many.queue('many').add(payload)),
  ])

  expect(await numbersIn(watcher, 'one')).toEqual([...Array(count).keys()])
  expect(await numbersIn(watcher, 'many')).toEqual([...Array(count).keys()])
})

async function numbersIn(hf: Holdfast, queue: string): Promise<number[]> {
  const { items } = await hf.queue(queue).list({ limit: count + 1 })
  return items.map(({ payload }) => Number.parseInt(String(payload), 10)).sort((left, right) => left - right)
}
