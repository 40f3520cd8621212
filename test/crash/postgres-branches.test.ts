/**
 * Branches of a server's history: standbys that were promoted apart from each other, with the same number or a lower
 * one, and what was committed on a branch that was thrown away.
 */
import type { Event, Holdfast, HoldfastError, OpenOptions } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { Pooler } from '../support/pooler.ts'
import { TcpProxy } from '../support/proxy.ts'
import { Server } from '../support/server.ts'
import { leaveGround } from '../support/server-ground.ts'
import { queryStore } from './server-store.ts'
import { closeAfterHandles, eventOf, openHere, until } from './support.ts'

/** Every test begins with copies of it, and puts it out of sight of its processes when it is to be gone. */
let origin: Server
let stores = 0

beforeAll(async () => {
  // What does not wait for the disk is not there for seconds.
  origin = await Server.createLight('18', { wal_writer_delay: '10s' })
})
afterAll(() => leaveGround())

test('a second branch with the same number is refused with a remedy, and followed after a minute if no other answers [S5b-14]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const hf = await openHere(site.store, { ...fast, logger })
  const [first, second] = await site.standbys(2)
  await site.failOverTo(first)
  await add(hf, 'on the first branch')
  await site.failOverTo(second)

  await untilRefused(hf, /timeline 2, but not on the branch .*; stop that server .* 60 s/)
  const late = await openHere(site.store, { agent: 'late', background: false })
  await late.queue('q').add('on the second branch')
  await add(hf, 'later')

  expect([await first.timeline(), await second.timeline()]).toEqual([2, 2])
  expect(named('store.branch_refused')).toMatchObject([{ level: 'warn', facts: { timeline: 2, known: 2 } }])
  expect(named('store.branch_adopted')).toMatchObject([{ level: 'error', facts: { timeline: 2, known: 2 } }])
  expect(await payloads(late)).toEqual(['on the second branch', 'later'])
  expect(await payloads(late, 'tried')).toEqual([])
})

test('a branch with a lower number is refused, and followed after a minute if no other answers [S5b-14]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const hf = await openHere(site.store, { ...fast, logger })
  const [first, other] = await site.standbys(2)
  await site.failOverTo(first)
  await add(hf, 'on the second timeline')
  await site.failOverTo(await first.createStandby('next'))
  await add(hf, 'on the third timeline')
  await site.failOverTo(other)

  await untilRefused(hf, /it is on timeline 2, .* on timeline 3/)
  await add(hf, 'later')

  expect(named('store.branch_adopted')).toMatchObject([{ level: 'error', facts: { timeline: 2, known: 3 } }])
  expect(hf.status.server?.timeline).toBe(2)
  expect(await payloads(hf)).toEqual(['later'])
  expect(await payloads(hf, 'tried')).toEqual([])
})

test('of two primaries with the same number, every process uses the one the store was used on [S5b-14]', async () => {
  const site = await openSite()
  const hf = await openHere(site.store, fast)
  const [first, second] = await site.standbys(2)
  await site.failOverTo(first)
  await add(hf, 'on the first branch')

  await second.promote()
  site.spare.leadTo(second)
  site.place.reset()
  await add(hf, 'still on the first branch')
  const late = await openHere(site.store, { agent: 'late', background: false })

  expect(await payloads(late)).toHaveLength(2)
  expect(await site.marksOn(second)).toHaveLength(1)
})

test('two processes that use two branches with the same number stop when they see both, until one is gone [S5b-14]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const left = await openHere(site.store, { ...fast, logger })
  const [first, second] = await site.standbys(2)
  await site.failOverTo(first)
  await add(left, 'on the first branch')
  await second.promote()
  const elsewhere = await TcpProxy.open(second)
  closeAfterHandles(() => elsewhere.close())
  const right = await openHere(site.at(site.spare, elsewhere), fast)
  await add(right, 'on the second branch')

  site.spare.leadTo(second)
  await untilRefused(left, undecided)
  const opening = openHere(site.store, { agent: 'late', background: false })
  await expect(opening).rejects.toThrow(undecided)
  elsewhere.leadTo(first)
  await untilRefused(right, undecided)
  site.spare.cut()
  await add(left, 'on the first branch again')
  await add(right, 'here too')

  expect(named('store.branch_refused')).toContainEqual(expect.objectContaining({ level: 'error' }))
  expect(await payloads(left)).toEqual(['on the first branch', 'on the first branch again', 'here too'])
})

