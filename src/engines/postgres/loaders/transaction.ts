/** What others do on the server, as far as this store's role may see: open transactions, and the locks they hold. */
import type { LockBlocker, OpenTransaction } from '../../../domain/store-check.ts'
import type { Loaders } from './loader.ts'

/**
 * Only transactions that hold something back: events wait for any that has written, in any database of the server; rows
 * are kept for any that has read in this one.
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

/**
 * Everybody can see in pg_locks who holds what. A lock counts as the store's if a role that uses the store waits for
 * it; locks of strangers are reported in any case.
 */
const lockBlockers = `with store as materialized (
  select l.tableoid as id from holdfast.lane l limit 1
),
waiter as materialized (
  select l.pid, l.classid, l.objid, l.waitstart
  from pg_locks l
  join pg_stat_activity v on v.pid = l.pid and has_table_privilege(v.usesysid, (select s.id from store s), 'INSERT')
  where l.locktype = 'advisory' and not l.granted and l.objsubid = 1
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
),
holder as materialized (
  select
    l.pid, l.classid, l.objid,
    coalesce(a.usename, '') as role,
    coalesce(a.application_name, '') as program,
    coalesce(has_table_privilege(a.usesysid, (select s.id from store s), 'INSERT'), false) as uses_store
  from pg_locks l
  join pg_stat_activity a on a.pid = l.pid
  where l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
)
select
  h.pid,
  h.role,
  h.program,
  h.uses_store,
  count(distinct w.pid),
  coalesce(max(floor(extract(epoch from clock_timestamp() - w.waitstart) * 1000)::bigint), 0)
from holder h
left join waiter w on w.pid <> h.pid and w.classid = h.classid and w.objid = h.objid
where w.pid is not null or not h.uses_store
group by h.pid, h.role, h.program, h.uses_store
order by 5 desc, 6 desc
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
