/** The server's clock decides when leases end: a process with reason to doubt it takes nothing by expiry. */
import { expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { Pooler } from '../support/pooler.ts'
import { ownServer } from './server-store.ts'
import { type Actor, claimBy, closeAfterHandles, openActor, openHere, until } from './support.ts'

const own = ownServer()

test('the first claim that sees a moved clock doubts it [X6]', async () => {
  const store = own.newStore()
  const holder = await openHere(store, { agent: 'holder', background: false })
  const { logger, named } = collectLogs()
  const rival = await openHere(store, { agent: 'rival', background: false, logger })
  await holder.queue('q').add('held')
  await holder.queue('q').next()
  await rival.queue('other').add('by the clock as it was')

  await own.query(store, anHourAhead)
  const claim = await rival.queue('q').next()

  expect(claim).toMatchObject({ outcome: 'empty' })
  expect(named('clock.doubtful')).toHaveLength(1)
  expect(named('lease.reclaimed')).toEqual([])
})

test('a holder renews at once any lease that a moved clock would end, long before it is due [X6]', async () => {
  const store = own.newStore()
  const holder = await openHere(store, { agent: 'holder' })
  await holder.queue('q').add('held')
  await holder.queue('q').next({ leaseMs: 600_000 })

  await own.query(store, anHourAhead)

  const living = 'select from holdfast.item where expires_at > holdfast.now_ms()'
  await until('its lease runs by the clock as it is', async () => (await own.query(store, living)).length > 0)
})

test('a process that opens the store just after a failover does not trust the new clock either [X6]', async () => {
  const store = own.newStore()
  const holder = await openHere(store, { agent: 'holder', background: false })
  await holder.queue('q').add('held')
  await holder.queue('q').next()

  // The server is on the first timeline: it has been promoted from the one before.
  await own.query(store, 'update holdfast.timeline set timeline = 0')
  await own.query(store, anHourAhead)
  const first = await openHere(store, { agent: 'first', background: false })
  const second = await openHere(store, { agent: 'second', background: false })
  const claims = [await first.queue('q').next(), await second.queue('q').next()]
  await own.query(store, 'update holdfast.timeline set seen_at = seen_at - 10000')
  const late = await openHere(store, { agent: 'late', background: false })

  expect(claims).toMatchObject([{ outcome: 'empty' }, { outcome: 'empty' }])
  expect(await late.queue('q').next()).toMatchObject({ outcome: 'claimed' })
})

test('locks and path reservations are not taken from their holders by a clock in doubt either [X6]', async () => {
  const store = own.newStore()
  const holder = await openHere(store, { agent: 'holder', background: false })
  const rival = await openHere(store, { agent: 'rival', background: false })
  await holder.locks.acquireLock('deploy')
  await holder.locks.reserve(['src/**'])
  await holder.queue('merges').acquireProcessingLock()
  await rival.queue('other').add('by the clock as it was')

  await own.query(store, anHourAhead)
  const taken = [
    await rival.locks.acquireLock('deploy'),
    await rival.locks.reserve(['src/a.ts']),
    await rival.queue('merges').acquireProcessingLock(),
  ]

  expect(taken.map(({ outcome }) => outcome)).toEqual(['held', 'held', 'held'])
})

test('a process that starts just after the clock jumped takes nothing from a live holder [S5b-13]', async () => {
  const store = own.newStore()
  const holder = await openBeating(store)
  await holder.ask('add', { queue: 'q', payload: 'held' })
  const item = await claimBy(holder, 'q')
  // Or it would have renewed by the new clock before anybody else could look.
  holder.kill('SIGSTOP')

  await own.query(store, anHourAhead)
  const { logger, named } = collectLogs()
  const rival = await openHere(store, { agent: 'rival', logger })
  const claim = await rival.queue('q').next()
  holder.kill('SIGCONT')
  await until('its lease runs by the clock as it is', async () => (await own.query(store, living)).length > 0)

  expect(claim).toMatchObject({ outcome: 'empty' })
  expect(await rival.queue('q').get(item.id)).toMatchObject({ phase: 'held', token: item.token })
  // While the holder doubts the clock it does not vouch for it either.
  expect(await own.query(store, recentMark)).toEqual([])
  expect(named('clock.doubtful')).toHaveLength(1)
  expect(named('lease.reclaimed')).toEqual([])
})

test('the same holds behind a pooler, where sessions show nothing [S5b-13]', async () => {
  const store = own.newStore()
  const pooler = await Pooler.open(own.server, 2)
  closeAfterHandles(() => pooler.close())
  const holder = await openBeating(`${pooler.through(store)}&wake=off&prepare=false`)
  await holder.ask('add', { queue: 'q', payload: 'held' })
  await claimBy(holder, 'q')
  holder.kill('SIGSTOP')

  await own.query(store, anHourAhead)
  const rival = await openHere(store, { agent: 'rival', background: false, recovery: { onOpen: false } })

  expect(await rival.queue('q').next()).toMatchObject({ outcome: 'empty' })
})

test('a clock that was set back is not trusted either: a mark in the future does not count [S5b-13]', async () => {
  const store = own.newStore()
  const holder = await openBeating(store)
  holder.kill('SIGSTOP')
  const hf = await openHere(store, { agent: 'test', background: false })
  await hf.queue('q').add('lapsed')
  await hf.queue('q').next({ leaseMs: 0 })

  await own.query(store, moveMark, [3_600_000])
  const rival = await openHere(store, { agent: 'rival', background: false, recovery: { onOpen: false } })

  expect(await rival.queue('q').next()).toMatchObject({ outcome: 'empty' })
})

test('short-lived processes can take lapsed work of a frozen one 10 s after the first of them looked [S5b-13]', async () => {
  const store = own.newStore()
  const frozen = await openBeating(store)
  frozen.kill('SIGSTOP')
  const hf = await openHere(store, { agent: 'test', background: false })
  await hf.queue('q').add('lapsed')
  await hf.queue('q').next({ leaseMs: 0 })
  await own.query(store, moveMark, [-3_600_000])

  const claims: unknown[] = []
  for (const agent of ['first', 'second']) {
    const once = await openHere(store, { agent, background: false, recovery: { onOpen: false } })
    claims.push(await once.queue('q').next())
    await once.close()
  }
  await own.query(store, tenSecondsLater)
  const late = await openHere(store, { agent: 'late', background: false, recovery: { onOpen: false } })

  expect(claims).toMatchObject([{ outcome: 'empty' }, { outcome: 'empty' }])
  expect(await late.queue('q').next()).toMatchObject({ outcome: 'claimed' })
})

test('healing at open waits until a running process has checked the clock [S5b-13]', async () => {
  const store = own.newStore()
  const frozen = await openBeating(store)
  frozen.kill('SIGSTOP')
  const hf = await openHere(store, { agent: 'test', background: false })
  await hf.locks.acquireLock('deploy', { leaseMs: 0 })
  await own.query(store, moveMark, [-3_600_000])

  const { logger, named } = collectLogs()
  const opening = openHere(store, { agent: 'late', background: false, logger })
  await until('it has found the clock unchecked', async () => (await own.query(store, waiting)).length > 0)
  await own.query(store, checkNow)
  await opening

  expect(named('lease.reclaimed')).toHaveLength(1)
})

test('a lone process takes lapsed work at once, however long ago the clock was checked [S5b-13]', async () => {
  const store = own.newStore()
  // Of another machine: here its death would be proven.
  const holder = await openBeating(store, { identity: { bootId: 'elsewhere' } })
  await holder.ask('add', { queue: 'q', payload: 'lapsed' })
  await claimBy(holder, 'q', { leaseMs: 1000 })
  holder.kill()
  await own.query(store, moveMark, [-3_600_000])
  await until('the server has seen it go', async () => (await own.query(store, beating)).length === 0)
  await until('nobody can be about to come back', async () => (await own.query(store, isNew)).length === 0)
  await until('its lease has lapsed', async () => (await own.query(store, living)).length === 0)

  const alone = await openHere(store, { agent: 'alone', background: false })

  expect(await alone.queue('q').next()).toMatchObject({ outcome: 'claimed' })
})

/** A process that has checked the clock at least once. */
async function openBeating(store: string, options: Parameters<typeof openActor>[1] = {}): Promise<Actor> {
  const actor = await openActor(store, { agent: 'beating', ...options })
  await until('it has checked the clock', async () => (await own.query(store, checked)).length > 0)
  return actor
}

const living = 'select from holdfast.item where expires_at > holdfast.now_ms()'
const checked = "select from holdfast.meta where key = 'clock_checked_at' and value <> '0'"
const recentMark =
  "select from holdfast.meta where key = 'clock_checked_at' and value::bigint > holdfast.now_ms() - 3000000"
const waiting = "select from holdfast.meta where key = 'clock_unchecked'"
const isNew = "select where clock_timestamp() < pg_postmaster_start_time() + interval '10 s'"
const beating = "select from pg_stat_activity where application_name = 'holdfast'"
const moveMark = `update holdfast.meta set value = (value::bigint + $1)::text where key = 'clock_checked_at'`
const checkNow = "update holdfast.meta set value = holdfast.now_ms()::text where key = 'clock_checked_at'"
const tenSecondsLater = `update holdfast.meta
  set value = split_part(value, ' ', 1) || ' ' || (split_part(value, ' ', 2)::bigint - 10000)
  where key = 'clock_unchecked'`

const anHourAhead = `create or replace function holdfast.now_ms() returns bigint language sql volatile as
  $$ select floor(extract(epoch from clock_timestamp()) * 1000)::bigint + 3600000 $$`

test('a clock mark that is not a number blocks nothing, and is replaced [S5e-6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const mark = async () => {
    const [row] = await own.query<{ value: string }>(
      store,
      "select value from holdfast.meta where key = 'clock_checked_at'",
    )
    return row?.value ?? ''
  }
  await until('there is a mark', async () => /^\d+$/.test(await mark()))
  await own.query(store, "update holdfast.meta set value = 'late' where key = 'clock_checked_at'")

  await until('it is replaced', async () => {
    await hf.state('document').get()
    return /^\d+$/.test(await mark())
  })

  await expect(openHere(store, { background: false })).resolves.toBeDefined()
})
