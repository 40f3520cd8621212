/** Ready tasks by label, owner and host: how a claim finds them. */
import type { Item, LinePosition } from '../domain/item.ts'
import type { WordList } from '../domain/ready-word.ts'
import type { ItemFilter } from './item.ts'

export interface TaskSelectors {
  /**
   * The next ready tasks that match the filter, in line order. They come from one of its lists, starting at a position,
   * among the next `window` rows; null: all rows. `next` is where the search stopped, or null if the list ended.
   */
  tasksMatching: [
    { filter: ItemFilter; by: number; from: LinePosition | null; window: number | null; limit: number },
    { readonly items: readonly Item[]; readonly next: LinePosition | null },
  ]
  /**
   * How many ready tasks are in each list, counted up to `limit`. Once one list is short, the others may stay
   * uncounted.
   */
  wordCounts: [{ lists: readonly WordList[]; limit: number }, readonly number[]]
  /** Ready tasks for machines other than these. */
  strandedTasks: [{ hosts: readonly string[]; limit: number }, readonly Item[]]
  /** Items reserved for an agent that it could claim, in working order. */
  offered: [{ queue: string; agent: string; filter: ItemFilter | null; limit: number }, readonly Item[]]
  /**
   * How many items of a queue an agent holds, and how many are held on a machine, given by an instance or by name. The
   * latter are held by running processes or by hand. Null is not counted.
   */
  heldCounts: [
    { queue: string; agent: string | null; instance: string | null; host: string | null },
    { byAgent: number; onHost: number },
  ]
}
