/** Progress of runs, and what became of their items. */
import type { Outcome, Run } from '../../../domain/run.ts'
import { pageOf } from '../../page.ts'
import type { Value } from '../driver.ts'
import { inList, type Source, select, selectBy } from '../rows.ts'
import { decode, tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

const selectRun = select(tables.run)
const selectOutcome = select(tables.outcome)

const selectRunning = selectBy(tables.run, 'run_running')
const selectOutcomeOfRun = selectBy(tables.outcome, 'outcome_of_run')

function runs(source: Source, sql: string, ...values: Value[]): Run[] {
  return source.connection.all(sql, source.namespace, ...values).map((row) => decode<Run>(tables.run, row))
}

function outcomes(source: Source, sql: string, ...values: Value[]): Outcome[] {
  return source.connection
    .all(sql, source.namespace, ...values)
    .map((row) => decode<Outcome>(tables.outcome, row))
}

export const runLoaders = {
  runsByName: (source, { runs: names }) =>
    names.length === 0
      ? []
      : runs(
          source,
          `${selectRun}\nwhere namespace = ? and run in (select value from json_each(?))`,
          inList(names),
        ),

  runPage(source, { status, after, limit }) {
    const some = status === null ? '' : 'and status = ?'
    const rows = runs(
      source,
      `${selectRun}\nwhere namespace = ? and run > ? ${some}\norder by run\nlimit ${limit + 1}`,
      after ?? '',
      ...(status === null ? [] : [status]),
    )
    return pageOf(rows, limit, ({ run }) => run)
  },

  orphanedRuns: (source, { limit }) =>
    runs(
      source,
      `${selectRunning}
where namespace = ? and status = 'running' and (cursor is null or json_valid(cursor)) and not exists (
  select 1
  from lock
  where lock.namespace = run.namespace and lock.name = run.lock and lock.token = run.token
)
limit ${limit}`,
    ),

  runsEndedBefore: (source, { before, isTrimmed, limit }) =>
    runs(
      source,
      `${selectRun}\nwhere namespace = ? and ended_at <= ? and outcomes_removed_at is ${isTrimmed ? 'not null' : 'null'}\norder by ended_at\nlimit ${limit}`,
      BigInt(before),
    ),

  runsHalfTrimmed: (source, { newest }) =>
    runs(
      source,
      `${selectRun}
where namespace = ?1 and run in (
  select run
  from run
  where namespace = ?1 and outcomes_removed_at is not null
  order by ended_at desc
  limit ${newest}
) and exists (
  select 1
  from outcome
  where outcome.namespace = run.namespace and outcome.run = run.run
)
limit 1`,
    ),

  outcomesById: (source, { ids }) =>
    ids.length === 0
      ? []
      : outcomes(
          source,
          `${selectOutcome}\nwhere namespace = ? and id in (select value from json_each(?))`,
          inList(ids),
        ),

  outcomesOf(source, { run, outcome, after, limit }) {
    const some = outcome === null ? '' : 'and outcome = ?'
    const rows = outcomes(
      source,
      `${selectOutcomeOfRun}\nwhere namespace = ? and run = ? and id > ? ${some}\norder by id\nlimit ${limit + 1}`,
      run,
      after ?? '',
      ...(outcome === null ? [] : [outcome]),
    )
    return pageOf(rows, limit, ({ id }) => id)
  },
} satisfies Partial<Loaders>
