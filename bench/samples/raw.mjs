/**
 * The floor under one caller: prepared statements written by hand that leave the same rows behind. What Holdfast
 * writes is learned from the events of one item, so that this stays the same work when Holdfast writes other columns.
 */
import { open } from 'holdfast'
import { Meter } from '../meter.mjs'
import { openRaw, queueName, withStore } from '../store.mjs'

const insertEvent = `insert into event (namespace, at, kind, subject, id, queue, version, agent, token, change, detail)
values ('default', ?, ?, 'item', ?, ?, ?, ?, ?, ?, null)`

export function drainRaw({ items, durability, ...window }) {
  return withStore({ items: items + 1 }, async (file) => {
    const { claimed, completed } = await learnChanges(file)
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
      if (!item) break
      complete(item)
      meter.count()
    }
    database.close()
    return { rate: meter.rate }
  })
}

/** The fields that a claim and a completion change, with values as examples. */
async function learnChanges(file) {
  const hf = await open(file)
  const queue = hf.queue(queueName)
  const claim = await queue.next()
  await queue.complete(claim.item.id)
  await hf.close()
  const database = openRaw(file)
  const events = database.prepare(
    "select kind, change from event where subject = 'item' and id = ? order by seq",
  )
  const changes = new Map(events.all(claim.item.id).map(({ kind, change }) => [kind, JSON.parse(change)]))
  database.close()
  return { claimed: changes.get('item.claimed'), completed: changes.get('item.completed') }
}

function prepareClaim(database, example) {
  const select = database.prepare(`select id, payload, version, token, attempts
from item
where namespace = 'default' and queue = ? and standing = 'ready'
order by priority, added_at, id
limit 1`)
  const write = prepareWrite(database, 'item.claimed', example)
  return () => {
    database.exec('begin immediate')
    const row = select.get(queueName)
    if (!row) {
      database.exec('commit')
      return null
    }
    const token = Math.max(row.token + 1, Date.now() * 1000)
    write(row, { ...example, version: row.version + 1, attempts: row.attempts + 1, token }, token)
    database.exec('commit')
    return { id: row.id, payload: JSON.parse(row.payload), version: row.version + 1, token }
  }
}

function prepareComplete(database, example) {
  const select = database.prepare("select version, token from item where namespace = 'default' and id = ?")
  const write = prepareWrite(database, 'item.completed', example)
  return ({ id, token }) => {
    database.exec('begin immediate')
    const row = select.get(id)
    if (row.token !== token) throw new Error(`item ${id} is another's`)
    write({ id, ...row }, { ...example, version: row.version + 1 }, token)
    database.exec('commit')
  }
}

/** The guarded update of one item and its event. */
function prepareWrite(database, kind, example) {
  const fields = Object.keys(example)
  const times = fields.filter((field) => field.endsWith('At') && typeof example[field] === 'number')
  const assignments = fields.map((field) => `${columnOf(field)} = ?`).join(', ')
  const update = database.prepare(
    `update item set ${assignments} where namespace = 'default' and id = ? and version = ? and token = ?`,
  )
  const event = database.prepare(insertEvent)
  return ({ id, version, token }, change, newToken) => {
    const now = Date.now()
    for (const field of times) change[field] = now
    const values = fields.map((field) => storedAs(change[field]))
    if (update.run(...values, id, version, token).changes !== 1) throw new Error(`item ${id} has changed`)
    event.run(now, kind, id, queueName, change.version, 'raw', newToken, JSON.stringify(change))
  }
}

function columnOf(field) {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function storedAs(value) {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
