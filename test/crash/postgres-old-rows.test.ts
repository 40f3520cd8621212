/** Rows that have not changed while the numbers of transactions went round: they seem to come from the future. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ownServer, schemaOf } from './server-store.ts'
import { numbered, openHere } from './support.ts'

/** Pages are changed behind the server's back. */
const own = ownServer({ ignore_checksum_failure: 'on', autovacuum: 'off' })

test('rows unchanged for 2^32 transactions are claimed, changed and read like others [S5b-9]', async () => {
  const store = own.newStore()
  const before = await openHere(store, { background: false })
  await before.queue('q').addMany(numbered(20))
  await before.state('document').set('old')
  await before.locks.acquireLock('l')
  await before.locks.releaseLock('l')
  await before.close()
  await age(store)

  const hf = await openHere(store, { background: false })
  const claimed = await hf.queue('q').next()
  const added = await hf.queue('q').add('new')
  const saved = await hf.state('document').set('new', { expectedVersion: 1 })
  const lock = await hf.locks.acquireLock('l')
  const stats = await hf.queue('q').stats()
  const paused = await hf.queue('q').pause({ reason: 'test' })

  expect(claimed).toMatchObject({ outcome: 'claimed' })
  expect(added).toMatchObject({ item: { payload: 'new' } })
  expect(saved).toMatchObject({ version: 2 })
  expect(lock).toMatchObject({ outcome: 'acquired' })
  expect(stats).toMatchObject({ total: 21 })
  expect(paused).toBeTruthy()
})

/** Every row of the store, frozen, as if it had been written just short of 2^32 transactions ago. */
async function age(store: string): Promise<void> {
  const tables = await own.query<{ name: string }>(
    store,
    'select tablename as name from pg_tables where schemaname = $1',
    [schemaOf(store)],
  )
  for (const { name } of tables) await own.query(store, `vacuum (freeze) holdfast.${name}`)
  await own.query(store, 'checkpoint')
  const files = await own.query<{ folder: string; file: string }>(
    store,
    `select current_setting('data_directory') as folder, pg_relation_filepath(c.oid) as file
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relkind = 'r'`,
    [schemaOf(store)],
  )
  const [next] = await own.query<{ id: string }>(
    store,
    'select pg_snapshot_xmax(pg_current_snapshot())::text as id',
  )
  await own.server.stop()
  const writer = Number(next?.id) + 500_000
  for (const { folder, file } of files) rewrite(join(folder, file), writer)
  await own.server.start()
}

const pageBytes = 8192
const frozen = 0x300

/** Puts another writer into every frozen row of a table. */
function rewrite(file: string, writer: number): void {
  const bytes = readFileSync(file)
  for (let page = 0; page < bytes.length; page += pageBytes) {
    const end = bytes.readUInt16LE(page + 12)
    for (let pointer = page + 24; pointer < page + end; pointer += 4) {
      const place = bytes.readUInt32LE(pointer)
      const isRow = ((place >> 15) & 3) === 1
      const row = page + (place & 0x7fff)
      if (isRow && (bytes.readUInt16LE(row + 20) & frozen) === frozen) bytes.writeUInt32LE(writer, row)
    }
  }
  writeFileSync(file, bytes)
}
