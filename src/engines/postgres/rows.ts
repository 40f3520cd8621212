/** Queries for rows as the rules see them, and the rows read from their answers. */
import type { OfInstances } from '../../port/instance.ts'
import { DamagedRowError, rowWithoutDamage } from '../row.ts'
import type { Schema } from '../schema.ts'
import type { PlanScope, Query, Row } from './plan.ts'
import { columnName, columnsOf, decode, youngerAt } from './tables.ts'

/** Clocks in conditions. As subqueries they are read once, so that indexes can be searched by them. */
export const now = '(select holdfast.now_ms())'
export const wall = '(select holdfast.wall_ms())'

/** Items whose JSON can be read. Expensive to check, so used only where damaged rows would be in the way. */
export const readableItem = ['data', 'waiting_for', 'ancestors', 'blockers']
  .map((column) => `and holdfast.is_json(t.${column})`)
  .join(' ')

/** Locks whose patterns can be read. A damaged reservation stays in the store, and blocks nothing. */
export const readableLock = 'and (t.patterns is null or holdfast.is_json(t.patterns))'

/** Runs whose cursor can be read. */
export const readableRun = 'and (t.cursor is null or holdfast.is_json(t.cursor))'

/** Leaves out leases that nobody renews and that the store still spares; empty where it spares none. */
export function unspared(manualGraceMs: number, expiry: string, unless = ''): string {
  return manualGraceMs === 0
    ? ''
    : `and (t.instance is not null ${unless} or ${expiry} < ${now} - ${manualGraceMs})`
}

/** Kept for a delay, so there is no holder to spare. */
export const isDelayed = 'or t.delayed_since is not null'

/** Values of one query. The namespace is always the first; the others are numbered as the text is written. */
export class Parameters {
  readonly values: unknown[]

  constructor({ namespace }: PlanScope) {
    this.values = [namespace]
  }

  /** Returns the placeholder for the value. */
  add(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }
}

/** What these processes hold, all of it or one agent's. */
export function ofInstances(
  { instances, agent }: Pick<OfInstances, 'instances' | 'agent'>,
  parameters: Parameters,
): string {
  const itsOwn = agent === undefined ? '' : `and t.agent = ${parameters.add(agent)}`
  return `and t.instance = any(${parameters.add(instances)}) ${itsOwn}`
}

/**
 * How rows are locked for a decision: `wait` for those it names and those it must not miss; `skip` those that others
 * are working on, if it comes back another time; `none` for those it only looks at.
 */
export type Hold = 'wait' | 'skip' | 'none'

/** Locks the rows that the query finds, aliased `t`. */
export function locking(query: Query, { locks }: Pick<PlanScope, 'locks'>, hold: Hold): Query {
  if (!locks || hold === 'none') return query
  return { ...query, text: `${query.text}${lockClauses[hold]}`, hold }
}

/** For texts that are kept, or that lock the rows of a subquery. */
export function skipClause({ locks }: Pick<PlanScope, 'locks'>): string {
  return locks ? lockClauses.skip : ''
}

const lockClauses = {
  wait: '\nfor no key update of t',
  skip: '\nfor no key update of t skip locked',
}

/** Rows of a table, aliased `t`; `rest` follows the condition on the namespace. */
export function query(
  scope: PlanScope,
  table: Schema,
  hold: Hold,
  rest: string,
  parameters = new Parameters(scope),
): Query {
  const text = `select ${columnsOf(table)}\nfrom holdfast.${table.name} t\nwhere t.namespace = $1 ${rest}`
  return locking({ text, values: parameters.values, youngerAt: youngerAt(table) }, scope, hold)
}

/** The columns of a table other than the one whose rows are asked for. */
export function columnsFrom(table: Schema, alias: string): string {
  return table.columns.map((column) => `${alias}.${columnName(column)}`).join(', ')
}

export function decodeAll<Result>(table: Schema, rows: readonly Row[] | undefined): Result[] {
  return (rows ?? []).map((row) => decode<Result>(table, row))
}

export function decodeFirst<Result>(table: Schema, rows: readonly Row[] | undefined): Result | null {
  const row = rows?.[0]
  return row ? decode<Result>(table, row) : null
}

/**
 * A row with damaged JSON cannot be decided on; it is left out, so that it keeps no others from healing. A query with a
 * limit leaves it out itself: a page of damaged rows would hide what comes after them.
 */
export function decodeReadable<Result>(table: Schema, rows: readonly Row[] | undefined): Result[] {
  return (rows ?? []).flatMap((row) => {
    const found = decodeIfReadable<Result>(table, row)
    return found === null ? [] : [found]
  })
}

export function decodeIfReadable<Result>(table: Schema, row: Row): Result | null {
  try {
    return decode<Result>(table, row)
  } catch (error) {
    if (error instanceof DamagedRowError) return null
    throw error
  }
}

/** For pages, which end where the rows found end, even if some of them cannot be read. */
export function decodeFound<Result>(table: Schema, rows: readonly Row[] | undefined) {
  return (rows ?? []).map((row) => {
    const whole = decodeIfReadable<Result>(table, row)
    return { row: whole ?? rowWithoutDamage<Result>(table, row), isWhole: whole !== null }
  })
}

/** For tables whose rules can do without it: JSON that cannot be read becomes null. */
export function decodeDamaged<Result>(table: Schema, rows: readonly Row[] | undefined): Result[] {
  return (rows ?? []).map((row) => rowWithoutDamage<Result>(table, row))
}
