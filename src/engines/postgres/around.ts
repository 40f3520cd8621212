/**
 * What a batch reads besides its rows, in one statement behind all others: the time, whether something is to be healed
 * first, and who waits for the items it names. Raises when the store has moved: a copy locks the lanes, one of which
 * the batch has written by then.
 */
import { texts } from './parameter.ts'
import type { Place, Query, Row } from './plan.ts'
import { isDelayed, now, readableItem, unspared, wall } from './rows.ts'

export type AroundPlace = Pick<Place, 'namespace' | 'manualGraceMs'>

export interface AroundWanted {
  /** It is going to write, and must not where the store has moved. */
  readonly writes: boolean
  /** It claims: what has lapsed or is due goes first. */
  readonly looksAhead: boolean
  /** Items for which others may wait. */
  readonly ids: readonly string[]
}

export interface Around {
  readonly clock: { readonly now: number; readonly wall: number }
  readonly isStale: boolean
  /** Those of the items that others wait for. */
  readonly blockers: readonly string[]
}

/**
 * Is anything stale? Each asks for the first entry of an index: asked whether there is any, the planner expects many
 * and would read the table until it meets one, which is mostly never. A damaged row is not healed, so it must not look
 * as if it were to be: every claim would try again.
 */
const isLapsed = (
  graceMs: number,
) => `(select 1 from holdfast.item t where t.namespace = $1 and t.standing = 'held' and coalesce(t.expires_at, 0) < ${now} ${unspared(graceMs, 'coalesce(t.expires_at, 0)')} ${readableItem} order by coalesce(t.expires_at, 0) limit 1) is not null
  or (select 1 from holdfast.lock t where t.namespace = $1 and t.expires_at < ${now} ${unspared(graceMs, 't.expires_at', isDelayed)} and (t.patterns is null or holdfast.is_json(t.patterns)) order by t.expires_at limit 1) is not null`

const isDue = `(select 1 from holdfast.item t where t.namespace = $1 and t.run_at <= ${wall} ${readableItem} order by t.run_at limit 1) is not null
  or (select 1 from holdfast.cascade c where c.namespace = $1 limit 1) is not null`

const blockers =
  'array(select distinct b.blocker from holdfast.blocker b where b.namespace = $1 and b.blocker = any($2::text[]))'

const moved = "(select holdfast.moved(m.value) from holdfast.meta m where m.key = 'moved')"

export function aroundQuery(
  { namespace, manualGraceMs }: AroundPlace,
  { writes, looksAhead, ids }: AroundWanted,
): Query {
  const hasIds = ids.length > 0
  const values = looksAhead || hasIds ? [namespace] : []
  return {
    text: textFor(writes, looksAhead, hasIds, manualGraceMs),
    values: hasIds ? [namespace, texts(ids)] : values,
  }
}

const known = new Map<string, string>()

function textFor(writes: boolean, looksAhead: boolean, hasIds: boolean, graceMs: number): string {
  const key = `${writes} ${looksAhead} ${hasIds} ${graceMs}`
  const text =
    known.get(key) ??
    `select holdfast.now_ms(), holdfast.wall_ms(),
${looksAhead ? `${isLapsed(graceMs)} or ${isDue}` : 'false'},
${hasIds ? blockers : 'null'},
${writes ? moved : 'null'}`
  known.set(key, text)
  return text
}

export function readAround(row: Row | undefined): Around {
  return {
    clock: { now: Number(row?.[0]), wall: Number(row?.[1]) },
    isStale: row?.[2] === true,
    blockers: (row?.[3] ?? []) as string[],
  }
}

/** Whether something has lapsed by now. */
export function lapsedQuery({ namespace, manualGraceMs }: AroundPlace): Query {
  return { text: `select ${isLapsed(manualGraceMs)}`, values: [namespace] }
}

/** Whether something has lapsed or is due by now. */
export function staleQuery({ namespace, manualGraceMs }: AroundPlace): Query {
  return { text: `select ${isLapsed(manualGraceMs)} or ${isDue}`, values: [namespace] }
}
