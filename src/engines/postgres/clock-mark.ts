/**
 * The mark that processes leave in the store when the server's clock agrees with their own. A process that opens the
 * store has nothing to compare that clock with, so it goes by the mark: a clock that jumped has left it behind.
 */
import { type ClockCheck, decideDoubtMs, doubtfulForMs } from '../../domain/clock-check.ts'
import { type Environment, pause } from '../../environment.ts'
import type { ServerClock } from './clock.ts'
import type { Connection } from './connection.ts'
import { lockNumber } from './names.ts'
import type { Query, Row } from './plan.ts'

/** The mark is written at most this often, whoever writes it. */
const markEveryMs = 1_000
/** How long healing at open waits for a fresh mark. */
const waitMs = 2_000
const lookEveryMs = 100

const checkedKey = 'clock_checked_at'
const pooledKey = 'clock_checked_behind_pooler_at'

/**
 * A process that renews leases holds this lock on its side connection for as long as it does so. Every role can see the
 * lock, and it goes away with the connection.
 */
const enter = 'select pg_try_advisory_lock_shared($1)'
const isAnyoneThere = `exists (
  select 1
  from pg_locks l
  where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.pid <> pg_backend_pid()
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and l.classid::bigint = ($1::bigint >> 32) & 4294967295
  and l.objid::bigint = $1::bigint & 4294967295
)`

/** A value that is no number counts as missing: every batch reads it, and none may fail because of it. */
function numberIn(column: string): string {
  return `case when ${column} ~ '^[0-9]{1,18}$' then ${column}::bigint end`
}

function isStale(column: string): string {
  return `coalesce(${numberIn(column)} <= $2::bigint - ${markEveryMs} or ${numberIn(column)} > holdfast.now_ms(), true)`
}

/** When a running process last found the clock right, and when one behind a pooler did; 0: never. */
export interface LastMarks {
  readonly at: number
  readonly behindPoolerAt: number
}

/** Columns of a query. */
export const lastMarks = [checkedKey, pooledKey]
  .map((key) => `coalesce((select ${numberIn('m.value')} from holdfast.meta m where m.key = '${key}'), 0)`)
  .join(',\n')

const look = `select holdfast.now_ms(),
${lastMarks},
(select m.value from holdfast.meta m where m.key = 'clock_unchecked'),
${isAnyoneThere},
extract(epoch from clock_timestamp() - pg_postmaster_start_time()) between 0 and ${doubtfulForMs / 1000}`

/** Nothing depends on these being on disk. A mark in the future dates from before the clock was set back. */
const mark = `insert into holdfast.meta as m (key, value)
select given.key, $2::bigint::text
from unnest($1::text[]) as given (key)
left join holdfast.meta known on known.key = given.key
where set_config('synchronous_commit', 'off', true) is not null
and (${isStale('known.value')})
order by given.key
on conflict (key) do update set value = excluded.value
where ${isStale('m.value')}`

const noteUnchecked = `insert into holdfast.meta (key, value)
select 'clock_unchecked', $1
where set_config('synchronous_commit', 'off', true) is not null
on conflict (key) do update set value = excluded.value`

export interface ClockMarkOptions {
  readonly environment: Environment
  readonly clock: ServerClock
  readonly schema: string
  readonly isPooled: boolean
  /** This process renews leases, and so checks the clock again and again. */
  readonly beats: boolean
}

export class ClockMark {
  readonly #options: ClockMarkOptions
  readonly #number: string
  readonly #openedAt: number
  readonly #look: Query
  readonly #mark: Query
  #askedAt: number

  constructor(options: ClockMarkOptions) {
    const { environment, clock, schema, isPooled } = options
    this.#options = options
    this.#number = lockNumber(schema, '', 'beats')
    this.#openedAt = environment.monotonic()
    this.#askedAt = this.#openedAt
    this.#look = { text: look, values: [this.#number] }
    const keys = isPooled ? [checkedKey, pooledKey] : [checkedKey]
    this.#mark = {
      text: mark,
      /** Not the time of writing, which nobody has compared with anything: the clock may have jumped since. */
      get values() {
        return [keys, clock.checkedAt]
      },
    }
  }

  /** Runs when the store is opened, and decides whether the clock is in doubt at first. */
  async look(connection: Connection): Promise<void> {
    const askedAt = this.#options.environment.monotonic()
    const [row] = await connection.send(this.#look)
    const check = this.#hear(row, askedAt)
    if (check === null || decideDoubtMs(check) < doubtfulForMs) return
    const note = { text: noteUnchecked, values: [`${check.checkedAt} ${check.now}`] }
    await connection.send(note)
  }

  /** Waits until the clock is no longer in doubt, but not for long. */
  async wait(connection: Connection): Promise<void> {
    const { environment, clock } = this.#options
    while (clock.isUnchecked && environment.monotonic() - this.#openedAt < waitMs) {
      await pause(environment, lookEveryMs)
      const askedAt = environment.monotonic()
      const [row] = await connection.send(this.#look)
      this.#hear(row, askedAt)
    }
  }

  /** From now on others see this process. The mark goes first, or they would doubt a clock that it does not. */
  enter(connection: Connection): void {
    const { beats, isPooled, clock } = this.#options
    if (!beats) return
    const queries = [
      ...(clock.isDoubtful ? [] : [this.#mark]),
      ...(isPooled ? [] : [{ text: enter, values: [this.#number] }]),
    ]
    // A connection that fails is found again, and then this runs again.
    for (const query of queries) connection.send(query).catch(() => {})
  }

  /** Whether to look again whether the clock is right: often, until that is known. */
  get isLookDue(): boolean {
    const { environment, clock } = this.#options
    return clock.isUnchecked && environment.monotonic() - this.#askedAt >= lookEveryMs
  }

  /** Runs between two batches. */
  lookAgain(send: (query: Query, read: (rows: readonly Row[]) => void) => void): void {
    const askedAt = this.#options.environment.monotonic()
    this.#askedAt = askedAt
    send(this.#look, ([row]) => this.#hear(row, askedAt))
  }

  /** What this process has to write, given the marks that the store has at `now`; null: nothing. */
  marking(now: number, { at, behindPoolerAt }: LastMarks): Query | null {
    const { clock, beats, isPooled } = this.#options
    if (!beats || clock.isUnchecked || clock.isDoubtful) return null
    const isFresh = (markedAt: number) => markedAt > now - markEveryMs && markedAt <= now
    return isFresh(at) && (!isPooled || isFresh(behindPoolerAt)) ? null : this.#mark
  }

  #hear(row: Row | undefined, askedAt: number): ClockCheck | null {
    if (row === undefined) return null
    const check = readCheck(row)
    this.#options.clock.note(check.now, askedAt)
    const until = this.#openedAt + decideDoubtMs(check)
    const reason = 'this process has just started, and no other has checked the clock of the server recently'
    this.#options.clock.uncheckedUntil(until, { reason })
    return check
  }
}

function readCheck([now, checkedAt, pooledAt, unchecked, isThere, isServerNew]: Row): ClockCheck {
  const [before, since] = String(unchecked ?? '').split(' ')
  return {
    now: Number(now),
    checkedAt: Number(checkedAt),
    checkedBehindPoolerAt: Number(pooledAt),
    unchecked: since === undefined ? null : { since: Number(since), checkedAt: Number(before) },
    isAnyoneThere: isThere === true,
    isServerNew: isServerNew === true,
  }
}
