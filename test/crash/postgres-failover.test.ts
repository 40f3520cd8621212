/** A primary that dies under load and a synchronous standby that takes its place. `npm run test:failover` has more rounds. */
import { afterAll, expect, test } from 'vitest'
import type { Server } from '../support/server.ts'
import { leaveGround } from '../support/server-ground.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { queryStore } from './server-store.ts'
import { Site } from './site.ts'
import { type Actor, audit, often, openHere, print, until } from './support.ts'

const rounds = Number(process.env.HOLDFAST_TEST_FAILOVERS ?? often({ few: 5, many: 10 }))
const secondsEach = 60
/** After so many of them the former primary comes back. */
const comebacks = 3
/** In this one the standby is in another region, 150 ms away. */
const farRound = 4

afterAll(() => leaveGround())

test(`${rounds} times a primary is killed under load and its standby promoted: nothing acknowledged is lost or duplicated [X6]`, {
  timeout: (rounds + 1) * secondsEach * 1000,
}, async () => {
  const creating = Site.create()
  const store = creating.then((created) => created.store)
  const loading = ['left', 'middle', 'right'].map((name) => openLoad(store, name))
  const [site, hf, ...loads] = await Promise.all([creating, store.then((url) => openHere(url)), ...loading])
  const outages: number[] = []

  for (let round = 1; round <= rounds; round++) {
    await site.addStandby({ delayMs: round === farRound ? 75 : 0 })
    await goesOn(loads)
    const isUnseen = round % 4 === 1
    outages.push(isUnseen ? await failOverUnseen(site, loads) : await failOver(site, loads))
    // Hardest where the former primary is the first in the list, which it is every other time.
    if (round <= comebacks) {
      if (!isUnseen) await site.former.start()
      await expectFormerPrimaryAlone(site, loads)
    }
    await site.removeFormer()
  }

  print(`away for ${outages.map(Math.round).join(', ')} ms`)
  // It has nothing to do but to listen, and may find the new primary a moment after those that work.
  await until('this process has followed too', () => hf.status.server?.timeline === rounds + 1)
  expect(await timelinesOf(site)).toEqual(Array.from({ length: rounds + 1 }, (_, index) => index + 1))
  await expectAcknowledgedOnce(hf, loads, site.primary)
  expect((await audit(hf)).filter(({ kind }) => kind === 'store.commits_lost')).toEqual([])
})

/** Killed, and the standby promoted. */
async function failOver(site: Site, loads: readonly Actor[]): Promise<number> {
  const killedAt = performance.now()
  await site.primary.kill()
  await site.promote()
  await goesOn(loads)
  return performance.now() - killedAt
}

/** Nobody can see the servers meanwhile: when they can, both are there, and both say that they are the primary. */
async function failOverUnseen(site: Site, loads: readonly Actor[]): Promise<number> {
  const cutAt = performance.now()
  site.cut()
  await site.primary.kill()
  await site.promote()
  await site.former.start()
  site.mend()
  await goesOn(loads)
  return performance.now() - cutAt
}

/** It is back and takes connections, but everybody goes past it, also who opens the store anew. */
async function expectFormerPrimaryAlone(site: Site, loads: readonly Actor[]): Promise<void> {
  const before = await lastEventOf(site.former, site.store)
  await queryStore(site.primary, site.store, endBackends)
  await goesOn(loads)
  const late = await openHere(site.store, { agent: 'late', background: false })
  await late.queue('late').add('work')
  const [primary, former] = [await site.primary.timeline(), await site.former.timeline()]
  expect(late.status.server?.timeline).toBe(primary)
  expect(former).toBeLessThan(primary)
  expect(await lastEventOf(site.former, site.store)).toBe(before)
  await late.close()
}

const endBackends = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'`

async function lastEventOf(server: Server, store: string): Promise<number> {
  const [last] = await queryStore<{ seq: string }>(
    server,
    store,
    'select max(seq) as seq from holdfast.event',
  )
  return Number(last?.seq)
}

async function timelinesOf({ primary, store }: Site): Promise<number[]> {
  const sql = 'select timeline from holdfast.timeline order by timeline'
  return (await queryStore<{ timeline: number }>(primary, store, sql)).map(({ timeline }) => timeline)
}
