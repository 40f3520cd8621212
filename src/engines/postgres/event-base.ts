/**
 * Events are numbered (transaction + base) * 8192 + index. The transactions of another cluster, or of another branch of
 * a server's history, may begin below those whose events readers have already seen. The base is then raised, so that
 * new events come after those.
 */
import { HoldfastError } from '../../errors.ts'
import { maxEvents } from './apply.ts'
import type { Run } from './migrate.ts'

/** The newest event of each namespace, found by the index: there are few namespaces and many events. */
const selectNewest = `with recursive newest (namespace, seq, at) as (
  (select namespace, seq, at from holdfast.event order by namespace desc, seq desc limit 1)
  union all
  select before.namespace, before.seq, before.at
  from newest,
  lateral (
    select e.namespace, e.seq, e.at
    from holdfast.event e
    where e.namespace < newest.namespace
    order by e.namespace desc, e.seq desc
    limit 1
  ) as before
)
select coalesce(max(seq), 0) as seq, max(at) as at from newest`

/**
 * Another branch of the server's history reuses the ids of transactions that this one never had, and readers may have
 * seen those. So its numbers begin this far ahead. A branch that lived longer is known to the processes that used it.
 */
const branchStep = 2 ** 20

/**
 * Two branches of one parent know nothing of each other, and readers leave the one that was entered first. So the later
 * one begins higher: by this much for each millisecond since the parent was last heard from, which is more transactions
 * than a server begins in that time.
 */
const stepPerMs = 16
/**
 * Two branches that are both entered later than this, 18 h, begin alike, so that no failover can use up the numbers.
 */
const maxStepMs = 2 ** 26

/** Heard from through an event, a batch, or the mark of another branch. */
const selectHeardAt = `select greatest(
  (select newest.at from (${selectNewest}) as newest),
  (select max(l.at) from holdfast.lane l),
  (select max(t.seen_at) from holdfast.timeline t where t.mark <> $1)
)`

const selectStep = `select ${branchStep} + ${stepPerMs} * least(${maxStepMs}, greatest(0, holdfast.wall_ms() - heard.at))
from (${selectHeardAt}) as heard (at)`

/** Event numbers have to fit a JavaScript number. */
const maxTransactions = 2 ** 53 / maxEvents
/** How many are left for running processes when the store is refused to new ones. */
const transactionsKept = 2 ** 32

/**
 * No event of this cluster can belong to a transaction that has not begun. Counted from the oldest open transaction, so
 * that readers, who go no further than that, see what was there before. The first base lets a store begin at 1, however
 * many transactions its server has seen.
 */
const selectBase = `select known.base as base,
  greatest(
    known.base,
    case when known.base is null or newestSeq.seq / ${maxEvents} - known.base >= x.next then newestSeq.seq / ${maxEvents} + 1 - x.oldest end,
    known.base + $1::bigint,
    $2::bigint - x.oldest
  ) as wanted,
  x.next as next
from (${selectNewest}) as newestSeq,
(select (select m.value::bigint from holdfast.meta m where m.key = 'event_base') as base) as known,
(select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) as x`

const isTooLow = `select b.base is distinct from b.wanted, b.next + b.wanted
from (${selectBase}) as b`

const raise = `insert into holdfast.meta (key, value)
select 'event_base', b.wanted::text
from (${selectBase}) as b
on conflict (key) do update set value = excluded.value`

/**
 * Once this lock is granted, batches that write events under the old base have committed, and later ones read the new
 * base: a batch writes its lane before anything else.
 */
const lockLanes = 'lock table holdfast.lane in share row exclusive mode'

/** Whether the base is too low, if readers may have seen events up to `newestSeq`: a transaction plus base. */
export async function isBaseTooLow(run: Run, newestSeq: number | null): Promise<boolean> {
  const [row] = await run(isTooLow, [0, newestSeq])
  assertNumbersLeft(Number(row?.[1]))
  return row?.[0] === true
}

/**
 * Runs in one transaction with the mark of a new branch. `enter` returns whether it wrote the mark and other branches
 * were there before.
 */
export async function raiseBaseWith(
  { mark, enter }: { mark: string; enter: () => Promise<boolean> },
  run: Run,
  newestSeq: number | null,
): Promise<void> {
  await run(lockLanes)
  const isNewBranch = await enter()
  const [row] = isNewBranch ? await run(selectStep, [mark]) : []
  await run(raise, [Number(row?.[0] ?? 0), newestSeq === null ? null : newestSeq + branchStep])
}

/** Runs after a copy has brought events here. */
export async function raiseEventBase(run: Run): Promise<void> {
  await run(raise, [0, null])
}

function assertNumbersLeft(transactions: number): void {
  if (transactions <= maxTransactions - transactionsKept) return
  throw new HoldfastError('STORE_UNFIT', {
    what: 'this store has run out of event numbers: they are counted by the transactions of its server, of which it has seen 2^40',
    next: 'start a new store in another schema and move the open work there; its numbers start at 1',
    facts: { transactions },
  })
}

/** How far readers may have read the events by now. */
export const newestSeq = 'pg_snapshot_xmax(pg_current_snapshot())::text::bigint + holdfast.event_base()'

export async function newestEvent(run: Run): Promise<number> {
  const [row] = await run(selectNewest)
  return Number(row?.[0])
}
