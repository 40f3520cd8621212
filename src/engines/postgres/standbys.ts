/**
 * Which standbys a commit waits for. That can change at any time, without a new connection: some HA managers empty the
 * list when the last standby is gone. The store keeps the last list that was set, to tell such a server from one that
 * never had a list.
 */
import type { Query, Row } from './plan.ts'

export interface Standbys {
  readonly synchronousStandbys: string
  /** The last list that was set, if none is set now. */
  readonly formerStandbys: string | null
}

/**
 * Nothing depends on what is noted here, so its commit waits for nobody: renewals come after it on the same connection.
 */
export const askStandbys: Query = {
  text: `with current as (select current_setting('synchronous_standby_names') as list),
noted as (
  insert into holdfast.meta (key, value)
  select 'standbys', c.list
  from current c
  where c.list <> ''
  and not exists (select 1 from holdfast.meta m where m.key = 'standbys' and m.value = c.list)
  on conflict (key) do update set value = excluded.value
)
select c.list, (select m.value from holdfast.meta m where m.key = 'standbys'), set_config('synchronous_commit', 'off', true)
from current c`,
  values: [],
}

export function readStandbys([list, former]: Row): Standbys {
  const synchronousStandbys = list as string
  return {
    synchronousStandbys,
    formerStandbys: synchronousStandbys === '' ? (former as string | null) : null,
  }
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
