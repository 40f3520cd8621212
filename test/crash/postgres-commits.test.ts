/** Commits whose answer is lost, and transactions that are never ended: each is settled once. */
import type { Event, Holdfast } from 'holdfast'
import type { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import type { CommitFault } from '../support/proxy.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { ownServer, schemaOf, wholeAudit } from './server-store.ts'
import {
  type Actor,
  audit,
  auditUntil,
  claimBy,
  expectCompletedOnce,
  numbered,
  often,
  openActor,
  openHere,
  print,
  until,
} from './support.ts'

const own = ownServer()

/** What is asked when the fault happens, what it must answer, and the one event it must leave. */
const calls: Record<string, { act(hf: Holdfast): Promise<unknown>; answer: unknown; event: string }> = {
  add: {
    act: (hf) => hf.queue('q').add('work'),
    answer: { item: { payload: 'work' } },
    event: 'item.created',
  },
  next: {
    act: (hf) => hf.queue('q').next(),
    answer: { outcome: 'claimed', item: { payload: { number: 0 } } },
    event: 'item.claimed',
  },
  acquireLock: {
    act: (hf) => hf.locks.acquireLock('l'),
    answer: { outcome: 'acquired' },
    event: 'lock.acquired',
  },
  set: {
    act: (hf) => hf.state('document').set('new', { expectedVersion: 1 }),
    answer: { version: 2 },
    event: 'state.set',
  },
}

describe.each(Object.entries(calls))('%s', (_name, { act, answer, event }) => {
  test.each<[CommitFault, string]>([
    ['lost', 'that never reached the server'],
    ['answer lost', 'whose answer was lost'],
    ['late', 'that the server got while it was asked about it'],
  ])('a commit (%s) %s is settled exactly once [X6]', async (fault) => {
    const store = own.newStore()
    const direct = await openHere(store, { background: false })
    await direct.queue('q').addMany(numbered(3))
    await direct.state('document').set('old')
    const proxy = await own.openProxy()
    // In this thread and with nothing in the background: the next commit is the one that is asked for here.
    const hf = await openHere(proxy.through(store), { agent: 'tester', background: false })

    const happened = proxy.breakCommit(fault)
    const answered = act(hf)
    await happened
    if (fault === 'late') {
      await until('somebody waits for the old transaction', () => isWaitedFor(store))
      proxy.deliver()
    }

    expect(await answered).toMatchObject(answer as object)
    const events = await wholeAudit(direct, own.server)
    expect(events.filter(({ agent }) => agent === 'tester').map(({ kind }) => kind)).toEqual([event])
  })
})

test('a commit whose row in the store is gone is reported as in doubt, and not repeated [S5b-11]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const direct = await openHere(store, { background: false })
  const hf = await openHere(proxy.through(store), { agent: 'tester', background: false })
  // As if another process took the row for an old one: it is gone when the commit is made.
  await own.query(
    store,
    `create function holdfast.lose() returns trigger language plpgsql as
      $$ begin delete from holdfast.lane where id = new.id; return null; end $$;
    create constraint trigger lost after insert or update on holdfast.lane deferrable initially deferred
      for each row execute function holdfast.lose()`,
  )

  const happened = proxy.breakCommit('answer lost')
  const error = await refusal(() => hf.queue('q').add('work'))
  await happened

  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
  expect((await direct.queue('q').list()).items).toHaveLength(1)
})

test('closing removes the rows of ended processes, never of live ones, whatever the clock says [S5b-11]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  await hf.queue('q').add('work')
  const victim = await openActor(store, { agent: 'victim' })
  await claimBy(victim, 'q')
  const lanesOf = (agent: string) =>
    own.query(
      store,
      'select from holdfast.lane l join holdfast.instance i on i.namespace = l.namespace and i.id = l.instance where i.agent = $1',
      [agent],
    )
  const before = { living: (await lanesOf('test')).length, victim: (await lanesOf('victim')).length }
  await own.query(store, 'update holdfast.lane set at = at - 40 * 86400000::bigint')

  victim.kill('SIGKILL')
  await until('it is known to be dead', async () => {
    const ended = await own.query(
      store,
      "select from holdfast.instance where agent = 'victim' and ended_at is not null",
    )
    return ended.length > 0
  })
  const leaver = await openHere(store, { agent: 'leaver', background: false })
  await leaver.close()

  expect(before.living).toBeGreaterThan(0)
  expect(before.victim).toBeGreaterThan(0)
  expect(await lanesOf('test')).toHaveLength(before.living)
  expect(await lanesOf('victim')).toEqual([])
})

