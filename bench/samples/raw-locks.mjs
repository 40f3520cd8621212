/**
 * The floor under locks of one caller: prepared statements written by hand that leave the same rows behind. The row of
 * a held lock and what its event tells are learned by watching Holdfast take one.
 */
import { open } from 'holdfast'
import { measureLocks } from '../lock-callers.mjs'
import { openRaw, withStore } from '../store.mjs'

const insertEvent = `insert into event (namespace, at, kind, subject, id, queue, version, agent, token, change, detail)
values ('default', ?, ?, 'lock', ?, null, ?, 'raw', ?, ?, null)`

export function lockRaw({ durability, ...load }) {
  return withStore({ items: 0 }, async (file) => {
    const learned = await learnAcquired(file)
    const database = openRaw(file)
    database.exec('pragma journal_mode = wal')
    database.exec(`pragma synchronous = ${durability}`)
    database.exec('pragma foreign_keys = on')
    database.exec('pragma cache_size = -16384')
    const result = await measureLocks({ ...load, callers: 1, acquire: acquirer(database, learned) })
    database.close()
    return result
  })
}

/** The row of a lock that is held, and what the event of its acquisition tells. */
async function learnAcquired(file) {
  const hf = await open(file)
  await hf.locks.acquireLock('learned')
  const database = openRaw(file)
  const row = database.prepare("select * from lock where name = 'learned'").get()
  const { change } = database.prepare("select change from event where kind = 'lock.acquired'").get()
  database.close()
  await hf.locks.releaseLock('learned')
  await hf.close()
  return { row, change: JSON.parse(change) }
}

function acquirer(database, { row, change }) {
  const columns = Object.keys(row)
  const times = columns.filter((name) => name.endsWith('_at'))
  const find = database.prepare("select * from lock where namespace = 'default' and name = ?")
  const waiting = database.prepare(
    "select 1 from lock_waiter where namespace = 'default' and name = ? limit 1",
  )
  const floor = database.prepare("select token_floor from namespace where name = 'default'")
  const insert = database.prepare(
    `insert into lock (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
  )
  const remove = database.prepare(
    "delete from lock where namespace = 'default' and name = ? and slot = 0 and version = 1 and token = ?",
  )
  const raise = database.prepare(
    "update namespace set token_floor = max(token_floor, ?) where name = 'default'",
  )
  const event = database.prepare(insertEvent)

  return (name) => {
    database.exec('begin immediate')
    const now = Date.now()
    if (find.get(name) ?? waiting.get(name)) throw new Error(`lock ${name} is taken`)
    const token = Math.max(floor.get().token_floor + 1, now * 1000)
    const values = { ...row, name, token, instance: null }
    for (const time of times) values[time] = now
    insert.run(...columns.map((column) => values[column]))
    event.run(now, 'lock.acquired', `${name}#0`, 1, token, JSON.stringify({ ...change, name, token }))
    database.exec('commit')
    return () => {
      database.exec('begin immediate')
      if (find.get(name)?.token !== token) throw new Error(`lock ${name} was lost`)
      if (remove.run(name, token).changes !== 1) throw new Error(`lock ${name} has changed`)
      raise.run(token)
      event.run(Date.now(), 'lock.released', `${name}#0`, null, token, null)
      database.exec('commit')
    }
  }
}
