/** Broken connections to PostgreSQL: nothing is taken from a live holder, and work resumes automatically. */
import type { Holdfast, Task } from 'holdfast'
import { systemEnvironment } from 'holdfast/testing'
import { expect, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { expectAcknowledgedOnce, goesOn, openLoad } from './load.ts'
import { ownServer, schemaOf, wholeAudit } from './server-store.ts'
import {
  type Actor,
  claimBy,
  isRenewed,
  openActor,
  openHere,
  print,
  reclaimOf,
  until,
  warmUp,
} from './support.ts'

/** Few connections, so that a test can take them all. */
const own = ownServer({ max_connections: 20 })
const leaseMs = 3000

const endBackends = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'`

test('a holder keeps its item when its connections are reset and its backends ended [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const { holder, item, rival } = await holdAgainstRival(hf, proxy.through(store), leaseMs)

  for (let round = 0; round < 2; round++) {
    proxy.reset()
    expect(await isRenewed(hf, item)).toBe(true)
    await own.query(store, endBackends)
    expect(await isRenewed(hf, item)).toBe(true)
  }
  await holder.ask('complete', { queue: 'q', item: item.id })
  await rival.stop()

  await expectNeverTaken(hf, holder, item.id)
})

test('a holder keeps its item when the server crashes and starts again within the lease [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  // Longer than a loaded machine needs to start a server.
  const { holder, item, rival } = await holdAgainstRival(hf, store, 5 * leaseMs)

  await own.server.kill()
  const progress = holder.ask('progress', { queue: 'q', item: item.id, progress: 'half' })
  await own.server.start()
  await progress
  expect(await isRenewed(hf, item)).toBe(true)
  await holder.ask('complete', { queue: 'q', item: item.id })
  await rival.stop()

  await expectNeverTaken(hf, holder, item.id)
})

test('under load every acknowledged change is there exactly once, whatever ends the connections [X6]', async () => {
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

  await expectAcknowledgedOnce(hf, loads, own.server)
})

test('an item whose lease lapsed while the server was unreachable is not blamed [S5-1]', async () => {
  const store = own.newStore()
  const [healersWay, holdersWay] = await Promise.all([own.openProxy(), own.openProxy()])
  const healer = await openHere(healersWay.through(store), { recovery: { everyMs: 50 } })
  const holder = await openActor(holdersWay.through(store), { agent: 'cut off', leaseMs })
  await warmUp(healer, holder)
  await healer.queue('q').add('work')
  const item = await claimBy(holder, 'q')

  holdersWay.cut()
  healersWay.cut()
  await holder.told('aborted', (message) => message.item === item.id)
  // The healer asks several times a second; so long without an answer is an outage.
  await new Promise((resolve) => setTimeout(resolve, 4_000))
  healersWay.mend()
  const { detail } = await reclaimOf(healer, item.id)

  expect(detail).toMatchObject({ holder: 'cut off', blame: 'none' })
  expect(await healer.queue('q').get(item.id)).toMatchObject({ crashes: 0, exposures: 0 })
})

test('a client cut off past its lease gets its signal before the end, and its late completion is refused [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(store, { recovery: { everyMs: 50 } })
  const holder = await openActor(proxy.through(store), { agent: 'cut off', leaseMs })
  await warmUp(hf, holder)
  await hf.tasks.addTask('work')
  const { task } = await holder.ask<{ task: Task }>('call', { noun: 'tasks', method: 'claimNext', args: [] })

  proxy.cut()
  const { code } = await holder.told('aborted', ({ item }) => item === task.id)
  const leftMs = ((await hf.tasks.getLockStatus(task.id))?.lockUntil ?? 0) - Date.now()
  const heir = await takeOver(hf, task.id)
  proxy.mend()
  const late = holder.order('call', {
    noun: 'tasks',
    method: 'completeTask',
    args: [task.id, { token: task.token }],
  })
  const seen = await holder.ask('call', { noun: 'tasks', method: 'getLockStatus', args: [task.id] })

  print(`its signal fired ${leftMs} ms before its lease ended`)
  expect(code).toBe('LEASE_LOST')
  expect(leftMs).toBeGreaterThan(0)
  expect(heir.token).toBeGreaterThan(task.token)
  expect((await late).error).toMatchObject({ code: 'LEASE_LOST' })
  expect(seen).toMatchObject({ assignee: 'test', token: heir.token })
})

test('a server without free connections is STORE_UNAVAILABLE, and used again later [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  const taken = await takeAll()

  const error = await refusal(() => openHere(store, { agent: 'too many' }))
  const { item } = await hf.queue('q').add('meanwhile')
  await Promise.all(taken.map((client) => client.end()))
  await until('the server has seen them go', async () => (await countBackends(store)) <= 3)
  const other = await openHere(store, { agent: 'at last' })

  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
  expect(error.message).toContain('has no free connections')
  expect(await other.queue('q').get(item.id)).toMatchObject({ payload: 'meanwhile' })
})

test('a process that cannot reconnect gets an error in time, and recovers automatically [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false, environment: hurried })
  await hf.queue('q').add('before')

  proxy.cut()
  const taken = await takeAll()
  proxy.mend()
  const error = await refusal(() => hf.queue('q').add('meanwhile'))
  await Promise.all(taken.map((client) => client.end()))
  await hf.queue('q').add('afterwards')

  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true, facts: { inDoubt: false } })
  expect(error.message).toContain('too many clients')
  const { items } = await hf.queue<string>('q').list()
  expect(items.map(({ payload }) => payload)).toEqual(['before', 'afterwards'])
})