test('a promoted standby is found while the connection to its former primary still works [S5b-14]', async () => {
  const site = await openSite()
  const hf = await openHere(site.store, fast)
  await add(hf, 'before')
  const [standby] = await site.standbys(1)
  await standby.promote()
  site.spare.leadTo(standby)

  await until('it has changed sides', () => hf.status.server?.timeline === 2)
  await add(hf, 'after')

  expect(await payloads(hf)).toEqual(['before', 'after'])
})

test('behind a pooler a new branch is noticed by the next transaction [S5b-14]', async () => {
  const site = await openSite()
  const pooler = await Pooler.open(origin, 3)
  closeAfterHandles(() => pooler.close())
  const url = `${pooler.through(site.storeOn(origin))}&wake=off&prepare=false`
  const hf = await openHere(url, { background: false })
  await hf.queue('q').add('before')
  const [standby] = await site.standbys(1)
  await standby.promote()

  await pooler.leadTo(standby)
  await hf.queue('q').add('after')

  expect(hf.status.server?.timeline).toBe(2)
  expect(await site.marksOn(standby)).toHaveLength(2)
})

test('a live reader sees every event of the branch it ends up on, whatever it saw of a lost one [S5b-8]', async () => {
  const site = await openSite()
  const hf = await openHere(site.store, fast)
  await hf.queue('q').add('before')
  const [first, second] = await site.standbys(2)
  const reader = readLive(hf)
  await site.failOverTo(first)
  for (let number = 0; number < 30; number++) await add(hf, `lost ${number}`)
  await reader.sees('lost 29')
  await site.failOverTo(second)
  for (let number = 0; number < 10; number++) await add(hf, `kept ${number}`)

  await reader.sees('kept 9')

  expect(reader.payloads.filter((payload) => payload.startsWith('kept'))).toHaveLength(10)
  expect(reader.seqs).toEqual(reader.seqs.toSorted((left, right) => left - right))
})

test('a live reader sees what is written after an asynchronous failover, however far the standby was behind [S5b-8]', async () => {
  const site = await openSite()
  await (await openHere(site.store, { background: false })).close()
  const { standby, cut } = await site.lagging()
  cut()
  // As if the server had seen so many transactions of which the standby knows nothing.
  const later = `update holdfast.meta set value = (value::bigint + 4000000)::text where key = 'event_base'`
  await queryStore(origin, site.store, later)
  const hf = await openHere(site.store, { background: false })
  const reader = readLive(hf)
  for (let number = 0; number < 10; number++) await hf.queue('q').add(`lost ${number}`)
  await reader.sees('lost 9')
  await site.failOverTo(standby)
  for (let number = 0; number < 10; number++) await hf.queue('q').add(`kept ${number}`)

  await reader.sees('kept 9')

  expect(reader.payloads.filter((payload) => payload.startsWith('kept'))).toHaveLength(10)
})

test('a live reader sees what others wrote on the branch it ends up on before it got there [S5b-8]', async () => {
  const site = await openSite()
  const hf = await openHere(site.store, fast)
  await hf.queue('q').add('before')
  const [first, second] = await site.standbys(2)
  const reader = readLive(hf)
  await site.failOverTo(first)
  for (let number = 0; number < 30; number++) await add(hf, `lost ${number}`)
  await reader.sees('lost 29')
  await site.failOverTo(second)
  const other = await openHere(site.store, { agent: 'other', background: false })
  for (let number = 0; number < 10; number++) await other.queue('q').add(`kept ${number}`)
  await add(hf, 'followed')

  await reader.sees('followed')

  expect(reader.payloads.filter((payload) => payload.startsWith('kept'))).toHaveLength(10)
  expect(reader.seqs).toEqual(reader.seqs.toSorted((left, right) => left - right))
})

