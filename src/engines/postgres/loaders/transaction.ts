/** What others do on the server, as far as the role of this store may see: open transactions, and locks they hold. */
import type { LockBlocker } from '../../../domain/foreign-lock.ts'
import type { OpenTransaction } from '../../../domain/open-transaction.ts'
import type { Loaders } from './loader.ts'

/**
 * Only what keeps something back: events wait for whatever has written, in any database of the server; rows are kept
 * for what has read in this one.
 */
const longTransactions = `select t.pid, t.role, t.program, t.state, t.open_for_ms, t.has_written
from (
  select
    a.pid,
    coalesce(a.usename, '') as role,
    coalesce(a.application_name, '') as program,
    coalesce(a.state, '') as state,
    floor(extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as open_for_ms,
    a.backend_xid is not null as has_written
  from pg_stat_activity a
  where a.backend_type = 'client backend'
    and a.pid <> pg_backend_pid()
    and (a.backend_xid is not null or (a.backend_xmin is not null and a.datname = current_database()))
  union all
  select
    null,
    p.owner,
    p.gid,
    'prepared',
    floor(extract(epoch from clock_timestamp() - p.prepared) * 1000)::bigint,
    true
  from pg_prepared_xacts p
) t
where t.open_for_ms >= $1
order by t.open_for_ms desc
limit $2`

/** Everybody sees in pg_locks who holds what. A lock of the store is one that a role which uses the store waits for. */
const lockBlockers = `with store as materialized (
  select l.tableoid as id from holdfast.lane l limit 1
)
select
  h.pid,
  coalesce(a.usename, ''),
  coalesce(a.application_name, ''),
  coalesce(has_table_privilege(a.usesysid, (select s.id from store s), 'INSERT'), false),
  count(distinct w.pid),
  coalesce(max(floor(extract(epoch from clock_timestamp() - w.waitstart) * 1000)::bigint), 0)
from pg_locks w
join pg_stat_activity v on v.pid = w.pid and has_table_privilege(v.usesysid, (select s.id from store s), 'INSERT')
join pg_locks h on h.locktype = 'advisory' and h.granted and h.pid <> w.pid
  and h.database = w.database and h.classid = w.classid and h.objid = w.objid and h.objsubid = w.objsubid
left join pg_stat_activity a on a.pid = h.pid
where w.locktype = 'advisory' and not w.granted and w.objsubid = 1
  and w.database = (select d.oid from pg_database d where d.datname = current_database())
group by h.pid, a.usename, a.application_name, a.usesysid
order by 6 desc
limit $1`

export const transactionLoaders = {
  longTransactions: ({ openForMs, limit }) => ({
    queries: [{ text: longTransactions, values: [openForMs, limit] }],
    read: ([rows]) =>
      (rows ?? []).map(
        ([pid, role, program, state, openMs, hasWritten]) =>
          ({ pid, role, program, state, openForMs: openMs, hasWritten }) as OpenTransaction,
      ),
  }),
  lockBlockers: ({ limit }) => ({
    queries: [{ text: lockBlockers, values: [limit] }],
    read: ([rows]) =>
      (rows ?? []).map(
        ([pid, role, program, usesStore, waiting, waitedMs]) =>
          ({ pid, role, program, usesStore, waiting, waitedMs }) as LockBlocker,
      ),
  }),
} satisfies Partial<Loaders>
