/**
 * The floor under one caller: prepared statements written by hand that leave the same rows behind. What Holdfast
 * writes is learned by watching it with one item, so that this stays the same work when Holdfast writes other columns.
 */
import { open } from 'holdfast'
import { Meter } from '../meter.mjs'
import { openRaw, queueName, withStore } from '../store.mjs'

const insertEvent = `insert into event (namespace, at, kind, subject, id, queue, version, agent, token, change, detail)
values ('default', ?, ?, 'item', ?, ?, ?, ?, ?, ?, null)`

export function drainRaw({ items, durability, ...window }) {
  return withStore({ items: items + 1 }, async (file) => {
    const { claimed, completed } = await learnWrites(file)
    const database = openRaw(file)
    database.exec('pragma journal_mode = wal')
    database.exec(`pragma synchronous = ${durability}`)
    database.exec('pragma foreign_keys = on')
    database.exec('pragma cache_size = -16384')
    const meter = new Meter(window)
    const claim = prepareClaim(database, claimed)
    const complete = prepareComplete(database, completed)
    while (!meter.isOver) {
      const item = claim()
      if (!item) {
        meter.end()
        break
      }
      complete(item)
      meter.count()
    }
    database.close()
    return meter.result
  })
}

/** What a claim and a completion write: the columns of the item that change, and what their events tell. */
async function learnWrites(file) {
  const database = openRaw(file)
  const selectItem = database.prepare('select * from item where id = ?')
  const selectEvent = database.prepare('select change from event where id = ? order by seq desc limit 1')
  const hf = await open(file)
  const queue = hf.queue(queueName)

  const { id } = await queue.peek()
  const pending = selectItem.get(id)
  await queue.next()
  const running = selectItem.get(id)
  const claimed = { columns: differing(pending, running), change: JSON.parse(selectEvent.get(id).change) }
  await queue.complete(id)
  const done = selectItem.get(id)
  const completed = { columns: differing(running, done), change: JSON.parse(selectEvent.get(id).change) }

  await hf.close()
  database.close()
  return { claimed, completed }
}

/** The columns that differ, with their new values. */
function differing(before, after) {
  return Object.fromEntries(Object.entries(after).filter(([column, value]) => value !== before[column]))
}

function prepareClaim(database, learned) {
  const select = database.prepare(`select id, payload, version, token, attempts
from item
where namespace = 'default' and queue = ? and phase = 'ready'
order by priority, added_at, id
limit 1`)
  const write = prepareWrite(database, 'item.claimed', learned)
  return () => {
    database.exec('begin immediate')
    const row = select.get(queueName)
    if (row) {
      const token = Math.max(row.token + 1, Date.now() * 1000)
      write(row, { version: row.version + 1, attempts: row.attempts + 1, token }, token)
      database.exec('commit')
      return { id: row.id, payload: JSON.parse(row.payload), token }
    }
    database.exec('commit')
    return null
  }
}

function prepareComplete(database, learned) {
  const select = database.prepare("select version, token from item where namespace = 'default' and id = ?")
  const write = prepareWrite(database, 'item.completed', learned)
  return ({ id, token }) => {
    database.exec('begin immediate')
    const row = select.get(id)
    if (row.token !== token) throw new Error(`item ${id} has another token`)
    write({ id, ...row }, { version: row.version + 1 }, token)
    database.exec('commit')
  }
}

/** The guarded update of one item, and its event. */
function prepareWrite(database, kind, { columns, change }) {
  const names = Object.keys(columns)
  const times = names.filter((name) => name.endsWith('_at') && columns[name] !== null)
  const update = database.prepare(
    `update item set ${names.map((name) => `${name} = ?`).join(', ')} where namespace = 'default' and id = ? and version = ? and token = ?`,
  )
  const event = database.prepare(insertEvent)
  return (before, news, token) => {
    const now = Date.now()
    const values = { ...columns, ...news }
    for (const name of times) values[name] = now
    const { id } = before
    const { changes } = update.run(...names.map((name) => values[name]), id, before.version, before.token)
    if (changes !== 1) throw new Error(`item ${id} has changed`)
    event.run(now, kind, id, queueName, news.version, 'raw', token, JSON.stringify({ ...change, ...news }))
  }
}