test('acknowledged commits that a failover lost are reported, and leases unknown to the new primary are lost at once [S5b-15]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const hf = await openHere(site.store, { agent: 'ada', logger })
  await hf.queue('q').add('kept')
  const { standby, cut } = await site.lagging()
  cut()
  await hf.queue('q').add('lost')
  const claim = await hf.queue('q').next()
  if (claim.outcome !== 'claimed') throw new Error('there was nothing to claim')

  await site.failOverTo(standby)
  await until('its lease is lost', () => claim.lease.signal.aborted)
  const event = await eventOf(hf, 'the report', ({ kind }) => kind === 'store.commits_lost')
  const { findings } = await hf.fleet.doctor()

  expect(claim.lease.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
  expect(named('store.commits_lost')).toMatchObject([
    { level: 'error', facts: { timeline: 2, known: 1, durability: 'full' } },
  ])
  expect(event).toMatchObject({ subject: 'store', agent: 'ada', detail: { timeline: 2, known: 1 } })
  expect(findings).toContainEqual(expect.objectContaining({ check: 'commits', level: 'warning' }))
  expect(await payloads(hf)).toEqual(['kept'])
})

test('a failover that lost nothing is not reported as one that did [S5b-15]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const hf = await openHere(site.store, { logger, background: false })
  await hf.queue('q').add('kept')
  const { standby, inStep } = await site.lagging()
  await hf.queue('q').add('kept too')
  await inStep()

  await site.failOverTo(standby)
  await hf.queue('q').add('after')

  expect(await payloads(hf)).toHaveLength(3)
  expect(named('store.commits_lost')).toEqual([])
})

test('a commit in doubt on a lost branch is made on the remaining one [S5b-15]', async () => {
  const site = await openSite()
  await (await openHere(site.store, { background: false })).close()
  const [first, second] = await site.standbys(2)
  await site.failOverTo(first)
  await second.promote()
  const third = await second.createStandby('third')
  await third.promote()
  const hf = await openHere(site.store, { background: false })
  await hf.queue('q').add('lost')

  const broken = site.place.breakCommit('answer lost')
  const adding = hf.queue('q').add('made again')
  await broken
  site.place.leadTo(third)
  await adding

  expect(hf.status.server?.timeline).toBe(3)
  expect(await payloads(hf)).toEqual(['made again'])
})

test('commits that a crash takes from a process with normal durability are reported as information, not an error [S5b-15]', async () => {
  const site = await openSite()
  const { logger, named } = collectLogs()
  const hf = await openHere(site.store, { logger, background: false, durability: 'normal' })
  await hf.queue('q').add('kept')
  await queryStore(origin, site.store, 'checkpoint')
  await hf.queue('q').add('lost')

  await origin.kill()
  await origin.start()
  await hf.queue('q').add('after')
  const { findings } = await hf.fleet.doctor()

  expect(await payloads(hf)).toEqual(['kept', 'after'])
  expect(named('store.commits_lost')).toMatchObject([
    { level: 'info', facts: { timeline: 1, known: 1, durability: 'normal' } },
  ])
  expect(findings).toContainEqual(expect.objectContaining({ check: 'commits', level: 'notice' }))
})

const undecided = /two servers are primaries on timeline 2, .*; stop the one/

/**
 * Its minutes are seconds: the clock by which it waits for servers runs faster. Not so fast that the minute for which it
 * refuses a branch is over before a busy machine has asked; and a call gives up after a second, to be made again.
 */
const speed = 15
const fast: OpenOptions = {
  background: false,
  patienceMs: speed * 1000,
  environment: {
    ...systemEnvironment,
    monotonic: () => systemEnvironment.monotonic() * speed,
    timer: (ms, run, keepsAlive) => systemEnvironment.timer(ms / speed, run, keepsAlive),
  },
}

interface BranchSite {
  readonly store: string
  /** Where the primary is, and a place beside it. */
  readonly place: TcpProxy
  readonly spare: TcpProxy
  standbys<Count extends 1 | 2>(count: Count): Promise<Count extends 1 ? [Server] : [Server, Server]>
  /** A standby whose changes can be held back. */
  lagging(): Promise<{ standby: Server; cut(): void; inStep(): Promise<void> }>
  /** Promoted, and in the place of whoever was there, which is seen by nobody any more. */
  failOverTo(standby: Server): Promise<void>
  /** The URL of the store at these places. */
  at(...places: readonly TcpProxy[]): string
  storeOn(server: Server): string
  marksOn(server: Server): Promise<readonly string[]>
}

