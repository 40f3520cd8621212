/** Transactions that others have open on the server, as far as the role of this store may see them. */
import type { OpenTransaction } from '../../../domain/open-transaction.ts'
import type { Loaders } from './loader.ts'

/**
 * Only what keeps something back: events wait for whatever has written, in any database of the server; rows are kept
 * for what has read in this one.
 */
const text = `select t.pid, t.role, t.program, t.state, t.open_for_ms, t.has_written
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

export const transactionLoaders = {
  longTransactions: ({ openForMs, limit }) => ({
    queries: [{ text, values: [openForMs, limit] }],
    read: ([rows]) =>
      (rows ?? []).map(
        ([pid, role, program, state, openMs, hasWritten]) =>
          ({ pid, role, program, state, openForMs: openMs, hasWritten }) as OpenTransaction,
      ),
  }),
} satisfies Partial<Loaders>
