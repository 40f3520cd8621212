/**
 * The floor on PostgreSQL: statements written by hand that leave the same rows behind, one for all claims of a batch and
 * one for all completions, with nothing decided outside the server. What Holdfast writes is learned by watching it with
 * one item, so that this stays the same work when Holdfast writes other columns.
 */

import { open } from 'holdfast'
import pg from 'pg'
import { Meter } from '../meter.mjs'
import { settle, withClient } from '../postgres/database.mjs'
import { queueName, withStore } from '../store.mjs'

/** A connection that makes its plans as Holdfast has them made. */
export async function withRawClient(url, use) {
  const client = new pg.Client({ connectionString: url, pipeline: true })
  await client.connect()
  for (const setting of settings) await client.query(`set ${setting}`)
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** `together`: completing what is done and claiming the next is one transaction, as a worker does it. */
export function drainRawOnPostgres({ items, server, batch, together, ...window }) {
  return withStore({ items: items + 1, server }, async (url) => {
    const { claim, complete } = await learnStatements(url)
    await settle(url)
    return withRawClient(url, (client) =>
      drain(client, { claim, complete, batch, together }, new Meter(window)),
    )
  })
}

async function drain(client, { claim, complete, batch, together }, meter) {
  const run = (statement, values) => client.query({ ...statement, values })
  const inOne = async (...asked) => {
    const [, ...answers] = await Promise.all([
      run(begin, []),
      ...asked.map((each) => run(...each)),
      run(commit, []),
    ])
    return answers
  }
  const claiming = () => [claim, [batch, Date.now()]]
  const completing = (held) => [
    complete,
    [held.map(({ id }) => id), held.map(({ version }) => version), Date.now()],
  ]
  let { rows: held } = await run(...claiming())
  while (!meter.isOver && held.length > 0) {
    const done = held
    if (together) {
      const [completed, claimed] = await inOne(completing(done), claiming())
      assertAll(completed, done)
      held = claimed.rows
    } else {
      assertAll(await run(...completing(done)), done)
      held = (await run(...claiming())).rows
    }
    for (const { payload } of done) {
      JSON.parse(payload)
      meter.count()
    }
  }
  meter.end()
  return meter.result
}

/** Plans as Holdfast has them made: once, by indexes. */
const settings = [
  'plan_cache_mode = force_generic_plan',
  'jit = off',
  ...['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan', 'material'].map((name) => `enable_${name} = off`),
]

const begin = { name: 'begin', text: 'begin' }
const commit = { name: 'commit', text: 'commit' }

function assertAll({ rowCount }, done) {
  if (rowCount !== done.length) throw new Error(`${rowCount} of ${done.length} items were still ours`)
}

/** One item and its last event as it waits, is held and is done. */
export async function watchOneItem(url) {
  const hf = await open(url)
  const queue = hf.queue(queueName)
  const { id } = await queue.peek()
  const look = () =>
    withClient(url, async (client) => {
      const { rows } = await client.query('select * from holdfast.item where id = $1', [id])
      const events = await client.query(
        'select kind, change from holdfast.event where id = $1 order by seq desc limit 1',
        [id],
      )
      return { item: rows[0], event: events.rows[0] }
    })
  const pending = await look()
  await queue.next()
  const running = await look()
  await queue.complete(id)
  const done = await look()
  await hf.close()
  return { pending, running, done }
}

/** What a claim and a completion write: the columns of the item that change, and what their events tell. */
async function learnStatements(url) {
  const { pending, running, done } = await watchOneItem(url)
  return {
    claim: {
      name: 'claim',
      text: writing(pending, running, {
        now: '$2::bigint',
        found: `select ctid as place
  from holdfast.item
  where namespace = 'default' and queue = '${queueName}' and phase = 'ready'
  order by priority, added_at, id
  limit $1
  for no key update skip locked`,
      }),
    },
    complete: {
      name: 'complete',
      text: writing(running, done, {
        now: '$3::bigint',
        found: `select item.place
  from unnest($1::text[], $2::bigint[]) as given (id, version)
  cross join lateral (
    select ctid as place
    from holdfast.item
    where namespace = 'default' and id = given.id and version = given.version
    limit 1
  ) item`,
      }),
    },
  }
}

const counted = { version: 'version + 1', attempts: 'attempts + 1' }

/** Updates what is found, and tells one event for each. */
function writing(before, after, { found, now }) {
  const columns = Object.keys(after.item).filter((name) => after.item[name] !== before.item[name])
  const newValue = (name) => {
    const value = after.item[name]
    if (name in counted) return counted[name]
    if (value === null) return 'null'
    if (name === 'token') return `greatest(token + 1, ${now} * 1000)`
    return name.endsWith('_at') ? now : pg.escapeLiteral(value)
  }
  return `with found as materialized (
  ${found}
), written as (
  update holdfast.item t
  set ${columns.map((name) => `${name} = ${newValue(name)}`).join(', ')}
  from found
  where t.ctid = found.place
  returning t.id, t.payload, t.version, t.token
), told as (
  insert into holdfast.event (namespace, seq, at, kind, subject, id, queue, version, agent, token, change, detail)
  select 'default', pg_current_xact_id()::text::bigint * 8192 + ${after.event.kind === 'item.claimed' ? 4096 : 0} + row_number() over (),
    ${now}, '${after.event.kind}', 'item', id, '${queueName}', version, 'raw', token, ${pg.escapeLiteral(after.event.change)}, null
  from written
)
select id, payload, version from written`
}
