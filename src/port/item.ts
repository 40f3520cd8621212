/** Items: how a command names them, and what else it learns about them. */
import type { VainWait } from '../domain/doctor.ts'
import type { Item, LinePosition, Phase } from '../domain/item.ts'
import type { WordFilter } from '../domain/ready-word.ts'
import type { OfInstances } from './instance.ts'
import type { Page } from './page.ts'
import type { DefinedQueue } from './queue.ts'

export interface Dependent extends DefinedQueue {
  readonly item: Item
}

/** Selects items of a queue by their data. Absent means any; null means not set. */
export interface ItemFilter extends WordFilter {
  /** At least this urgent: a priority number no higher than this. */
  readonly maxPriority?: number | undefined
  /** Held by this agent. */
  readonly agent?: string | undefined
}

/** How far the search for a matching ready task has got. */
export interface SearchPosition {
  /** Which of the filter's lists is being walked, by its index in `listsOf`. */
  readonly by: number
  /** Where to continue; null: the list was searched to its end. */
  readonly from: LinePosition | null
}

/** An item that succeeded or was removed while more items waited for it than that transaction freed. */
export interface Cascade {
  readonly blocker: string
  readonly at: number
}

export interface ItemSelectors {
  /** `stacks`: another item is being stacked on this one, so its own position in a stack must not change meanwhile. */
  item: [{ queue: string | null; ref: string; stacks?: true }, Item | null]
  itemsById: [{ ids: readonly string[] }, readonly Item[]]
  openItemByKey: [{ queue: string; key: string }, Item | null]
  openItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The newest item with a dedupe key, open or closed. */
  lastItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The next `limit` items that can be claimed now: by priority, then age, then id. */
  claimable: [{ queue: string; limit: number }, readonly Item[]]
  /**
   * Suspects that can be claimed now, in the same order; none while the process of this instance holds one. A caller
   * without a process may have any.
   */
  suspects: [
    { queue: string; filter: ItemFilter | null; instance: string | null; limit: number },
    readonly Item[],
  ]
  /** Held items, soonest expiry first, each with the wall time of its last event. `isBound`: only those of processes. */
  heldItems: [
    { queue: string | null; isBound?: true; limit: number },
    readonly { readonly item: Item; readonly changedAt: number | null }[],
  ]
  /** Items that an agent holds by hand, through this instance, or through a process registered for it. */
  itemsOfAgent: [{ agent: string; instance: string | null; queue: string; limit: number }, readonly Item[]]
  /**
   * Held, not expired, in the last third of the lease (at most 5 min), and not yet warned about under this token: all
   * such rows, or those among `ids`. Locks are named by name#slot.
   */
  nearItems: [{ ids: readonly string[] | null; limit: number }, readonly Item[]]
  /** The items claimed together with the slots of this lock. */
  lockedItems: [{ name: string }, readonly Item[]]
  /** Held items whose lease lapsed before now, longest expired first; in these queues, or in all. */
  lapsedItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  itemsOfInstances: [OfInstances & { queue: string | null }, readonly Item[]]
  /** Held items of a queue that showed no sign of life for this long, longest silent first. */
  silentItems: [{ queue: string; thresholdMs: number; limit: number }, readonly Item[]]
  /** Delayed items that are due; in these queues, or in all. */
  dueItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  /** When the next delayed item of this queue is due; null when none is delayed. */
  nextDueAt: [{ queue: string }, number | null]
  /** Items that wait for one of these, each with its queue, including items that stopped waiting a moment ago. */
  dependents: [{ ids: readonly string[]; limit: number }, readonly Dependent[]]
  /** Ids of everything that waits for an item, directly or indirectly; at most `limit`. */
  transitiveDependents: [{ id: string; limit: number }, readonly string[]]
  /** Ids of these and of everything they wait for, directly or indirectly; at most `limit`. */
  transitiveBlockers: [{ ids: readonly string[]; limit: number }, readonly string[]]
  /** Open items stacked on an item, directly or indirectly; at most `limit`. */
  stackedOn: [{ id: string; limit: number }, readonly Item[]]
  /** Among the first `window` waits, those of open items for one that failed or is gone. */
  vainWaits: [{ window: number; limit: number }, readonly VainWait[]]
  /**
   * Items still waiting for one that succeeded and is closed, or was removed, each with that blocker; and cascades with
   * nothing left to free, since items wait for a blocker that started over until it ends again. `more`: there are other
   * cascades.
   */
  freedDependents: [
    { limit: number },
    {
      dependents: readonly (Dependent & { blocker: string })[]
      finished: readonly Cascade[]
      more: boolean
    },
  ]
  /** Blockers that succeeded or were removed while some items that waited for them are not freed yet; usually none. */
  closedBlockers: [Record<never, never>, readonly string[]]
  items: [
    {
      queue: string
      states: readonly string[] | null
      /** The phases they can be in; no other phase is searched. */
      lines: readonly Phase[]
      /** Among closed items, `states` names only failed states. */
      failedOnly: boolean
      /** Among waiting items, only quarantined ones can be in one of `states`. */
      quarantinedOnly: boolean
      /** Among waiting items, only those that wait for one of these; up to 10,000 are examined. Null: any. */
      freedBy: readonly string[] | null
      quarantined: boolean | null
      filter: ItemFilter | null
      limit: number
      after: string | null
    },
    Page<Item>,
  ]
  /** The item with this key in each queue: the open one, or else the one added last. */
  itemsByKey: [{ key: string; limit: number }, readonly Item[]]
  /** Closed items that nobody waits for, oldest first. `before`: those closed up to and including this wall time. */
  closedBefore: [{ queue: string | null; before: number; limit: number }, readonly Item[]]
}