test('a server that does not sync to disk is refused, unless that is accepted, and then shown as such [X6] [X4]', async () => {
  const store = own.newStore()
  onTestFinished(() => setFsync('on'))
  await setFsync('off')

  const refused = await refusal(() => openHere(store))
  const hf = await openHere(`${store}&allowUnsafeServer=true`)
  const { durability, server } = hf.status
  const doctor = await hf.fleet.doctor()
  await setFsync('on')
  const again = await openHere(store)

  expect(refused).toMatchObject({ code: 'STORE_UNFIT', facts: { fsync: false } })
  expect({ durability, fsync: server?.fsync }).toEqual({ durability: 'normal', fsync: false })
  expect(doctor.healthy).toBe(false)
  expect(again.status).toMatchObject({ durability: 'full', server: { fsync: true } })
})

test('a change is in doubt if its server comes back as one that is refused [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false })
  await hf.queue('q').add('before')
  onTestFinished(() => setFsync('on'))
  await setFsync('off')

  const lost = proxy.breakCommit('answer lost')
  const error = await refusal(() => hf.queue('q').add('made'))
  await lost
  await setFsync('on')

  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
  expect((await hf.queue('q').list()).items).toHaveLength(2)
})

test('a role that may not log in gets the server’s own message [X6]', async () => {
  const store = own.newStore()
  await own.query(store, "create role barred nologin password 'secret'")

  const error = await refusal(() => openHere(store.replace('tester:', 'barred:')))

  expect(error).toMatchObject({ code: 'STORE_UNFIT' })
  expect(error.message).toContain('not permitted to log in')
})

test.each([
  ['off', 'full', 'on'],
  ['local', 'full', 'on'],
  ['remote_apply', 'full', 'remote_apply'],
  ['on', 'normal', 'off'],
] as const)(
  'with synchronous_commit %s, changes of durability %s are committed with %s [X6]',
  async (set, durability, expected) => {
    const store = own.newStore()
    await own.query(store, `alter database postgres set synchronous_commit = ${set}`)
    onTestFinished(async () => {
      await own.query(store, 'alter database postgres reset synchronous_commit')
    })
    const hf = await openHere(store, { durability })
    await own.query(store, watchCommits)

    await hf.queue('q').add('watched')

    expect(await own.query(store, 'select distinct setting from holdfast.seen')).toEqual([
      { setting: expected },
    ])
  },
)

test('a notification sent during a renewal does not make its commit less durable [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  await hf.queue('q').add('held')
  await hf.queue('q').next({ leaseMs })
  await own.query(store, watchCommits)
  const other = await own.connect()
  await other.query('begin')
  await other.query(`select from ${schemaOf(store)}.item for update`)
  await until('the renewal waits for the item', async () => {
    const waiting = `select from pg_stat_activity where application_name = 'holdfast' and wait_event_type = 'Lock'`
    return (await own.query(store, waiting)).length > 0
  })

  await hf.queue('other').add('wakes')
  await own.query(store, 'delete from holdfast.seen')
  await other.query('commit')
  const seen = 'select setting from holdfast.seen'
  await until('it is renewed', async () => (await own.query(store, seen)).length > 0)

  expect(await own.query(store, seen)).toEqual([{ setting: 'on' }])
})

/** Notes how each item is going to be committed. */
const watchCommits = `create table holdfast.seen (setting text);
create function holdfast.see() returns trigger language plpgsql as $$
begin
  insert into holdfast.seen values (current_setting('synchronous_commit'));
  return new;
end $$;
create trigger see after insert or update on holdfast.item for each row execute function holdfast.see()`

async function setFsync(value: 'on' | 'off'): Promise<void> {
  const client = await own.connect()
  await client.query(`alter system set fsync = ${value}`)
  await client.query('select pg_reload_conf()')
  await until(`fsync is ${value}`, async () => {
    const { rows } = await client.query<{ fsync: string }>('show fsync')
    return rows[0]?.fsync === value
  })
}

/** Waits a tenth of the time: a call is patient for 20 s. */
const hurried = {
  ...systemEnvironment,
  monotonic: () => 10 * systemEnvironment.monotonic(),
  timer: (ms: number, run: () => void, keepsAlive?: boolean) =>
    systemEnvironment.timer(ms / 10, run, keepsAlive),
}

async function countBackends(store: string): Promise<number> {
  const sql = "select count(*)::int as backends from pg_stat_activity where backend_type = 'client backend'"
  return (await own.query<{ backends: number }>(store, sql))[0]?.backends ?? 0
}

/** An item held by one process, while another would take it at the first entropy. */
async function holdAgainstRival(hf: Holdfast, store: string, ms: number) {
  const holder = await openActor(store, { agent: 'holder', leaseMs: ms })
  await warmUp(hf, holder)
  await hf.queue('q').add('work')
  const item = await claimBy(holder, 'q')
  return { holder, item, rival: hf.work('q', () => {}) }
}

async function expectNeverTaken(hf: Holdfast, holder: Actor, id: string): Promise<void> {
  const events = (await wholeAudit(hf, own.server)).filter((event) => event.id === id)
  expect(holder.all('aborted').filter(({ item }) => item === id)).toEqual([])
  expect(
    events.filter(({ kind }) => kind !== 'item.progressed').map(({ kind, agent }) => `${kind} by ${agent}`),
  ).toEqual(['item.created by test', 'item.claimed by holder', 'item.completed by holder'])
}

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

/** Claims the task as soon as it can be claimed. */
async function takeOver(hf: Holdfast, id: string): Promise<Task> {
  let heir: Task | null = null
  await until('another holds it', async () => {
    const claim = await hf.tasks.claimTaskForAgent(id)
    if (claim.outcome === 'claimed') heir = claim.task
    return heir !== null
  })
  return heir as unknown as Task
}
