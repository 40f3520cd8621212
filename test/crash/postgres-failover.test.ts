/** A primary that dies under load and a synchronous standby that takes its place. `npm run test:failover` has more rounds. */
import { afterAll, expect, test } from 'vitest'
import { TcpProxy } from '../support/proxy.ts'
import { Server } from '../support/server.ts'
import { leaveGround } from '../support/server-ground.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { queryStore } from './server-store.ts'
import { type Actor, closeAfterHandles, openHere, print, until } from './support.ts'

const rounds = Number(process.env.HOLDFAST_TEST_FAILOVERS ?? 3)
const secondsEach = 60

afterAll(() => leaveGround())

test(`${rounds} times a primary is killed under load and its standby promoted: nothing acknowledged is lost or there twice [X6]`, {
  timeout: (rounds + 1) * secondsEach * 1000,
}, async () => {
  const site = await Site.create()
  const hf = await openHere(site.store)
  const loads = await Promise.all(['left', 'middle', 'right'].map((name) => openLoad(site.store, name)))
  const outages: number[] = []

  for (let round = 1; round <= rounds; round++) {
    await site.addStandby()
    await goesOn(loads)
    // Hardest where the former primary is the first in the list, which it is every other time.
    outages.push(round % 4 === 1 ? await failOverUnseen(site, loads) : await failOver(site, loads))
    await expectFormerPrimaryAlone(site, loads)
    await site.removeFormer()
  }

  print(`away for ${outages.map(Math.round).join(', ')} ms`)
  expect(hf.status.server?.timeline).toBe(rounds + 1)
  expect(await timelinesOf(site)).toEqual(Array.from({ length: rounds + 1 }, (_, index) => index + 1))
  await expectAcknowledgedOnce(hf, loads, site.primary)
})

/** Killed, the standby promoted; the former primary comes back later. */
async function failOver(site: Site, loads: readonly Actor[]): Promise<number> {
  const killedAt = performance.now()
  await site.primary.kill()
  await site.promote()
  await goesOn(loads)
  const awayMs = performance.now() - killedAt
  await site.former.start()
  return awayMs
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

/** It stands first in the list and takes connections, but everybody goes past it, also who opens the store anew. */
async function expectFormerPrimaryAlone(site: Site, loads: readonly Actor[]): Promise<void> {
  const before = await lastEventOf(site.former, site.store)
  await queryStore(site.primary, site.store, endBackends)
  await goesOn(loads)
  const late = await openHere(site.store, { agent: 'late', background: false })
  await late.queue('late').add('work')
  expect(late.status.server?.timeline).toBe(await timelineOf(site.primary))
  expect(await timelineOf(site.former)).toBeLessThan(await timelineOf(site.primary))
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

async function timelineOf(server: Server): Promise<number> {
  const sql = 'select timeline_id as timeline from pg_control_checkpoint()'
  return server.query(async (client) => {
    await client.query('checkpoint')
    return (await client.query<{ timeline: number }>(sql)).rows[0]?.timeline ?? Number.NaN
  })
}

async function timelinesOf({ primary, store }: Site): Promise<number[]> {
  const sql = 'select timeline from holdfast.timeline order by timeline'
  return (await queryStore<{ timeline: number }>(primary, store, sql)).map(({ timeline }) => timeline)
}

/** Two places, of which the URL names both; one has the primary, the other a standby, or the primary of before. */
class Site {
  readonly store: string
  readonly #places: readonly TcpProxy[]
  /** Which place the primary is at. */
  #at = 0
  #primary: Server
  #standby: Server | null = null
  #former: Server | null = null

  private constructor(primary: Server, places: readonly TcpProxy[]) {
    this.#primary = primary
    this.#places = places
    const hosts = places.map(({ port }) => `127.0.0.1:${port}`).join(',')
    this.store = `${primary.url.replace(`127.0.0.1:${primary.port}`, hosts)}?schema=failover`
  }

  static async create(): Promise<Site> {
    const primary = await Server.create('18')
    const places = [await TcpProxy.open(primary), await TcpProxy.open({ port: 1 })]
    closeAfterHandles(() => Promise.all(places.map((place) => place.close())))
    return new Site(primary, places)
  }

  get primary(): Server {
    return this.#primary
  }

  /** The primary before this one. */
  get former(): Server {
    if (this.#former === null) throw new Error('there was no failover yet')
    return this.#former
  }

  get #other(): TcpProxy {
    return this.#places[1 - this.#at] as TcpProxy
  }

  /** From now on the primary acknowledges nothing that the standby has not got. */
  async addStandby(): Promise<void> {
    const standby = await this.#primary.createStandby('standby')
    this.#standby = standby
    this.#other.leadTo(standby)
    await this.#primary.query(async (client) => {
      await client.query("alter system set synchronous_standby_names = 'standby'")
      await client.query('select pg_reload_conf()')
      await until('the standby is in step', async () => {
        const { rows } = await client.query("select 1 from pg_stat_replication where sync_state = 'sync'")
        return rows.length === 1
      })
    })
  }

  async promote(): Promise<void> {
    if (this.#standby === null) throw new Error('there is no standby')
    await this.#standby.promote()
    this.#former = this.#primary
    this.#primary = this.#standby
    this.#standby = null
    this.#at = 1 - this.#at
  }

  /** Nobody sees any of the servers, until `mend`. */
  cut(): void {
    for (const place of this.#places) place.cut()
  }

  mend(): void {
    for (const place of this.#places) place.mend()
  }

  async removeFormer(): Promise<void> {
    await this.former.remove()
    this.#former = null
  }
}
