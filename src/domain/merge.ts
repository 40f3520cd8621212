/** What the merge workflow knows about a change: its head, what it was tested against, and how often it was rebased. */
import { HoldfastError, InvalidError } from '../errors.ts'
import { type Clocks, describeItem, enter, type Item, illegalMove } from './item.ts'
import { stateOf, type Workflow } from './workflow.ts'

const headShaLengthMin = 4

export function assertHeadSha(headSha: string): void {
  if (headSha.length >= headShaLengthMin && /^[0-9a-zA-Z]+$/.test(headSha) && headSha.length <= 128) return
  throw new InvalidError({
    what: `"${headSha.slice(0, 140)}" is not a commit or change id`,
    next: `give at least ${headShaLengthMin} letters or digits`,
    facts: { headSha },
  })
}

/** In a held state that cannot be cancelled, because the effect may already be under way. */
export function isPastCancelling(item: Item, workflow: Workflow): boolean {
  return item.phase === 'held' && !stateOf(workflow, item.state).moves.includes(workflow.cancelTo ?? '')
}

/** Whether it was tested against the current target. No baseline counts as stale. */
export function isFresh(item: Item, mainSha: string): boolean {
  return typeof item.data.testedAgainstSha === 'string' && item.data.testedAgainstSha === mainSha
}

/** For callers that know the current target: only a change tested against it may merge. */
export function assertFresh(item: Item, mainSha: string): void {
  if (isFresh(item, mainSha)) return
  const testedAgainstSha = item.data.testedAgainstSha ?? null
  throw new HoldfastError('ILLEGAL_MOVE', {
    what: `${describeItem(item)} cannot merge onto ${mainSha}: it was ${testedAgainstSha === null ? 'not tested since it last changed' : `tested against ${testedAgainstSha}`}`,
    next: 'return it to rebasing, test it again, and begin the merge then',
    facts: { subject: describeItem(item), from: item.state, to: 'merging', mainSha, testedAgainstSha },
  })
}

/**
 * Refuses a rebase of a head that is no longer the submitted one: it would replace the new head, which would then count
 * as merged. A holder under whose grant the head changed has to say which one it rebased.
 */
export function assertRebasedFrom(item: Item, fromSha: string | undefined): void {
  const { headSha, headChangedUnder } = item.data
  const isSame = fromSha === undefined ? headChangedUnder !== item.token : fromSha === headSha
  if (isSame) return
  throw new HoldfastError('ILLEGAL_MOVE', {
    what: `${describeItem(item)} ${fromSha === undefined ? 'was submitted again: its head is' : `no longer has the head ${fromSha}, but`} ${headSha}`,
    next: 'rebase that head, and give it as `fromSha`',
    facts: { subject: describeItem(item), from: item.state, to: 'testing', headSha },
  })
}

export function withRebase(
  item: Item,
  rebase: { headSha: string; testedAgainstSha: string },
  wall: number,
): Item {
  const { headChangedUnder: _, ...data } = item.data
  const count = typeof data.rebaseCount === 'number' ? data.rebaseCount : 0
  return { ...item, data: { ...data, ...rebase, rebaseCount: count + 1, lastRebaseAt: wall } }
}

/** The guarded way back: legal only if the workflow allows it and the target has moved on. */
export function returnItem(item: Item, workflow: Workflow, mainSha: string, at: Clocks): Item {
  const to = stateToReturnTo(item, workflow, mainSha)
  return enter({ ...item, data: { ...item.data, testedAgainstSha: null } }, to, workflow, at.wall)
}

function stateToReturnTo(item: Item, workflow: Workflow, mainSha: string): string {
  const to = stateOf(workflow, item.state).returnTo
  if (to === undefined) {
    throw illegalMove(item, 'rebasing', 'only what is ready to merge can be returned')
  }
  if (isFresh(item, mainSha)) {
    throw illegalMove(item, to, `it was tested against ${mainSha}; go on with the merge`)
  }
  return to
}
