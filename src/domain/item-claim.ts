/** Claiming an item: next in line, or by name. */
import { type Clocks, copyOf, type Item, illegalMove, isKeptBack, moveTo } from './item.ts'
import { grant, type Holder } from './lease.ts'
import { stateOf, type Workflow } from './workflow.ts'

type Claiming = Holder & { readonly leaseMs: number }

export function claimItem(item: Item, workflow: Workflow, holder: Claiming, at: Clocks): Item {
  const to = stateOf(workflow, item.state).claimTo
  if (!isInLine(item) || to === undefined) throw illegalMove(item, 'claimed', 'claim one that is ready')
  return grantItem(item, to, workflow, holder, at)
}

/** Claims an item by name, even from a state in which it is never handed out as the next item. */
export function claimItemByName(item: Item, workflow: Workflow, holder: Claiming, at: Clocks): Item {
  const state = stateOf(workflow, item.state)
  if (state.claimByNameTo === undefined) return claimItem(item, workflow, holder, at)
  if (isKeptBack(item)) throw illegalMove(item, 'claimed', 'wait until nothing holds it back')
  return grantItem(item, state.claimByNameTo, workflow, holder, at)
}

/** Can be claimed now. */
function isInLine({ phase }: Item): boolean {
  return phase === 'ready' || phase === 'suspect'
}

function grantItem(item: Item, to: string, workflow: Workflow, holder: Claiming, at: Clocks): Item {
  const lease = grant(holder, { leaseMs: holder.leaseMs, now: at.now, previous: item.token, floor: 0 })
  const claimed = copyOf(item)
  claimed.agent = lease.agent
  claimed.instance = lease.instance
  claimed.token = lease.token
  claimed.grantedAt = lease.grantedAt
  claimed.renewedAt = lease.renewedAt
  claimed.expiresAt = lease.expiresAt
  claimed.leaseMs = lease.leaseMs
  claimed.holderHost = lease.instance === null ? (holder.holderHost ?? null) : null
  claimed.attempts += 1
  claimed.startedAt = at.wall
  return moveTo(to, claimed, workflow, at.wall)
}
