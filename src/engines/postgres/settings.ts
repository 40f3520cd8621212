/** How the server shall treat our transactions. */
import type { Query } from './plan.ts'

/** Whatever the default is: what was waited for is decided on as it is then. A standby refuses to `read write`. */
export const begin = 'begin isolation level read committed read write'

/** For reads. To `read write` all the same: behind a pooler it may be a standby by now, which shows the past. */
export const beginSnapshot = 'begin isolation level repeatable read read write'

/**
 * Names mean what PostgreSQL ships and nothing else: by a role's own path, a function that a stranger made in `public`
 * could fit a call better, and would run as us. Said ahead of everything, and by a statement that looks no name up.
 */
export const sessionPath: Query = { text: 'set search_path = pg_catalog, pg_temp', values: [] }
export const localPath: Query = { text: 'set local search_path = pg_catalog, pg_temp', values: [] }

const wanted = {
  // A client frozen inside a transaction is ended before others give up waiting for what it holds.
  idle_in_transaction_session_timeout: '4000',
  // No statement_timeout: a commit that waits for a standby and is cut short counts here and is lost there.
  statement_timeout: '0',
  idle_session_timeout: '0',
  // A role may be set up for people who only look; what we write would be refused, or read as something else.
  default_transaction_read_only: 'off',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  // Every statement goes by an index, whatever the statistics say of a table that was empty a minute ago.
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  enable_material: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
}

/** Acknowledged before it is on the disks it should be on. */
const undurable = ['off', 'local', 'remote_write']

/** What is set lower than it should be is raised; never the other way round, unless the program asked for it. */
const durable = `set_config('synchronous_commit', case when $3 = 'normal' then 'off' when current_setting('synchronous_commit') in (${undurable.map((each) => `'${each}'`).join(', ')}) then 'on' else current_setting('synchronous_commit') end, $1)`

/** Servers before 17 do not know it. */
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

/** Once for a connection of our own; in each transaction behind a pooler, which gives it to others in between. */
export function settings(
  { lockTimeoutMs, durability }: SessionOptions,
  { isLocal }: { isLocal: boolean },
): Query {
  // 0 would mean for ever.
  return { text, values: [isLocal, String(Math.max(1, lockTimeoutMs)), durability] }
}

/** What `synchronous_commit` is on our connections, where a server has it at this. */
export function commitSetting(set: string, durability: SessionOptions['durability']): string {
  if (durability === 'normal') return 'off'
  return undurable.includes(set) ? 'on' : set
}