async function openSite(): Promise<BranchSite> {
  const place = await TcpProxy.open(origin)
  const spare = await TcpProxy.open({ port: 1 })
  closeAfterHandles(() => Promise.all([place.close(), spare.close()]))
  const schema = `branches_${++stores}`
  const storeOn = (server: Server) => `${server.url}?schema=${schema}&allowUnsafeServer=true`
  const at = (...places: readonly TcpProxy[]) => {
    const hosts = places.map(({ port }) => `127.0.0.1:${port}`).join(',')
    return storeOn(origin).replace(`127.0.0.1:${origin.port}`, hosts)
  }
  const store = at(spare, place)
  return {
    store,
    at,
    place,
    spare,
    storeOn,
    async standbys(count) {
      const created: Server[] = []
      while (created.length < count) created.push(await origin.createStandby(`standby${created.length}`))
      return created as never
    },
    async lagging() {
      const link = await TcpProxy.open(origin)
      closeAfterHandles(() => link.close())
      const standby = await origin.createStandby('lagging', { through: link })
      const behind = `select 1 from pg_stat_replication
        where application_name = 'lagging' and replay_lsn >= pg_current_wal_lsn()`
      const inStep = () =>
        until('it is in step', async () => {
          const { rows } = await origin.query((client) => client.query(behind))
          return rows.length > 0
        })
      return { standby, cut: () => link.cut(), inStep }
    },
    async failOverTo(standby) {
      place.leadTo({ port: 1 })
      await standby.promote()
      place.leadTo(standby)
    },
    async marksOn(server) {
      const rows = await queryStore<{ mark: string }>(server, store, 'select mark from holdfast.timeline')
      return rows.map(({ mark }) => mark)
    },
  }
}

interface Reader {
  readonly payloads: readonly string[]
  readonly seqs: readonly number[]
  sees(payload: string): Promise<void>
}

/** Reads the feed for as long as the test takes. */
function readLive(hf: Holdfast): Reader {
  const over = new AbortController()
  const payloads: string[] = []
  const seqs: number[] = []
  const read = async () => {
    for (let since = 0; !over.signal.aborted; ) {
      const page = await hf.execute('events.list', { since }).catch(() => ({ events: [] }))
      for (const event of (page as { events: Event[] }).events) {
        since = event.seq
        seqs.push(event.seq)
        if (event.kind === 'item.created') payloads.push(JSON.parse(String(event.change?.payload)))
      }
      await new Promise((next) => setTimeout(next, 5))
    }
  }
  const reading = read()
  closeAfterHandles(async () => {
    over.abort()
    await reading
  })
  return {
    payloads,
    seqs,
    sees: (payload) => until(`"${payload}" is shown`, () => payloads.includes(payload)),
  }
}

/** Its patience is a second, and a server may be found or answer later than that: asked again, it is added once. */
async function add(hf: Holdfast, payload: string): Promise<void> {
  await until(`"${payload}" was added`, async () => (await tryToAdd(hf, 'q', payload)) === null)
}

/** With a connection that holds, it may go on for a minute of its own. */
async function untilRefused(hf: Holdfast, reason: RegExp): Promise<void> {
  await until(`it is refused for ${reason}`, async () =>
    reason.test((await tryToAdd(hf, 'tried', 'refused'))?.message ?? ''),
  )
}

async function tryToAdd(hf: Holdfast, queue: string, payload: string): Promise<HoldfastError | null> {
  const adding = hf.queue(queue).add(payload, { idempotencyKey: payload })
  const error = await adding.then(
    () => null,
    (error: HoldfastError) => error,
  )
  if (error !== null) expect(error.code).toBe('STORE_UNAVAILABLE')
  return error
}

async function payloads(hf: Holdfast, queue = 'q'): Promise<unknown[]> {
  const { items } = await hf.queue(queue).list()
  return items.map(({ payload }) => payload)
}
