/** Walking a change along the merge workflow. */
import type { Queue, QueueItem, TokenOptions } from 'holdfast'

export const heldMergeStates = ['claimed', 'rebasing', 'testing', 'ready_to_merge', 'merging'] as const
export type HeldMergeState = (typeof heldMergeStates)[number]

/** From claimed to the wanted state, with the calls a merge worker uses. */
export async function walkTo(
  q: Queue,
  ref: string,
  state: HeldMergeState,
  options: TokenOptions,
): Promise<void> {
  const steps: Record<HeldMergeState, () => Promise<QueueItem<unknown> | undefined>> = {
    claimed: async () => undefined,
    rebasing: () => q.move(ref, 'rebasing', options),
    testing: () => q.updateRebaseMetadata(ref, { ...options, headSha: 'beef01', testedAgainstSha: 'base01' }),
    ready_to_merge: () => q.move(ref, 'ready_to_merge', options),
    merging: () => q.beginMerge(ref, { ...options, journal: { landingAs: 'beef01' } }),
  }
  for (const each of heldMergeStates.slice(0, heldMergeStates.indexOf(state) + 1)) await steps[each]()
}
