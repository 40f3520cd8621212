/** The thread that holds the engine on PostgreSQL: its death loses nothing silently, and closing ends everything. */
import type { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { collectLogs } from '../support/logs.ts'
import { refusal } from '../support/outcomes.ts'
import { ownServer, schemaOf } from './server-store.ts'
import { openHere, until } from './support.ts'

const own = ownServer()

test('calls made before and after the thread dies end differently, and another thread takes over [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const thread = nextThread()
  const hf = await openHere(proxy.through(store))

  proxy.stall()
  const sent = refusal(() => hf.queue('q').add('sent'))
  await nextTurns()
  await (await thread).terminate()
  const after = hf.queue('q').add('after')
  proxy.mend()

  expect(await sent).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: true } })
  expect((await after).item.payload).toBe('after')
})

test('while no thread can reach the server, commands are refused as not done, and served once one can [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const { logger, lines } = collectLogs()
  const thread = nextThread()
  const hf = await openHere(proxy.through(store), { logger })

  proxy.cut()
  await (await thread).terminate()
  const refused = await refusal(() => hf.queue('q').add('refused'))
  await until(
    'three threads have failed',
    () => lines.filter(({ name }) => name === 'renew.failed').length >= 3,
  )
  const began = nextThread()
  proxy.mend()
  await began
  await hf.queue('q').add('served')

  expect(refused).toMatchObject({ code: 'STORE_UNAVAILABLE', facts: { inDoubt: false } })
  expect((await hf.queue('q').list()).items.map(({ payload }) => payload)).toEqual(['served'])
})

test('a store that is closed while it reconnects leaves no connection open [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store), { background: false })

  proxy.stall()
  proxy.reset()
  await until('the connection is being found again', () => proxy.connections > 0)
  await hf.close()
  proxy.mend()

  await until('nothing is connected', () => proxy.connections === 0)
})

test('a handle that cannot release what it holds still closes [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  const hf = await openHere(proxy.through(store))
  await hf.queue('q').add('held')
  await hf.queue('q').next()
  await own.query(store, refuseItems)

  const refused = await refusal(() => hf.close())

  expect(refused.code).toBe('INTERNAL')
  await until('nothing is connected', () => proxy.connections === 0)
})

test('opening without the needed password fails at once and leaves nothing open [X6]', async () => {
  const proxy = await own.openProxy()
  const store = proxy.through(own.newStore()).replace(':secret@', '@')

  const refused = await refusal(() => openHere(store))

  expect(refused.code).toBe('STORE_UNAVAILABLE')
  expect(refused.message).toContain('password')
  expect(refused.message).toContain('open it again')
  await until('nothing is connected', () => proxy.connections === 0)
})

test('opening without the needed permission fails and leaves nothing open [X6]', async () => {
  const store = own.newStore()
  const proxy = await own.openProxy()
  await (await openHere(store)).close()
  await own.query(store, allButLanes(schemaOf(store)))

  const refused = await refusal(() => openHere(proxy.through(store).replace('tester:', 'half:')))

  expect(refused).toMatchObject({ code: 'STORE_UNFIT', facts: { sqlState: '42501' } })
  await until('nothing is connected', () => proxy.connections === 0)
})

/** A role that may do everything but what is done last when a store is opened. */
function allButLanes(schema: string): string {
  return `create role half login password 'secret';
grant usage on schema ${schema} to half;
grant all on all tables in schema ${schema} to half;
revoke insert on ${schema}.lane from half`
}

const refuseItems = `create function holdfast.refuse() returns trigger language plpgsql as
  $$ begin raise exception 'refused'; end $$;
create trigger refuse before update on holdfast.item for each row execute function holdfast.refuse()`

/** The thread that this process starts next. */
function nextThread(): Promise<Worker> {
  return new Promise((started) => process.once('worker', started))
}

/** What was asked is on its way to the thread. */
async function nextTurns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((done) => setImmediate(done))
}
