/** How grants ended, as the events tell. */
import type { GrantEnd, Loss } from '../../../domain/crash-pattern.ts'
import { Parameters, wall } from '../rows.ts'
import type { Loaders } from './loader.ts'

const lossKinds = "('item.reclaimed', 'item.quarantined', 'lock.expired')"
const endKinds =
  "('item.completed', 'item.merged', 'item.failed', 'item.released', 'item.moved', 'lock.released')"

const holder = "holdfast.json_field(t.detail, 'holder')"
/** An operator's reclaim before the lapse counts no crash, so its change says nothing of crashes. */
const isCrash = "(t.kind = 'lock.expired' or holdfast.json_field(t.change, 'crashes') is not null)"

/** Moving on within held states ends nothing: the holder is still named. */
function hasEnded(movedChange: unknown): boolean {
  if (typeof movedChange !== 'string') return true
  return (JSON.parse(movedChange) as { agent?: unknown }).agent === null
}

export const crashLoaders = {
  losses({ sinceMs, limit }, place) {
    const parameters = new Parameters(place)
    const text = `select ${holder}, t.at, t.id
from holdfast.event t
where t.namespace = $1 and t.at >= ${wall} - ${parameters.add(sinceMs)} and t.kind in ${lossKinds} and ${isCrash} and ${holder} is not null
order by t.at desc, t.seq desc
limit ${parameters.add(limit)}`
    return {
      queries: [{ text, values: parameters.values }],
      read: ([rows]) => (rows ?? []).map(([agent, at, id]) => ({ agent, at, id }) as Loss),
    }
  },

  grantEnds({ window }, place) {
    const parameters = new Parameters(place)
    // Sequence numbers have gaps here, so the newest events are counted off.
    const text = `select case when t.kind in ${lossKinds} then ${holder} else t.agent end, t.kind in ${lossKinds}, case when t.kind = 'item.moved' then t.change end
from (
  select *
  from holdfast.event
  where namespace = $1
  order by seq desc
  limit ${parameters.add(window)}
) t
where (t.kind in ${lossKinds} and ${isCrash}) or t.kind in ${endKinds}
order by t.seq desc`
    return {
      queries: [{ text, values: parameters.values }],
      read: ([rows]) =>
        (rows ?? [])
          .filter(([agent, , movedChange]) => agent !== null && hasEnded(movedChange))
          .map(([agent, crashed]): GrantEnd => ({ agent: agent as string, crashed: crashed as boolean })),
    }
  },
} satisfies Partial<Loaders>
