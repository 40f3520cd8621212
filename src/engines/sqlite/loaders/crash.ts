/** How grants ended, as the events tell. */
import type { GrantEnd, Loss } from '../../../domain/crash-pattern.ts'
import type { Loaders } from './loader.ts'

const lossKinds = "('item.reclaimed', 'item.quarantined', 'lock.expired')"
const endKinds =
  "('item.completed', 'item.merged', 'item.failed', 'item.released', 'item.moved', 'lock.released')"

/** An operator's reclaim before the lapse counts no crash, so its change says nothing of crashes. */
const isCrash = "(kind = 'lock.expired' or json_type(change, '$.crashes') is not null)"
/** Moving on within held states ends nothing: the holder is still named. */
const isEnd = "(kind <> 'item.moved' or json_type(change, '$.agent') = 'null')"

export const crashLoaders = {
  losses: (source, { sinceMs, limit }) =>
    source.connection
      .all(
        `select detail ->> '$.holder', at, id
from event
where namespace = ? and at >= ? and kind in ${lossKinds} and ${isCrash} and detail ->> '$.holder' is not null
order by at desc, seq desc
limit ${limit}`,
        source.namespace,
        BigInt(source.wall - sinceMs),
      )
      .map(([agent, at, id]) => ({ agent, at, id }) as Loss),

  grantEnds(source, { window }) {
    // By its number, from the end: any index would lead through every event there is.
    const sql = `select case when kind in ${lossKinds} then detail ->> '$.holder' else agent end as holder, kind in ${lossKinds}
from event not indexed
where namespace = ?1 and seq > (select max(seq) from event) - ${window}
and ((kind in ${lossKinds} and ${isCrash}) or (kind in ${endKinds} and ${isEnd}))
and holder is not null
order by seq desc`
    return source.connection
      .all(sql, source.namespace)
      .map(([agent, crashed]): GrantEnd => ({ agent: agent as string, crashed: crashed === 1 }))
  },
} satisfies Partial<Loaders>
