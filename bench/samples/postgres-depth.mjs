/** What a claim costs in a PostgreSQL store with millions of rows, and behind an old snapshot, against a small store. */
import { open } from 'holdfast'
import { settle, withClient } from '../postgres/database.mjs'
import { addItems, payload, queueName, withStore } from '../store.mjs'
import { claimSome } from './depth.mjs'

const farAway = Date.now() + 365 * 86_400_000

export function compareDepthsOnPostgres({ server, rounds, claims, shallow, deep, finishedBehind }) {
  return withStore({ server, items: shallow }, (shallowUrl) =>
    withStore({ server, items: 0 }, async (deepUrl) => {
      await fillDeep(deepUrl, deep)
      await settle(deepUrl)
      // Not `full`: waiting for the disk would hide what the claim itself costs.
      const stores = {
        deep: await open(deepUrl, { durability: 'normal' }),
        shallow: await open(shallowUrl, { durability: 'normal' }),
      }
      const compare = async () => {
        const times = { deep: [], shallow: [] }
        // The first round only warms up.
        for (let round = -1; round < rounds; round++) {
          for (const side of ['deep', 'shallow']) {
            const time = await claimSome(stores[side], claims)
            if (round >= 0) times[side].push(time)
          }
        }
        return times
      }
      const figures = await compare()
      const behind = await withClient(deepUrl, async (client) => {
        await client.query('begin isolation level repeatable read')
        await client.query('select 1 from holdfast.item limit 1')
        await finish(stores.deep, finishedBehind)
        return compare()
      })
      await stores.deep.close()
      await stores.shallow.close()
      return { ...figures, behind: behind.deep, shallowBeside: behind.shallow }
    }),
  )
}

/** Claimed items are replaced, so that the depth stays the same. */
async function finish(hf, count) {
  let left = count
  await new Promise((resolve) => {
    const worker = hf.work(
      queueName,
      () => {
        if (--left === 0) void worker.stop().then(resolve)
      },
      { concurrency: 50, prefetch: 100 },
    )
  })
  await addItems(hf, count)
}

/** One item of each kind is made by Holdfast; SQL copies it, with its events, as often as wanted. */
async function fillDeep(url, { pending, finished, delayed }) {
  const hf = await open(url, { durability: 'normal', background: false })
  const queue = hf.queue(queueName)
  const done = await queue.add(payload, { priority: 0 })
  const { item } = await queue.next()
  await queue.complete(item.id)
  const ready = await queue.add(payload)
  const late = await queue.add(payload, { priority: 0, runAt: farAway })
  await hf.close()
  const kinds = [
    { id: done.item.id, count: finished, series: 1 },
    { id: ready.item.id, count: pending, series: 2 },
    { id: late.item.id, count: delayed, series: 3 },
  ]
  // Two connections for two processors.
  await Promise.all(['item', 'event'].map((table) => withClient(url, (client) => copy(client, table, kinds))))
}

/** Creating an index at the end takes a tenth of the time. */
async function copy(client, table, kinds) {
  const { rows } = await client.query(
    `select indexdef as definition, format('%I.%I', schemaname, indexname) as name
     from pg_indexes
     where schemaname = 'holdfast' and tablename = $1 and indexname not like '%_pkey'`,
    [table],
  )
  for (const { name } of rows) await client.query(`drop index ${name}`)
  for (const kind of kinds) await copyKind(client, table, kind)
  await client.query("set maintenance_work_mem = '512MB'")
  for (const { definition } of rows) await client.query(definition)
}

async function copyKind(client, table, { id, count, series }) {
  const copies = {
    id: `format('%s%s%s', left(model.id, 24), lpad(to_hex(${series}), 3, '0'), lpad(to_hex(number), 9, '0'))`,
    // Below all real event numbers.
    seq: `-${series + 1}000000000 + row_number() over ()`,
  }
  const { rows } = await client.query(
    "select column_name as name from information_schema.columns where table_schema = 'holdfast' and table_name = $1",
    [table],
  )
  const columns = rows.map(({ name }) => name)
  await client.query(
    `insert into holdfast.${table} (${columns.join(', ')})
     select ${columns.map((name) => copies[name] ?? `model.${name}`).join(', ')}
     from generate_series(1, ${count}) as number
     cross join holdfast.${table} as model
     where model.id = '${id}'`,
  )
}
