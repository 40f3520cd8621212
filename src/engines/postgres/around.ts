/**
 * What a batch reads besides its rows, in one statement after all others: the time, whether something has to be healed
 * first, and which of the items it names others wait for. Raises an error if the store has moved: a copy locks the
 * lanes, and by then the batch has written one of them.
 */

import { QueryTexts } from '../query-texts.ts'
import { endedDelays, isDueIn, lapsedLeases } from './due.ts'
import { texts } from './parameter.ts'
import type { PlanScope, Query, Row } from './plan.ts'

export type AroundScope = Pick<PlanScope, 'namespace' | 'manualGraceMs'>

export interface AroundWanted {
  /** The batch is going to write, and must not if the store has moved. */
  readonly writes: boolean
  /** The batch claims: what has lapsed or is due goes first. */
  readonly checksLapsed: boolean
  /** Items that others may wait for. */
  readonly ids: readonly string[]
}

export interface Around {
  readonly clock: { readonly now: number; readonly wall: number }
  readonly isStale: boolean
  /** Which of the items others wait for. */
  readonly blockers: readonly string[]
}

const isLapsed = (graceMs: number) => isDueIn(lapsedLeases(graceMs), '$1')

const isDue = isDueIn(endedDelays, '$1')

const blockers =
  'array(select distinct b.blocker from holdfast.blocker b where b.namespace = $1 and b.blocker = any($2::text[]))'

const moved = "(select holdfast.moved(m.value) from holdfast.meta m where m.key = 'moved')"

export function aroundQuery(
  { namespace, manualGraceMs }: AroundScope,
  { writes, checksLapsed, ids }: AroundWanted,
): Query {
  const hasIds = ids.length > 0
  const values = checksLapsed || hasIds ? [namespace] : []
  return {
    text: textFor(writes, checksLapsed, hasIds, manualGraceMs),
    values: hasIds ? [namespace, texts(ids)] : values,
  }
}

const known = new QueryTexts()

function textFor(writes: boolean, checksLapsed: boolean, hasIds: boolean, graceMs: number): string {
  const key = `${writes} ${checksLapsed} ${hasIds} ${graceMs}`
  return known.of(
    key,
    () => `select holdfast.now_ms(), holdfast.wall_ms(),
${checksLapsed ? `${isLapsed(graceMs)} or ${isDue}` : 'false'},
${hasIds ? blockers : 'null'},
${writes ? moved : 'null'}`,
  )
}

export function readAround(row: Row | undefined): Around {
  return {
    clock: { now: Number(row?.[0]), wall: Number(row?.[1]) },
    isStale: row?.[2] === true,
    blockers: (row?.[3] ?? []) as string[],
  }
}

/** Whether something has lapsed by now. */
export function lapsedQuery({ namespace, manualGraceMs }: AroundScope): Query {
  return { text: `select ${isLapsed(manualGraceMs)}`, values: [namespace] }
}

/** Whether something has lapsed or is due by now. */
export function staleQuery({ namespace, manualGraceMs }: AroundScope): Query {
  return { text: `select ${isLapsed(manualGraceMs)} or ${isDue}`, values: [namespace] }
}
