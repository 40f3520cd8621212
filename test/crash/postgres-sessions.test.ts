/** Sessions that a pooler lends, and roles that are set up for something else. */
import type { Holdfast } from 'holdfast'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { refusal } from '../support/outcomes.ts'
import { Pooler } from '../support/pooler.ts'
import type { Server } from '../support/server.ts'
import { ownServer, queryStore } from './server-store.ts'
import { closeAfterHandles, openHere, until } from './support.ts'

const own = ownServer()

const ofTheSession = [
  'enable_seqscan',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
  'plan_cache_mode',
  'synchronous_commit',
  'standard_conforming_strings',
]

describe('a session lent by a pooler', () => {
  test.each(['', '&prepare=false'])(
    'is left as it was by a URL that does not mention the pooler (%s) [S5b-12]',
    async (option) => {
      const store = own.newStore()
      const pooler = await openPooler(1)
      const stranger = await connectTo(pooler.through(own.server.url))
      const before = await lookAt(stranger)

      const error = await refusal(() => openHere(`${pooler.through(store)}${option}`, { background: false }))

      expect(error).toMatchObject({ code: 'STORE_UNFIT' })
      expect(error.message).toContain('wake=off')
      expect(await lookAt(stranger)).toEqual(before)
    },
  )

  test('is left as it was by a URL that does, however it is used [S5b-12]', async () => {
    const store = own.newStore()
    const pooler = await openPooler(1)
    const stranger = await connectTo(pooler.through(own.server.url))
    const before = await lookAt(stranger)

    const hf = await openHere(`${pooler.through(store)}&wake=off&prepare=false`, { background: false })
    await work(hf)
    await hf.close()

    expect(await lookAt(stranger)).toEqual(before)
  })
})

test('behind a pooler that leads to a standby nothing is read, and reads and writes wait for the primary [S5b-17]', async () => {
  const store = own.newStore()
  const standby = await own.server.createStandby('heir')
  closeAfterHandles(() => standby.remove())
  const pooler = await openPooler(2)
  const hf = await openHere(`${pooler.through(store)}&wake=off&prepare=false`, { background: false })
  const { item } = await hf.queue('q').add('before')
  await until('the standby has it', () => hasItem(standby, store))
  const { logins } = pooler
  const answered: string[] = []
  const noted = <Result>(name: string, asked: Promise<Result>) =>
    asked.finally(() => {
      answered.push(name)
    })

  await pooler.leadTo(standby)
  const read = noted('read', hf.queue('q').get(item.id))
  const written = noted('write', hf.queue('q').add('after'))
  await until('both look for the primary', () => pooler.logins >= logins + 4)
  const early = [...answered]
  await standby.promote()

  expect(early).toEqual([])
  expect(await read).toMatchObject({ payload: 'before' })
  expect(await written).toMatchObject({ item: { payload: 'after' } })
})

async function hasItem(server: Server, store: string): Promise<boolean> {
  const rows = await queryStore(server, store, 'select from holdfast.item').catch(() => [])
  return rows.length > 0
}

/** Of the role: how it is set, and what a transaction of ours must have instead. */
const roleSettings: readonly (readonly [name: string, set: string, inOurs: string])[] = [
  ['standard_conforming_strings', 'off', 'on'],
  ['default_transaction_read_only', 'on', 'off'],
  ['array_nulls', 'off', 'on'],
  ['idle_session_timeout', '10s', '0'],
  ['idle_in_transaction_session_timeout', '10s', '4s'],
  ['transaction_timeout', '10s', '0'],
  ['statement_timeout', '10s', '0'],
  ['lock_timeout', '10ms', '5s'],
  ['synchronous_commit', 'off', 'on'],
  ['synchronous_commit', 'local', 'on'],
  ['synchronous_commit', 'remote_write', 'on'],
  ['synchronous_commit', 'remote_apply', 'remote_apply'],
]

describe.each(['on a connection of our own', 'behind a pooler'])('%s', (way) => {
  test.each(roleSettings)('a role with %s = %s can work normally [S5b-12]', async (name, set, inOurs) => {
    const store = own.newStore()
    await openHere(store, { background: false })
    await own.query(store, probeOf(name))
    onTestFinished(() => alterRole(`reset ${name}`))
    await alterRole(`set ${name} = '${set}'`)
    const url =
      way === 'behind a pooler' ? `${(await openPooler(2)).through(store)}&wake=off&prepare=false` : store

    const hf = await openHere(url, { background: false })
    await work(hf)

    const seen = await own.query<{ setting: string }>(store, 'select distinct setting from holdfast.probe')
    expect(seen).toEqual([{ setting: inOurs }])
    expect(hf.status.server?.synchronousCommit).toBe(name === 'synchronous_commit' ? inOurs : 'on')
  })
})

/** Some of everything: writes, reads of one statement and of several, filters by what is inside JSON, NULL in arrays. */
async function work(hf: Holdfast): Promise<void> {
  const task = await hf.tasks.addTask('work', { labels: ['urgent'], owner: 'ada' })
  await hf.tasks.addTask('more')
  await hf.state('document').set({ text: 'a \\ b' })

  const labelled = await hf.tasks.listTasks({ labels: ['urgent'], owner: 'ada' })
  const claimed = await hf.tasks.claimNext({ labels: ['urgent'] })
  const stats = await hf.queue('tasks').stats()

  expect(labelled.tasks.map(({ id }) => id)).toEqual([task.id])
  expect(claimed).toMatchObject({ outcome: 'claimed', task: { id: task.id } })
  expect(stats).toMatchObject({ total: 2 })
  expect(await hf.state('document').get()).toMatchObject({ value: { text: 'a \\ b' } })
}

/** Notes what a setting is at in each transaction that tells an event. */
function probeOf(setting: string): string {
  return `create table holdfast.probe (setting text);
    create function holdfast.note() returns trigger language plpgsql as
    $$ begin insert into holdfast.probe values (current_setting('${setting}')); return null; end $$;
    create trigger noted after insert on holdfast.event for each statement execute function holdfast.note()`
}

async function alterRole(change: string): Promise<void> {
  await own.server.query((client) =>
    client.query(`begin read write; alter role current_user ${change}; commit`),
  )
}

async function lookAt(client: Client): Promise<unknown> {
  const { rows } = await client.query(
    `select name, setting from pg_settings where name = any($1) order by name`,
    [ofTheSession],
  )
  const prepared = await client.query('select name from pg_prepared_statements')
  return { settings: rows, prepared: prepared.rows }
}

async function connectTo(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  closeAfterHandles(() => client.end())
  return client
}

async function openPooler(connections: number): Promise<Pooler> {
  const pooler = await Pooler.open(own.server, connections)
  closeAfterHandles(() => pooler.close())
  return pooler
}
