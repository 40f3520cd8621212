/**
 * Events are numbered (transaction + base) * 8192 + place. Transactions of another cluster may begin far below those
 * that wrote the events a store came with; then the base is raised, and what is told next comes after what was told.
 */
import { eventsMax } from './apply.ts'
import type { Run } from './migrate.ts'

/** The newest event of each namespace by its index; there are few namespaces and many events. */
const selectNewest = `with recursive newest (namespace, seq) as (
  (select namespace, seq from holdfast.event order by namespace desc, seq desc limit 1)
  union all
  select before.namespace, before.seq
  from newest,
  lateral (
    select e.namespace, e.seq
    from holdfast.event e
    where e.namespace < newest.namespace
    order by e.namespace desc, e.seq desc
    limit 1
  ) as before
)
select coalesce(max(seq), 0) as seq from newest`

/**
 * No event of this cluster can be of a transaction that has not begun. Counted from the oldest one that is open, so
 * that readers, who go no further than that, see what was there before.
 */
const raise = `insert into holdfast.meta (key, value)
select 'event_base', (told.seq / ${eventsMax} + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text
from (${selectNewest}) as told
where told.seq / ${eventsMax} - holdfast.event_base() >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
on conflict (key) do update set value = excluded.value`

/** At every opening, in the transaction of the migration, and after events were carried here. */
export async function raiseEventBase(run: Run): Promise<void> {
  await run(raise)
}

export async function newestEvent(run: Run): Promise<number> {
  const [row] = await run(selectNewest)
  return Number(row?.[0])
}
