/**
 * Continues the search for a matching task with reads of 1,000 rows at a time, while others write. It reports that
 * there is none only after it has walked a whole list and no bell rang meanwhile: otherwise it could miss a task that
 * became ready behind it.
 */

import { type Sought, searchedTo } from '../../operations/task/seek.ts'
import type { SearchPosition } from '../../port/item.ts'

/** The part of a claim's input that says which task is wanted. */
export function wantedOf(input: unknown): object {
  const { labels, owner, mine, host, maxPriority, anyHost } = input as Record<string, unknown>
  return { labels, owner, mine, host, maxPriority, anyHost }
}

export interface TaskSearch {
  onRing(listener: () => void): () => void
  /** One read; null: from the head of the shortest list. `isWhole`: to its end. */
  seek(at: SearchPosition | null, isWhole: boolean): Promise<Sought>
}

/** If bells keep ringing, no walk is ever undisturbed: the third reads the whole list in one snapshot. */
const maxDisturbed = 2

/** Claims what is found. If another process took the task meanwhile, the search continues instead of starting over. */
export async function claimFound<Answer>(
  search: TaskSearch,
  claim: (searched: SearchPosition) => Promise<Answer>,
): Promise<Answer> {
  for (let walk = 0; ; walk++) {
    const answer = await walkOnce(search, walk, async (position) => {
      try {
        return { claimed: await claim(position) }
      } catch (error) {
        const from = searchedTo(error)
        if (from === null) throw error
        return { from }
      }
    })
    if (answer !== null) return answer.claimed
  }
}

/** Whether a claim would find something, or make something ready. */
export async function isTaskThere(search: TaskSearch): Promise<boolean> {
  for (let walk = 0; ; walk++) {
    let isDue = false
    const watched: TaskSearch = {
      ...search,
      async seek(at, isWhole) {
        const sought = await search.seek(at, isWhole)
        isDue ||= sought.isDue
        return sought
      },
    }
    const answer = await walkOnce(watched, walk, async ({ from }) => ({ claimed: from !== null }))
    if (answer !== null) return answer.claimed || isDue
  }
}

type Tried<Answer> = { readonly claimed: Answer } | { readonly from: SearchPosition }

/** Walks from the head to the end; null if a bell rang on the way and nothing was found. */
async function walkOnce<Answer>(
  { seek, onRing }: TaskSearch,
  walk: number,
  attempt: (position: SearchPosition) => Promise<Tried<Answer>>,
): Promise<{ readonly claimed: Answer } | null> {
  const isWhole = walk >= maxDisturbed
  let isDisturbed = false
  const unwake = onRing(() => {
    isDisturbed = true
  })
  try {
    let sought = await seek(null, isWhole)
    for (let looks = 1; ; looks++) {
      const { found, position } = sought
      // A single read is one snapshot, so it counts even if a bell rang.
      if (position.from === null && isDisturbed && looks > 1) return null
      if (found || position.from === null) {
        const tried = await attempt(position)
        if ('claimed' in tried) return tried
        sought = { ...sought, found: false, position: tried.from }
      } else {
        sought = await seek(position, isWhole)
      }
    }
  } finally {
    unwake()
  }
}