test('under load with every twentieth commit broken, every acknowledged change is there exactly once [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store)
  const faults: CommitFault[] = ['lost', 'answer lost', 'late']
  const broken: CommitFault[] = []
  let commits = 0
  const loads = await Promise.all(['left', 'right'].map((name) => openLoad(proxy.through(store), name)))
  await goesOn(loads)

  proxy.breakCommits(() => {
    if (++commits % 20 !== 0) return null
    const fault = faults[broken.length % faults.length] as CommitFault
    broken.push(fault)
    return fault
  })
  const enough = often({ few: 12, many: 30 })
  await until(`${enough} commits were broken`, () => broken.length >= enough)
  proxy.breakCommits(null)
  await goesOn(loads)

  print(`${broken.length} of ${commits} commits broken`)
  await expectAcknowledgedOnce(hf, loads, own.server)
})

test('a holder frozen inside a transaction blocks others only as long as the server allows [X6] [EP-001]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const queue = hf.queue('q')
  const [finisher, taker] = await Promise.all([openFrozen(store), openFrozen(store)])
  await queue.addMany(numbered(2))
  const item = await claimBy(finisher, 'q', { leaseMs: 1000 })

  const completion = await freezeAt(finisher, 'complete', { queue: 'q', item: item.id })
  const acquisition = await freezeAt(taker, 'call', { noun: 'locks', method: 'acquireLock', args: ['l'] })
  const frozenAt = performance.now()
  const other = await queue.next()
  const otherAfterMs = performance.now() - frozenAt
  const lock = await hf.locks.acquireLock('l')
  const lockAfterMs = performance.now() - frozenAt
  await until('the item is another’s', async () => (await queue.next()).outcome === 'claimed')
  const itemAfterMs = performance.now() - frozenAt
  await queue.complete(item.id)
  finisher.kill('SIGCONT')
  taker.kill('SIGCONT')

  print(
    `another item after ${Math.round(otherAfterMs)} ms, the lock after ${Math.round(lockAfterMs)} ms, the item itself after ${Math.round(itemAfterMs)} ms`,
  )
  expect(other).toMatchObject({ outcome: 'claimed', item: { payload: { number: 1 } } })
  expect(otherAfterMs).toBeLessThan(2000)
  expect(lock).toMatchObject({ outcome: 'acquired' })
  expect(await completion()).toMatchObject({ error: { code: 'LEASE_LOST' } })
  expect(await acquisition()).toMatchObject({ result: { outcome: 'held', holder: 'test' } })
  const events = (await wholeAudit(hf, own.server)).filter(({ id }) => id === item.id)
  expectCompletedOnce(events, [item.id])
  expect(events.at(-1)).toMatchObject({ kind: 'item.completed', agent: 'test' })
})

test.each(['repeatable read', 'serializable'])(
  'an acknowledged pause stops a claim that waited for it, even if transactions are %s by default [X6]',
  async (isolation) => {
    const store = own.newStore()
    await own.query(store, `alter database postgres set default_transaction_isolation = '${isolation}'`)
    onTestFinished(async () => {
      await own.query(store, 'alter database postgres reset default_transaction_isolation')
    })
    const [pauser, claimer] = [
      await openHere(store, { background: false }),
      await openHere(store, { background: false }),
    ]
    await pauser.queue('q').add('work')
    await claimer.queue('other').add('work')
    const other = await own.connect()
    await other.query('begin isolation level read committed')
    await other.query(`select from ${schemaOf(store)}.queue where name = 'q' for update`)

    const pause = pauser.queue('q').pause()
    await until('the pause is under way', async () => (await countWaiting(store)) === 1)
    const claim = claimer.queue('q').next()
    await until('the claim waits for it', async () => (await countWaiting(store)) === 2)
    await other.query('commit')

    expect(await pause).toBe(true)
    expect(await claim).toMatchObject({ outcome: 'paused' })
  },
)

async function countWaiting(store: string): Promise<number> {
  const waiting = `select from pg_stat_activity where application_name = 'holdfast' and wait_event_type = 'Lock'`
  return (await own.query(store, waiting)).length
}

