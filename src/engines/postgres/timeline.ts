/**
 * Which branches of the server's history the store was used on: one row each, with the mark that identifies it. What a
 * server says about its branch comes from one statement, because behind a pooler the next one may reach another server.
 */
import type { BranchFacts } from '../../domain/branch.ts'
import { doubtfulForMs } from '../../domain/clock-check.ts'
import { isBaseTooLow, raiseBaseWith } from './event-base.ts'
import type { Run } from './migrate.ts'
import type { Row } from './plan.ts'

/** A branch that the store has marked. */
export interface MarkedBranch extends BranchFacts {
  readonly mark: string
  /** A failover to it was first noticed a moment ago. */
  readonly isRecent: boolean
}

/** There is one for each failover, and the one that a process used last is among the newest. */
const maxMarks = 1_000

/** Works with or without a store. A standby has no timeline of its own. */
export const selectHere = `select c.system_identifier::text as system,
  c.system_identifier || ' since ' || extract(epoch from pg_postmaster_start_time()) as server,
  case when pg_is_in_recovery() then 0 else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end as timeline
from pg_control_system() c`

/** Fails if there is no store. */
export const selectBranch = `select h.system, h.server, h.timeline, t.mark,
  array(select m.mark from holdfast.timeline m order by m.seen_at desc limit ${maxMarks}),
  coalesce(t.seen_at > holdfast.wall_ms() - ${doubtfulForMs} and exists (select 1 from holdfast.timeline o where o.mark <> t.mark), false)
from (${selectHere}) h
left join holdfast.timeline t on t.system = h.system and t.timeline = h.timeline`

/**
 * The second to enter finds the mark of the first. The mark is on disk before it counts, whatever the program asked
 * for: a server that forgets it in a crash would be taken for another branch.
 */
const enter = `insert into holdfast.timeline (mark, system, timeline, seen_at, by)
select $1, h.system, h.timeline, holdfast.wall_ms(), $2
from (${selectHere}) h
where set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'local' else current_setting('synchronous_commit') end, true) is not null
on conflict (system, timeline) do nothing
returning 1`

export function readBranch(row: Row): BranchFacts & Pick<MarkedBranch, 'isRecent'> {
  const [system, server, timeline, mark, marks, isRecent] = row as [
    string,
    string,
    number,
    string | null,
    string[],
    boolean,
  ]
  return { system, server, timeline: Number(timeline), mark, marks, isRecent }
}

/** What is found when a branch is entered. */
interface BranchLook {
  readonly found: ReturnType<typeof readBranch>
  /** The next events would be numbered below what readers have already seen. */
  readonly isBehind: boolean
  readonly newestSeq: number | null
}

/** Runs in a transaction and takes one round trip. */
export async function lookAtBranch(run: Run, newestSeq: number | null): Promise<BranchLook> {
  const [found, isBehind] = await Promise.all([findBranch(run), isBaseTooLow(run, newestSeq)])
  return { found, isBehind, newestSeq }
}

/**
 * Runs in the same transaction, and returns the branch of this server, marked if it was not. Events on a new branch are
 * numbered after everything that readers may have seen on the previous one.
 */
export async function enterBranch(
  run: Run,
  { found, isBehind, newestSeq }: BranchLook,
  { mark, by }: { mark: string; by: string },
): Promise<MarkedBranch> {
  if (isMarked(found) && !isBehind) return found
  const enterOnce = async () => {
    const [entered] = await run(enter, [mark, by])
    return entered !== undefined && found.marks.length > 0
  }
  await raiseBaseWith({ mark, enter: enterOnce }, run, newestSeq)
  const entered = await findBranch(run)
  if (isMarked(entered)) return entered
  throw new Error('the branch that was just marked has no mark')
}

async function findBranch(run: Run): Promise<ReturnType<typeof readBranch>> {
  const [row] = await run(selectBranch)
  return readBranch(row as Row)
}

function isMarked(branch: ReturnType<typeof readBranch>): branch is MarkedBranch {
  return branch.mark !== null
}
