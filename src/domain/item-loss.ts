/** Items whose holders were lost: reclaimed, quarantined, and cleared again by new progress. */
import { InvalidError } from '../errors.ts'
import { type Blame, clearedBy, markLoss, noSuspicion } from './crash.ts'
import { type Clocks, describeItem, enter, type Item, settle } from './item.ts'
import { lostTo } from './item-end.ts'
import type { Json } from './json.ts'
import { noLease } from './lease.ts'
import { knownState, type Workflow } from './workflow.ts'

export interface Loss {
  /** What proves or suggests that the holder is gone. */
  readonly evidence: string
  readonly blame: Blame
  readonly maxCrashes: number
}

/** Takes a held item from its lost holder. Identity, payload, priority, key, data and progress are kept. */
export function reclaimItem(item: Item, workflow: Workflow, loss: Loss, at: Clocks): Item {
  return enter({ ...item, ...markLoss(item, loss, at.wall) }, lostTo(item, workflow), workflow, at.wall)
}

/** Quarantines a held item whose state is unknown: no rule covers it, so a person has to look at it. */
export function quarantineItem(item: Item, reason: string, at: Clocks): Item {
  return {
    ...item,
    ...noLease,
    holderHost: null,
    phase: 'waiting',
    startedAt: null,
    quarantinedAt: at.wall,
    quarantineReason: reason,
    version: item.version + 1,
  }
}

export function releaseItemFromQuarantine(item: Item, workflow: Workflow, at: Clocks): Item {
  if (item.quarantinedAt === null) {
    throw new InvalidError({
      what: `${describeItem(item)} is not quarantined`,
      next: 'nothing needs to be done',
    })
  }
  const known = knownState(workflow, item.state)
  // An item quarantined in a held or unknown state goes back in line, because nobody holds it.
  const to = known ? (known.lostTo ?? item.state) : workflow.initial
  const freed = { ...item, ...noSuspicion, crashResets: 0, quarantinedAt: null, quarantineReason: null }
  const stays = to === item.state && !known?.closed
  return stays
    ? settle({ ...freed, version: item.version + 1 }, workflow)
    : enter(freed, to, workflow, at.wall)
}

/** New progress suggests that the work itself is sound, so it clears suspicion. */
export function recordProgress(item: Item, progress: Json): Item {
  return { ...item, ...clearedBy(item, progress), progress, version: item.version + 1 }
}