test('a reader of the feed waits for a transaction that may still add to what it has read [X6] [Q25]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  const { seq } = (await wholeAudit(hf, own.server)).at(-1) ?? { seq: 0 }
  const [early, late] = [await own.connect(), await own.connect()]
  const record = (client: Client, id: string) => client.query(recordEvent(schemaOf(store)), [id])

  await early.query('begin')
  await record(early, 'first')
  await late.query('begin')
  await record(late, 'second')
  await hf.queue('q').add('third')
  await late.query('commit')
  const before = await feedSince(hf, seq)
  await early.query('commit')
  const after = await auditUntil(hf, 'all are told', (events) => events.length >= 4)

  expect(before).toEqual([])
  expect(
    after.filter((event) => event.seq > seq).map(({ kind, id }) => (kind === 'state.set' ? id : kind)),
  ).toEqual(['first', 'second', 'queue.created', 'item.created'])
})

test('with many writers, a reader sees each event once, and the versions of each thing in order [X6] [Q25]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const stopped = new AbortController()
  const seen: Event[] = []
  const reading = (async () => {
    for await (const event of hf.events({ signal: stopped.signal })) seen.push(event)
  })()
  const loads = await Promise.all(['left', 'middle', 'right'].map((name) => openLoad(store, name)))

  await until('much has happened', () => seen.length > 1000)
  await expectAcknowledgedOnce(hf, loads, own.server)
  const all = await own.query<{ seq: string }>(store, 'select seq from holdfast.event order by seq')
  await until('the reader has read on', () => seen.length >= all.length)
  stopped.abort()
  await reading

  expect(seen.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => Number(seq)))
  expect(versionsOutOfOrder(seen)).toEqual([])
})

test('event numbers of a new store begin at 1, however many transactions its server has seen [S5c-23]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  await hf.queue('q').add('work')

  const [last] = (await audit(hf)).slice(-1)
  const [server] = await own.query<{ next: string }>(store, 'select pg_current_xact_id()::text as next')

  // Some hundred were used to make the server.
  expect(Math.floor((last?.seq ?? 0) / 8192)).toBeLessThan(100)
  expect(Number(server?.next)).toBeGreaterThan(500)
})

test('a store whose event numbers are used up is refused with the reason, and no unreadable number is written [S5c-23]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { background: false })
  await hf.queue('q').add('before')
  const later = `update holdfast.meta set value = $1 where key = 'event_base'`
  await own.query(store, later, [2 ** 40 - 2 ** 31])

  const refused = await refusal(() => openHere(store, { background: false }))
  const readable = await hf.queue('q').add('readable')
  await own.query(store, later, [2 ** 40])
  const unreadable = await refusal(() => hf.queue('q').add('unreadable'))

  expect(refused).toMatchObject({ code: 'STORE_UNFIT', message: expect.stringContaining('another schema') })
  expect((await audit(hf)).at(-1)).toMatchObject({ id: readable.item.id })
  expect(unreadable).toMatchObject({ facts: { sqlState: '23514' } })
  expect((await hf.queue('q').list()).items).toHaveLength(2)
})

/** A process that can be frozen inside a transaction: it runs its batches where the test can stop them. */
function openFrozen(store: string): Promise<Actor> {
  return openActor(store, { agent: 'frozen', background: false })
}

/** Gives the order and waits until the process has stopped in the middle of its transaction; answers how it ended. */
async function freezeAt(actor: Actor, order: string, facts: object) {
  await actor.ask('set', { point: 'transaction.begun', signal: 'SIGSTOP' })
  const answered = actor.order(order, facts)
  // It comes after the thaw; until then nobody waits for it.
  answered.catch(() => {})
  await actor.told('trapped')
  return () => answered
}

function recordEvent(schema: string): string {
  return `insert into ${schema}.event (namespace, seq, at, kind, subject, id)
    values ('default', (pg_current_xact_id()::text::bigint + ${schema}.event_base()) * 8192, 0, 'state.set', 'state', $1)`
}

async function feedSince(hf: Holdfast, since: number): Promise<Event[]> {
  return (await audit(hf)).filter(({ seq }) => seq > since)
}

/** Things of which an event came before an older one. */
function versionsOutOfOrder(events: readonly Event[]): string[] {
  const last = new Map<string, number>()
  const wrong: string[] = []
  for (const { subject, id, version } of events) {
    if (version === null) continue
    const thing = `${subject} ${id}`
    if (version <= (last.get(thing) ?? 0)) wrong.push(`${thing}: ${version} after ${last.get(thing)}`)
    last.set(thing, version)
  }
  return wrong
}

async function isWaitedFor(store: string): Promise<boolean> {
  const sql = `select 1 from pg_stat_activity where application_name = 'holdfast' and wait_event_type = 'Lock'`
  return (await own.query(store, sql)).length > 0
}
