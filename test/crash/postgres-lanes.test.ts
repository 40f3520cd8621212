/** What shares a connection to the server: reads that take long, renewals, and more than a slow link carries at once. */
import type { Event, Holdfast } from 'holdfast'
import { expect, test } from 'vitest'
import { ownServer, schemaOf } from './server-store.ts'
import { openHere, until } from './support.ts'

const own = ownServer()

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
  const client = await own.connect()
  await client.query('begin')
  await client.query('select pg_current_xact_id()')
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
