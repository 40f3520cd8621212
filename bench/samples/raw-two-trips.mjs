/**
 * Raw statements in the order of a batch: one round trip locks and loads whole rows and reads the clock, one writes them
 * back with their events and commits. Nothing is decided, checked or shown in between, and each statement is answered by
 * itself: about what load, decide and apply costs before there is any rule.
 */
import { Meter } from '../meter.mjs'
import { settle, withClient } from '../postgres/database.mjs'
import { queueName, withStore } from '../store.mjs'
import { watchOneItem, withRawClient } from './raw-postgres.mjs'

export function drainInTwoTrips({ items, server, batch, together, ...window }) {
  return withStore({ items: items + 1, server }, async (url) => {
    const { pending, running, done } = await watchOneItem(url)
    const columns = await columnsOf(url)
    await settle(url)
    const written = columns.filter(
      ({ name }) => pending.item[name] !== running.item[name] || running.item[name] !== done.item[name],
    )
    const meter = new Meter(window)
    return withRawClient(url, async (client) => {
      const transact = transactions(client, { columns, written, claimed: running, completed: done })
      let held = await transact([], batch)
      while (!meter.isOver && held.length > 0) {
        const finished = held
        if (together) held = await transact(finished, batch)
        else {
          await transact(finished, 0)
          held = await transact([], batch)
        }
        for (const { payload } of finished) {
          JSON.parse(payload)
          meter.count()
        }
      }
      meter.end()
      return meter.result
    })
  })
}

function columnsOf(url) {
  return withClient(url, async (client) => {
    const { rows } = await client.query(
      "select column_name as name, data_type as type from information_schema.columns where table_schema = 'holdfast' and table_name = 'item' order by ordinal_position",
    )
    return rows
  })
}

/** One transaction: completes what is held, claims so many; answers what was claimed. */
function transactions(client, { columns, written, claimed, completed }) {
  const { load, apply } = statements(client, columns, written)
  return async (held, claims) => {
    const { now, holding, waiting } = await load(held, claims)
    const changes = [
      ...holding.map((before) => ({ before, like: completed })),
      ...waiting.map((before) => ({ before, like: claimed })),
    ]
    const values = written.map(({ name }) =>
      changes.map(({ before, like }) => newValue(name, { before, like, claimed, now })),
    )
    const { rowCount } = await apply(changes, values, now)
    if (rowCount !== changes.length) throw new Error(`${rowCount} of ${changes.length} items were written`)
    return waiting
  }
}

function newValue(name, { before, like, claimed, now }) {
  if (name === 'version') return Number(before.version) + 1
  if (name === 'attempts') return Number(before.attempts) + (like === claimed ? 1 : 0)
  if (name === 'token') return like === claimed ? Number(now) * 1000 : before.token
  const value = like.item[name]
  return value !== null && name.endsWith('_at') ? now : value
}

function statements(client, columns, written) {
  const prepared = (name, text) => (values) => client.query({ name, text, values })
  const all = columns.map(({ name }) => `t.${name}`).join(', ')
  const types = ['text', 'bigint', ...written.map(({ type }) => type)]
  const begin = prepared('begin', 'begin')
  const commit = prepared('commit', 'commit')
  const enter = prepared(
    'enter',
    "insert into holdfast.lane (id, batch, at) values ('raw', $1, 0) on conflict (id) do update set batch = excluded.batch",
  )
  const byId = prepared(
    'by-id',
    `select ${all} from holdfast.item t where t.namespace = 'default' and t.id = any($1::text[]) for no key update`,
  )
  const inLine = prepared(
    'in-line',
    `select ${all} from holdfast.item t
where t.namespace = 'default' and t.queue = '${queueName}' and t.phase = 'ready'
order by t.priority, t.added_at, t.id
limit $1
for no key update skip locked`,
  )
  const clock = prepared('clock', 'select holdfast.now_ms() as now, holdfast.wall_ms()')
  const update = prepared(
    'update',
    `update holdfast.item t
set ${written.map(({ name }) => `${name} = v.new_${name}`).join(', ')}
from unnest(${types.map((type, index) => `$${index + 1}::${type}[]`).join(', ')})
  as v (old_id, old_version, ${written.map(({ name }) => `new_${name}`).join(', ')})
cross join lateral (
  select i.ctid as place
  from holdfast.item i
  where i.namespace = 'default' and i.id = v.old_id and i.version = v.old_version
  limit 1
) found
where t.ctid = found.place`,
  )
  const record = prepared(
    'record',
    `insert into holdfast.event (namespace, seq, at, kind, subject, id, queue, version, agent, token, change, detail)
select 'default', pg_current_xact_id()::text::bigint * 8192 + v.number, $1::bigint, v.kind, 'item', v.id, '${queueName}', v.version, 'raw', v.token, v.change, null
from unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[]) as v (number, kind, id, version, token, change)`,
  )
  let batches = 0
  const nothing = { rows: [] }
  return {
    async load(held, claims) {
      const [, , holding, waiting, { rows }] = await Promise.all([
        begin([]),
        enter([++batches]),
        held.length === 0 ? nothing : byId([held.map(({ id }) => id)]),
        claims === 0 ? nothing : inLine([claims]),
        clock([]),
      ])
      return { now: rows[0].now, holding: holding.rows, waiting: waiting.rows }
    },
    async apply(changes, values, now) {
      const of = (read) => changes.map(read)
      const [answer] = await Promise.all([
        update([of(({ before }) => before.id), of(({ before }) => before.version), ...values]),
        record([
          now,
          of((_, number) => number),
          of(({ like }) => like.event.kind),
          of(({ before }) => before.id),
          of(({ before }) => Number(before.version) + 1),
          of(({ before }) => before.token),
          of(({ like }) => like.event.change),
        ]),
        commit([]),
      ])
      return answer
    },
  }
}
