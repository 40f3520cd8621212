/**
 * The rest of a search for a task that fits, by reads: 1,000 rows at a time, while others write. Nothing is found only
 * when a whole list was walked and nobody rang meanwhile: a task that became ready behind us would be missed.
 */
import type { SearchPlace } from '../../engines/engine.ts'
import { type Sought, searchedTo } from '../../operations/task/seek.ts'

/** Of the input of a claim, what says which task is wanted. */
export function wantedOf(input: unknown): object {
  const { labels, owner, mine, host, maxPriority, anyHost } = input as Record<string, unknown>
  return { labels, owner, mine, host, maxPriority, anyHost }
}

export interface TaskSearch {
  onRing(listener: () => void): () => void
  /** One read; null: from the head of the shortest list. `isWhole`: to its end. */
  seek(at: SearchPlace | null, isWhole: boolean): Promise<Sought>
}

/** Where others ring all the time, a walk is never undisturbed: the third reads all of the list at one moment. */
const maxDisturbed = 2

/** Claims what is found; a task that another took meanwhile is no reason to begin anew. */
export async function claimFound<Answer>(
  search: TaskSearch,
  claim: (searched: SearchPlace) => Promise<Answer>,
): Promise<Answer> {
  for (let walk = 0; ; walk++) {
    const answer = await walkOnce(search, walk, async (place) => {
      try {
        return { claimed: await claim(place) }
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

type Tried<Answer> = { readonly claimed: Answer } | { readonly from: SearchPlace }

/** From the head to the end; null when somebody rang on the way and nothing was found. */
async function walkOnce<Answer>(
  { seek, onRing }: TaskSearch,
  walk: number,
  attempt: (place: SearchPlace) => Promise<Tried<Answer>>,
): Promise<{ readonly claimed: Answer } | null> {
  const isWhole = walk >= maxDisturbed
  let isDisturbed = false
  const unwake = onRing(() => {
    isDisturbed = true
  })
  try {
    let sought = await seek(null, isWhole)
    for (let looks = 1; ; looks++) {
      const { found, place } = sought
      // What one look has seen was so at one moment, whoever rang.
      if (place.from === null && isDisturbed && looks > 1) return null
      if (found || place.from === null) {
        const tried = await attempt(place)
        if ('claimed' in tried) return tried
        sought = { ...sought, found: false, place: tried.from }
      } else {
        sought = await seek(place, isWhole)
      }
    }
  } finally {
    unwake()
  }
}
