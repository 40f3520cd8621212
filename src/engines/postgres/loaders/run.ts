/** Progress of runs, and what became of their items. */
import type { Outcome, Run } from '../../../domain/run.ts'
import { pageOf } from '../../page.ts'
import { decodeAll, decodeReadable, Parameters, query, readableRun } from '../rows.ts'
import { tables } from '../tables.ts'
import type { Loaders } from './loader.ts'

export const runLoaders = {
  runsByName({ runs }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.run = any(${parameters.add(runs)})\norder by t.run`
    return {
      names: runs.map((run) => `run:${run}`),
      queries: runs.length === 0 ? [] : [query(scope, tables.run, 'wait', rest, parameters)],
      read: ([rows]) => decodeAll<Run>(tables.run, rows),
    }
  },

  runPage({ status, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const some = status === null ? '' : `and t.status = ${parameters.add(status)}`
    const rest = `and t.run > ${parameters.add(after ?? '')} ${some}\norder by t.run\nlimit ${parameters.add(limit + 1)}`
    return {
      queries: [query(scope, tables.run, 'none', rest, parameters)],
      searched: ['run'],
      read: ([rows]) => pageOf(decodeAll<Run>(tables.run, rows), limit, ({ run }) => run),
    }
  },

  orphanedRuns({ limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.status = 'running' and not exists (
  select 1
  from holdfast.lock l
  where l.namespace = t.namespace and l.name = t.lock and l.token = t.token
) ${readableRun}
limit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.run, 'skip', rest, parameters)],
      searched: ['run', 'lock'],
      read: ([rows]) => decodeReadable<Run>(tables.run, rows),
    }
  },

  runsEndedBefore({ before, isTrimmed, limit }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.ended_at <= ${parameters.add(before)} and t.outcomes_removed_at is ${isTrimmed ? 'not null' : 'null'}\norder by t.ended_at\nlimit ${parameters.add(limit)}`
    return {
      queries: [query(scope, tables.run, 'skip', rest, parameters)],
      searched: ['run'],
      read: ([rows]) => decodeAll<Run>(tables.run, rows),
    }
  },

  runsHalfTrimmed({ newest }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.run in (
  select n.run
  from holdfast.run n
  where n.namespace = $1 and n.outcomes_removed_at is not null
  order by n.ended_at desc
  limit ${parameters.add(newest)}
) and exists (
  select 1
  from holdfast.outcome o
  where o.namespace = t.namespace and o.run = t.run
)
limit 1`
    return {
      queries: [query(scope, tables.run, 'skip', rest, parameters)],
      searched: ['run', 'outcome'],
      read: ([rows]) => decodeAll<Run>(tables.run, rows),
    }
  },

  outcomesById({ ids }, scope) {
    const parameters = new Parameters(scope)
    const rest = `and t.id = any(${parameters.add(ids)})\norder by t.id`
    return {
      // No names: outcomes are written by commands that load their run, which has one.
      queries: ids.length === 0 ? [] : [query(scope, tables.outcome, 'wait', rest, parameters)],
      read: ([rows]) => decodeAll<Outcome>(tables.outcome, rows),
    }
  },

  outcomesOf({ run, outcome, after, limit }, scope) {
    const parameters = new Parameters(scope)
    const some = outcome === null ? '' : `and t.outcome = ${parameters.add(outcome)}`
    const rest = `and t.run = ${parameters.add(run)} and t.id > ${parameters.add(after ?? '')} ${some}\norder by t.id\nlimit ${parameters.add(limit + 1)}`
    return {
      names: [`run:${run}`],
      queries: [query(scope, tables.outcome, 'wait', rest, parameters)],
      searched: ['outcome'],
      read: ([rows]) => pageOf(decodeAll<Outcome>(tables.outcome, rows), limit, ({ id }) => id),
    }
  },
} satisfies Partial<Loaders>
