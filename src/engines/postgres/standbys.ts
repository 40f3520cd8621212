/**
 * Which standbys a commit waits for. That can change at any time, without a new connection: some HA managers empty the
 * list when the last standby is gone. The store keeps the last list that was set, to tell such a server from one that
 * never had a list.
 */
import type { Query } from './plan.ts'

export interface Standbys {
  readonly synchronousStandbys: string
  /** The last list that was set, if none is set now. */
  readonly formerStandbys: string | null
}

/** The list in force, and the last one that was set as far as the store knows. */
export interface StandbyLists {
  readonly list: string
  readonly lastSet: string | null
}

/** Columns of a query. */
export const standbyLists = `current_setting('synchronous_standby_names'),
(select m.value from holdfast.meta m where m.key = 'standbys')`

/**
 * Nothing depends on this being on disk, so its commit waits for nobody: renewals come after it on the same connection.
 */
const noteLastSet = `insert into holdfast.meta (key, value)
select 'standbys', $1
where set_config('synchronous_commit', 'off', true) is not null
on conflict (key) do update set value = excluded.value`

/** What has to be written to the store so that it knows the list; null: nothing. */
export function notingStandbys({ list, lastSet }: StandbyLists): Query | null {
  return list === '' || list === lastSet ? null : { text: noteLastSet, values: [list] }
}

export function standbysFrom({ list, lastSet }: StandbyLists): Standbys {
  return { synchronousStandbys: list, formerStandbys: list === '' ? lastSet : null }
}

/** For a server that was just found, before it is asked what the store knows. */
export function standbysAfter(before: Standbys, synchronousStandbys: string): Standbys {
  if (synchronousStandbys !== '') return { synchronousStandbys, formerStandbys: null }
  return { synchronousStandbys, formerStandbys: before.synchronousStandbys || before.formerStandbys }
}

/** The standbys that the commit of some session in this database waits for now; no row if none does. */
export const askUnconfirmed: Query = {
  text: `select current_setting('synchronous_standby_names')
from pg_stat_activity
where datname = current_database()
and wait_event = 'SyncRep'
limit 1`,
  values: [],
}

/** A commit that was made on the primary and that no standby has confirmed. It keeps its rows locked until then. */
export class Unconfirmed extends Error {
  readonly standbys: string

  constructor(standbys: string) {
    super(`a commit waits for the synchronous standby ${standbys}`)
    this.standbys = standbys
  }
}
