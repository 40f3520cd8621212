/** How grants ended, according to the events. */
import { endKinds, type GrantEnd, type Loss, lossKinds } from '../../../domain/crash-pattern.ts'
import { Parameters, wall } from '../rows.ts'
import type { Loaders } from './loader.ts'

const isLoss = `t.kind in (${lossKinds.map((kind) => `'${kind}'`).join(', ')})`
const isGoodEnd = `t.kind in (${endKinds.map((kind) => `'${kind}'`).join(', ')})`

/** A takeover records the former holder under another field, because somebody holds the thing now. */
const holder =
  "coalesce(holdfast.json_field(t.detail, 'holder'), holdfast.json_field(t.detail, 'previousHolder'))"
/** An operator's reclaim before the lapse is not a crash, and neither is a reboot: they blame nothing. */
const isCrash = "(t.subject <> 'item' or holdfast.json_field(t.detail, 'blame') <> 'none')"

/** A move between held states ends nothing: the holder is still named. */
function hasEnded(movedChange: unknown): boolean {
  if (typeof movedChange !== 'string') return true
  return (JSON.parse(movedChange) as { agent?: unknown }).agent === null
}

export const crashLoaders = {
  losses({ sinceMs, limit }, scope) {
    const parameters = new Parameters(scope)
    const text = `select ${holder}, t.at, t.id
from holdfast.event t
where t.namespace = $1 and t.at >= ${wall} - ${parameters.add(sinceMs)} and ${isLoss} and ${isCrash} and ${holder} is not null
order by t.at desc, t.seq desc
limit ${parameters.add(limit)}`
    return {
      queries: [{ text, values: parameters.values }],
      read: ([rows]) => (rows ?? []).map(([agent, at, id]) => ({ agent, at, id }) as Loss),
    }
  },

  grantEnds({ window }, scope) {
    const parameters = new Parameters(scope)
    // Sequence numbers have gaps here, so the newest events are counted off.
    const text = `select case when ${isLoss} then ${holder} else t.agent end, ${isLoss}, case when t.kind = 'item.moved' then t.change end
from (
  select *
  from holdfast.event
  where namespace = $1
  order by seq desc
  limit ${parameters.add(window)}
) t
where (${isLoss} and ${isCrash}) or ${isGoodEnd}
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
