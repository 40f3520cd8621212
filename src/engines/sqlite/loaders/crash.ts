/** How grants ended, according to the events. */
import { endKinds, type GrantEnd, type Loss, lossKinds } from '../../../domain/crash-pattern.ts'
import type { Loaders } from './loader.ts'

const isLoss = `kind in (${lossKinds.map((kind) => `'${kind}'`).join(', ')})`
const isGoodEnd = `kind in (${endKinds.map((kind) => `'${kind}'`).join(', ')})`

/** An operator's reclaim before the lapse is not a crash, nor is a reboot: their events blame nothing. */
const isCrash = "(subject <> 'item' or detail ->> '$.blame' <> 'none')"
/** A takeover names the former holder in another field, since the thing has a holder again. */
const lost = "coalesce(detail ->> '$.holder', detail ->> '$.previousHolder')"
/** A move between held states ends no grant: it does not clear the holder. */
const isEnd = "(kind <> 'item.moved' or json_type(change, '$.agent') = 'null')"

export const crashLoaders = {
  losses: (source, { sinceMs, limit }) =>
    source.connection
      .all(
        `select ${lost} as holder, at, id
from event
where namespace = ? and at >= ? and ${isLoss} and ${isCrash} and holder is not null
order by at desc, seq desc
limit ${limit}`,
        source.namespace,
        BigInt(source.wall - sinceMs),
      )
      .map(([agent, at, id]) => ({ agent, at, id }) as Loss),

  grantEnds(source, { window }) {
    // Scanned by sequence number from the end: any index would lead through every event.
    const sql = `select case when ${isLoss} then ${lost} else agent end as holder, ${isLoss}
from event not indexed
where namespace = ?1 and seq > (select max(seq) from event) - ${window}
and ((${isLoss} and ${isCrash}) or (${isGoodEnd} and ${isEnd}))
and holder is not null
order by seq desc`
    return source.connection
      .all(sql, source.namespace)
      .map(([agent, crashed]): GrantEnd => ({ agent: agent as string, crashed: crashed === 1 }))
  },
} satisfies Partial<Loaders>
