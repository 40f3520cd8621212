/**
 * What a batch reads besides its rows, in one statement after all others: the time, whether something has to be healed
 * first, and which of the items it names others wait for. Raises an error if the store has moved: a copy locks the
 * lanes, and by then the batch has written one of them.
 */

import { QueryTexts } from '../query-texts.ts'
import { type LastMarks, lastMarks } from './clock-mark.ts'
import { endedDelays, isDueIn, lapsedLeases } from './due.ts'
import { newestSeq } from './event-base.ts'
import { texts } from './parameter.ts'
import type { PlanScope, Query, Row } from './plan.ts'
import { type StandbyLists, standbyLists } from './standbys.ts'

export type AroundScope = Pick<PlanScope, 'namespace' | 'manualGraceMs'>

export interface AroundWanted {
  /** The batch is going to write, and must not if the store has moved. */
  readonly writes: boolean
  /** The batch claims: what has lapsed or is due goes first. */
  readonly checksLapsed: boolean
  /** Items that others may wait for. */
  readonly ids: readonly string[]
  /** Read what the process has to know about its server from time to time; otherwise that would be a transaction. */
  readonly readsServer: boolean
}

/** What can change on a server without a new connection. */
export interface ServerNews {
  /** The server's clock at this moment. */
  readonly now: number
  readonly checked: LastMarks
  /** How far readers may have read the events: the transaction number plus the base. */
  readonly newestSeq: number
  readonly standbys: StandbyLists
}

export interface Around {
  readonly clock: { readonly now: number; readonly wall: number }
  readonly isStale: boolean
  /** Which of the items others wait for. */
  readonly blockers: readonly string[]
  readonly server: ServerNews | null
}

const isLapsed = (graceMs: number) => isDueIn(lapsedLeases(graceMs), '$1')

const isDue = isDueIn(endedDelays, '$1')

const blockers =
  'array(select distinct b.blocker from holdfast.blocker b where b.namespace = $1 and b.blocker = any($2::text[]))'

const moved = "(select holdfast.moved(m.value) from holdfast.meta m where m.key = 'moved')"

export function aroundQuery(
  { namespace, manualGraceMs }: AroundScope,
  { writes, checksLapsed, ids, readsServer }: AroundWanted,
): Query {
  const hasIds = ids.length > 0
  const values = checksLapsed || hasIds ? [namespace] : []
  return {
    text: textFor({ writes, checksLapsed, hasIds, readsServer, manualGraceMs }),
    values: hasIds ? [namespace, texts(ids)] : values,
  }
}

const known = new QueryTexts()

interface Parts extends Omit<AroundWanted, 'ids'> {
  readonly hasIds: boolean
  readonly manualGraceMs: number
}

function textFor({ writes, checksLapsed, hasIds, readsServer, manualGraceMs }: Parts): string {
  const key = `${writes} ${checksLapsed} ${hasIds} ${readsServer} ${manualGraceMs}`
  return known.of(
    key,
    () => `select holdfast.now_ms(), holdfast.wall_ms(),
${checksLapsed ? `${isLapsed(manualGraceMs)} or ${isDue}` : 'false'},
${hasIds ? blockers : 'null'},
${writes ? moved : 'null'}${readsServer ? `,\n${lastMarks},\n${newestSeq},\n${standbyLists}` : ''}`,
  )
}

export function readAround(row: Row | undefined): Around {
  return {
    clock: { now: Number(row?.[0]), wall: Number(row?.[1]) },
    isStale: row?.[2] === true,
    blockers: (row?.[3] ?? []) as string[],
    server: row === undefined || row[5] === undefined ? null : readServer(row),
  }
}

export function readServer([
  now,
  ,
  ,
  ,
  ,
  checkedAt,
  behindPoolerAt,
  newestSeq,
  list,
  lastSet,
]: Row): ServerNews {
  return {
    now: Number(now),
    checked: { at: Number(checkedAt), behindPoolerAt: Number(behindPoolerAt) },
    newestSeq: Number(newestSeq),
    standbys: { list: list as string, lastSet: lastSet as string | null },
  }
}

/** At open, before there is a batch. */
export const serverQuery: Query = {
  text: textFor({ writes: false, checksLapsed: false, hasIds: false, readsServer: true, manualGraceMs: 0 }),
  values: [],
}

/** Whether something has lapsed by now. */
export function lapsedQuery({ namespace, manualGraceMs }: AroundScope): Query {
  return { text: `select ${isLapsed(manualGraceMs)}`, values: [namespace] }
}

/** Whether something has lapsed or is due by now. */
export function staleQuery({ namespace, manualGraceMs }: AroundScope): Query {
  return { text: `select ${isLapsed(manualGraceMs)} or ${isDue}`, values: [namespace] }
}
