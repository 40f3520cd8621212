/** Queries for rows as the rules see them, and the rows read from their answers. */
import { DamagedRowError, rowWithoutDamage } from '../row.ts'
import type { Schema } from '../schema.ts'
import type { PlanScope, Query, Row } from './plan.ts'
import { columnName, columnsOf, decode, youngerAt } from './tables.ts'

/** Clocks in conditions. As queries of their own they are read once, so that indexes can be searched by them. */
export const now = '(select holdfast.now_ms())'
export const wall = '(select holdfast.wall_ms())'

/** Items whose JSON can be read. Dear to ask, so only where damaged rows would stand in the way. */
export const readableItem = ['data', 'waiting_for', 'ancestors', 'blockers']
  .map((column) => `and holdfast.is_json(t.${column})`)
  .join(' ')

/** Without leases that nobody renews and that the store still spares; nothing where it spares none. */
export function unspared(manualGraceMs: number, expiry: string, unless = ''): string {
  return manualGraceMs === 0
    ? ''
    : `and (t.instance is not null ${unless} or ${expiry} < ${now} - ${manualGraceMs})`
}

/** Kept for a delay: there is no holder to spare. */
export const isDelayed = 'or t.delayed_since is not null'

/** Values of one query. The namespace is always the first; the others get their places as the text is written. */
export class Parameters {
  readonly values: unknown[]

  constructor({ namespace }: PlanScope) {
    this.values = [namespace]
  }

  /** Answers how the value is written in the text. */
  add(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }
}

/**
 * How rows are locked for a decision: `wait` for those it names, and those it must not miss; `skip` what others are
 * at work on, where it comes back another time; `none` for what is only looked at.
 */
export type Hold = 'wait' | 'skip' | 'none'

export function lockClause(scope: Pick<PlanScope, 'locks'>, hold: Hold): string {
  if (!scope.locks || hold === 'none') return ''
  return `\nfor no key update of t${hold === 'skip' ? ' skip locked' : ''}`
}

/** Rows of a table, called `t`; `rest` goes on after the namespace. */
export function query(
  scope: PlanScope,
  table: Schema,
  hold: Hold,
  rest: string,
  parameters = new Parameters(scope),
): Query {
  return {
    text: `select ${columnsOf(table)}\nfrom holdfast.${table.name} t\nwhere t.namespace = $1 ${rest}${lockClause(scope, hold)}`,
    values: parameters.values,
    youngerAt: youngerAt(table),
  }
}

/** The columns of a table that is not the one whose rows are asked for. */
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

/** A row whose JSON was damaged cannot be decided on; it is left out, so that it keeps no others from healing. */
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

/** For pages, which end where what was found ends, also where some of it cannot be read. */
export function decodeFound<Result>(table: Schema, rows: readonly Row[] | undefined) {
  return (rows ?? []).map((row) => {
    const whole = decodeIfReadable<Result>(table, row)
    return { row: whole ?? rowWithoutDamage<Result>(table, row), isWhole: whole !== null }
  })
}

/** For tables whose rules can do without: JSON that cannot be read is null. */
export function decodeDamaged<Result>(table: Schema, rows: readonly Row[] | undefined): Result[] {
  return (rows ?? []).map((row) => rowWithoutDamage<Result>(table, row))
}
