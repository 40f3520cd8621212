/** The clock of the server decides on leases: whoever has a reason to doubt it takes nothing from anybody. */
import { expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { ownServer } from './server-store.ts'
import { openHere, until } from './support.ts'

const own = ownServer()

test('a clock that was moved is doubted by the very claim that sees it first [X6]', async () => {
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

test('a holder renews at once what a clock that was moved would end, long before it is due [X6]', async () => {
  const store = own.newStore()
  const holder = await openHere(store, { agent: 'holder' })
  await holder.queue('q').add('held')
  await holder.queue('q').next({ leaseMs: 600_000 })

  await own.query(store, anHourAhead)

  const living = 'select from holdfast.item where expires_at > holdfast.now_ms()'
  await until('its lease runs by the clock as it is', async () => (await own.query(store, living)).length > 0)
})

test('a process that opens the store just after a failover does not judge by the new clock either [X6]', async () => {
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

test('locks and reserved paths are not taken from their holders by a clock in doubt either [X6]', async () => {
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

const anHourAhead = `create or replace function holdfast.now_ms() returns bigint language sql volatile as
  $$ select floor(extract(epoch from clock_timestamp()) * 1000)::bigint + 3600000 $$`
