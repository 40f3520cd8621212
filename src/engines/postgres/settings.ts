/** How the server should treat our transactions. */
import type { Query } from './plan.ts'

/** Whatever the default is: after a wait, rows are decided on as they are then. A standby refuses `read write`. */
export const begin: Query = {
  text: 'begin isolation level read committed read write',
  values: [],
  bounds: 'begin',
}

/** For reads, but still `read write`: behind a pooler it may be a standby by now, which shows the past. */
export const beginSnapshot: Query = {
  text: 'begin isolation level repeatable read read write',
  values: [],
  bounds: 'begin',
}

export const commit: Query = { text: 'commit', values: [], bounds: 'end' }
export const rollback: Query = { text: 'rollback', values: [], bounds: 'end' }

/**
 * Names mean what PostgreSQL ships and nothing else. With a role's own path, a function that a stranger made in
 * `public` could match a call better, and would run as us. Sent ahead of everything, in a statement that looks up no
 * name.
 */
export const sessionPath: Query = { text: 'set search_path = pg_catalog, pg_temp', values: [] }
export const localPath: Query = { text: 'set local search_path = pg_catalog, pg_temp', values: [] }

const wanted = {
  // A client frozen inside a transaction is disconnected before others give up waiting for what it holds.
  idle_in_transaction_session_timeout: '4000',
  // No statement_timeout: a commit that is cut short while it waits for a standby counts here and is lost there.
  statement_timeout: '0',
  idle_session_timeout: '0',
  // A role may be set up for people who only read: our statements would be refused, or mean something else.
  default_transaction_read_only: 'off',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  // Every statement uses an index, whatever the statistics say about a table that was empty a minute ago.
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  enable_material: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
}

/** Settings that acknowledge a commit before it is on the disks it should be on. */
const undurable = ['off', 'local', 'remote_write']

/** A setting that is lower than it should be is raised; never the other way round, unless the program asked for it. */
const durable = `set_config('synchronous_commit', case when $3 = 'normal' then 'off' when current_setting('synchronous_commit') in (${undurable.map((each) => `'${each}'`).join(', ')}) then 'on' else current_setting('synchronous_commit') end, $1)`

/** Servers before 17 do not have this setting. */
const noTransactionTimeout =
  "case when current_setting('server_version_num')::int >= 170000 then set_config('transaction_timeout', '0', $1) end"

const text = `select ${[
  ...Object.entries(wanted).map(([name, value]) => `set_config('${name}', '${value}', $1)`),
  "set_config('lock_timeout', $2, $1)",
  durable,
  noTransactionTimeout,
].join(', ')}`

export interface SessionOptions {
  readonly lockTimeoutMs: number
  readonly durability: 'full' | 'normal'
}

/**
 * Sent once on a connection of our own; in each transaction behind a pooler, which lends the session to others in
 * between.
 */
export function settings(
  { lockTimeoutMs, durability }: SessionOptions,
  { isLocal }: { isLocal: boolean },
): Query {
  // 0 would mean forever.
  return { text, values: [isLocal, String(Math.max(1, lockTimeoutMs)), durability] }
}

/** What `synchronous_commit` is on our connections, given the server's setting. */
export function commitSetting(set: string, durability: SessionOptions['durability']): string {
  if (durability === 'normal') return 'off'
  return undurable.includes(set) ? 'on' : set
}
