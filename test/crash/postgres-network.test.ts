/** Between a process and its server: latency, stalls, a pooler. `npm run test:network` runs for longer. */
import { expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { refusal } from '../support/outcomes.ts'
import { Pooler } from '../support/pooler.ts'
import type { TcpProxy } from '../support/proxy.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { ownServer } from './server-store.ts'
import { Site } from './site.ts'
import { claimBy, closeAfterHandles, openActor, openHere, print, quantile, until } from './support.ts'

const own = ownServer()

/** More than the 10 s after which a lease is renewed. */
const seconds = Number(process.env.HOLDFAST_TEST_NETWORK_SECONDS ?? 11)
/** A round trip of 150 ms. */
const delayMs = 75
const stallMs = 2000
const stallEveryMs = 4000

test(`150 ms away, with stalls of 2 s for ${seconds} s, nothing is lost on default leases [X6]`, {
  timeout: (seconds + 60) * 1000,
}, async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const { logger, named } = collectLogs()
  const [far, holder, load] = await Promise.all([
    openHere(proxy.through(store), { agent: 'far', logger }),
    openActor(proxy.through(store), { agent: 'holder' }),
    openLoad(proxy.through(store), 'load'),
  ])
  proxy.delayMs = delayMs
  await hf.queue('held').add('work')
  const item = await claimBy(holder, 'held')
  const rival = hf.work('held', () => {})

  const startedAt = performance.now()
  const stop = stallAgainAndAgain(proxy)
  while (performance.now() - startedAt < seconds * 1000) {
    await far.queue('far').add('work')
    await goesOn([load])
  }
  stop()
  // Without a renewal on the way there would have been nothing to lose.
  await until('its lease was renewed', async () => {
    const { lease } = (await hf.queue('held').get(item.id)) ?? {}
    return (lease?.renewedAt ?? 0) > (lease?.grantedAt ?? 0)
  })
  await holder.ask('complete', { queue: 'held', item: item.id })
  await rival.stop()

  expect(holder.all('aborted').filter((told) => told.item === item.id)).toEqual([])
  expect(named('clock.doubtful')).toEqual([])
  expect(named('lease.reclaimed')).toEqual([])
  await expectAcknowledgedOnce(hf, [load], own.server)
})

if (seconds >= 60)
  test('processes leave a silent region for the promoted one, 150 ms away, even when it is back [X6]', async () => {
    const site = await Site.create()
    const hf = await openHere(site.store)
    const loads = await Promise.all(['left', 'right'].map((name) => openLoad(site.store, name)))
    await site.addStandby({ delayMs })
    await goesOn(loads)

    const silentAt = performance.now()
    site.silencePrimary()
    await site.promote()
    await goesOn(loads)
    print(`away for ${Math.round(performance.now() - silentAt)} ms`)
    site.mend()
    await goesOn(loads)

    expect(hf.status.server?.timeline).toBe(2)
    await expectAcknowledgedOnce(hf, loads, site.primary)
  })

test('behind a pooler that gives each transaction another session, every acknowledged change is there exactly once [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const pooler = await openPooler(2)
  const pooled = `${pooler.through(store)}&wake=off&prepare=false`

  const loads = await Promise.all(['left', 'right'].map((name) => openLoad(pooled, name)))
  await goesOn(loads)
  await goesOn(loads)
  await expectAcknowledgedOnce(hf, loads, own.server)

  print(`sessions changed hands ${pooler.switches} times`)
  expect(pooler.switches).toBeGreaterThan(10)
})

test('an undeclared pooler is refused with what to add to the URL [X6]', async () => {
  const store = own.newStore()
  const pooler = await openPooler(2)

  const error = await refusal(async () => {
    const hf = await openHere(pooler.through(store), { background: false })
    for (let round = 0; round < 3; round++) await hf.queue('q').add({ round })
  })

  expect(error).toMatchObject({ code: 'STORE_UNFIT' })
  expect(error.message).toContain('wake=off&prepare=false')
})

test('behind a pooler a worker that listens at a direct URL picks up a new item at once [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const pooler = await openPooler(2)
  const worker = await openActor(`${pooler.through(store)}&prepare=false&wake=${encodeURIComponent(store)}`)
  // Polling alone would take half of this on average.
  await worker.ask('work', { queue: 'q', each: true, pollEveryMs: 20_000 })
  const delays: number[] = []

  for (let round = 0; round < 5; round++) {
    const addedAt = performance.now()
    const { item } = await hf.queue('q').add({ round })
    const { at } = await worker.told('handling', (told) => told.item === item.id)
    delays.push(at - addedAt)
    await until('it is idle again', async () => (await hf.queue('q').get(item.id))?.phase === 'closed')
  }

  print(`from add to handler: ${delays.map(Math.round).join(', ')} ms`)
  expect(quantile(delays, 0.5)).toBeLessThan(2000)
})

test('a store that listens at a direct URL closes even if that has fallen silent [X6]', async () => {
  const store = own.newStore()
  const pooler = await openPooler(2)
  const proxy = await own.openProxy()
  const direct = encodeURIComponent(proxy.through(store))
  const hf = await openHere(`${pooler.through(store)}&prepare=false&wake=${direct}`, { background: false })
  await until('it listens', async () => (await own.query(store, listening)).length > 0)

  proxy.stall()
  await hf.close()
  proxy.mend()

  await until('nothing is connected', () => proxy.connections === 0)
})

const listening = "select from pg_stat_activity where state = 'idle' and query like 'listen %'"

/** From now on; the returned function ends it. */
function stallAgainAndAgain(proxy: TcpProxy): () => void {
  const stall = () => {
    proxy.stall()
    setTimeout(() => proxy.mend(), stallMs)
  }
  stall()
  const stalling = setInterval(stall, stallEveryMs)
  return () => {
    clearInterval(stalling)
    proxy.mend()
  }
}

async function openPooler(connections: number): Promise<Pooler> {
  const pooler = await Pooler.open(own.server, connections)
  closeAfterHandles(() => pooler.close())
  return pooler
}
