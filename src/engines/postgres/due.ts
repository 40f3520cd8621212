/**
 * What may need healing, and the index that finds the first of it. Each index is asked for its first entry: asked
 * whether there is any, the planner expects many and would read the table until it meets one, which is usually never. A
 * damaged row is not healed, so it must not count as due: every claim and every sweep would try again.
 */
import { isDelayed, now, readableItem, readableLock, readableRun, unspared, wall } from './rows.ts'

export interface DueSource {
  readonly table: string
  /** Which of its rows count. */
  readonly rows: string
  /** Which of those are due. */
  readonly isDue: string
  readonly order: string
}

export function lapsedLeases(graceMs: number): readonly DueSource[] {
  return [
    {
      table: 'item',
      rows: "t.phase = 'held'",
      isDue: `coalesce(t.expires_at, 0) < ${now} ${unspared(graceMs, 'coalesce(t.expires_at, 0)')} ${readableItem}`,
      order: 'coalesce(t.expires_at, 0)',
    },
    {
      table: 'lock',
      rows: 'true',
      isDue: `t.expires_at < ${now} ${unspared(graceMs, 't.expires_at', isDelayed)} ${readableLock}`,
      order: 't.expires_at',
    },
  ]
}

export const endedDelays: readonly DueSource[] = [
  {
    table: 'item',
    rows: 't.run_at is not null',
    isDue: `t.run_at <= ${wall} ${readableItem}`,
    order: 't.run_at',
  },
  { table: 'cascade', rows: 'true', isDue: 'true', order: 't.blocker' },
]

/** What else recovery heals. */
export const otherLosses: readonly DueSource[] = [
  { table: 'lock_waiter', rows: 'true', isDue: `t.expires_at < ${now}`, order: 't.expires_at' },
  { table: 'delivery', rows: 't.agent is not null', isDue: `t.expires_at < ${now}`, order: 't.expires_at' },
]

export const orphanedRuns: DueSource = {
  table: 'run',
  rows: "t.status = 'running'",
  isDue: `not exists (
  select 1 from holdfast.lock l where l.namespace = t.namespace and l.name = t.lock and l.token = t.token
) ${readableRun}`,
  order: 't.lock',
}

/** Whether any of these is due in a namespace, given as a parameter or a column. */
export function isDueIn(sources: readonly DueSource[], namespace: string): string {
  if (sources.length === 0) return 'false'
  return sources
    .map(
      ({ table, rows, isDue, order }) =>
        `(select 1 from holdfast.${table} t where t.namespace = ${namespace} and ${rows} and ${isDue} order by ${order} limit 1) is not null`,
    )
    .join('\n  or ')
}
