/** What a claim costs in a store with millions of rows, against one with a few. */
import { open } from 'holdfast'
import { median } from '../statistics.mjs'
import { addItems, openRaw, payload, queueName, withStore } from '../store.mjs'

const farAway = Date.now() + 365 * 86_400_000

export function compareDepths({ rounds, claims, shallow, deep }) {
  return withStore({ items: shallow }, (shallowFile) =>
    withStore({ items: 0 }, async (deepFile) => {
      await fillDeep(deepFile, deep)
      // Not `full`: waiting for the disk would hide what the claim itself costs.
      const stores = {
        shallow: await open(shallowFile, { durability: 'normal' }),
        deep: await open(deepFile, { durability: 'normal' }),
      }
      await claimSome(stores.deep, claims)
      await claimSome(stores.shallow, claims)
      const result = { deep: [], shallow: [] }
      for (let round = 0; round < rounds; round++) {
        result.deep.push(await claimSome(stores.deep, claims))
        result.shallow.push(await claimSome(stores.shallow, claims))
      }
      await stores.deep.close()
      await stores.shallow.close()
      return result
    }),
  )
}

/** Median time of a claim, µs. Claimed items are completed and replaced, so that the depth stays the same. */
export async function claimSome(hf, count) {
  const queue = hf.queue(queueName)
  const times = []
  for (let claimed = 0; claimed < count; claimed++) {
    const before = performance.now()
    const claim = await queue.next()
    times.push((performance.now() - before) * 1000)
    await queue.complete(claim.item.id)
  }
  await addItems(hf, count)
  return median(times)
}

/** One item of each kind is made by Holdfast; SQL copies it, with its events, as often as wanted. */
export async function fillDeep(file, { pending, finished, delayed, blocked }) {
  const hf = await open(file, { durability: 'normal', background: false })
  const queue = hf.queue(queueName)
  const done = await queue.add(payload, { priority: 0 })
  const { item } = await queue.next()
  await queue.complete(item.id)
  const ready = await queue.add(payload)
  const late = await queue.add(payload, { priority: 0, runAt: farAway })
  const last = await queue.add(payload, { priority: 10 })
  const waiting = await queue.add(payload, { priority: 0, blockers: [last.item.id] })
  await hf.close()

  const database = openRaw(file)
  database.exec('pragma journal_mode = off')
  database.exec('pragma synchronous = off')
  database.exec('pragma cache_size = -262144')
  copyItem(database, { id: done.item.id, count: finished, series: 1 })
  copyItem(database, { id: ready.item.id, count: pending, series: 2 })
  copyItem(database, { id: late.item.id, count: delayed, series: 3 })
  copyItem(database, { id: waiting.item.id, count: blocked, series: 4 })
  database.exec('pragma journal_mode = wal')
  database.close()
}

function copyItem(database, { id, count, series }) {
  const numbers = `with recursive numbers (number) as (
  select 1
  union all
  select number + 1 from numbers where number < ${count}
)`
  // Ids made in the same millisecond may begin alike, so each series has its own numbers.
  const copyId = `printf('%s%03x%09x', substr('${id}', 1, 24), ${series}, number)`
  database.exec('begin')
  for (const [table, key, automatic] of [
    ['item', 'id', 'row'],
    ['blocker', 'item', null],
    ['event', 'id', 'seq'],
  ]) {
    const columns = database
      .prepare(`select name from pragma_table_info('${table}')`)
      .all()
      .map(({ name }) => name)
      .filter((name) => name !== automatic)
    const values = columns.map((name) => (name === key ? copyId : name))
    // Copy the model first: reading a table while writing it would make SQLite buffer all rows.
    database.exec(`create temp table model as select * from ${table} where ${key} = '${id}'`)
    database.exec(
      `${numbers}\ninsert into ${table} (${columns.join(', ')}) select ${values.join(', ')} from numbers cross join temp.model`,
    )
    database.exec('drop table temp.model')
  }
  database.exec('commit')
}
