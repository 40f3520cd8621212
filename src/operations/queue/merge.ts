/** Operations of the merge workflow only: rebase data, freshness, and the merge itself. */
import * as z from 'zod'
import { completeItem, isCompletedUnder, moveItem } from '../../domain/item-end.ts'
import {
  assertFresh,
  assertHeadSha,
  assertRebasedFrom,
  isFresh as isItemFresh,
  returnItem,
  withRebase,
} from '../../domain/merge.ts'
import { lazily } from '../../lazily.ts'
import * as fields from '../fields.ts'
import { operation, reply } from '../operation.ts'
import { requireItem } from '../subject.ts'
import { viewItem } from '../view.ts'
import { failHeld, failInput, finishItem, heldItem, itemInput, itemWrite } from './finish.ts'

const sha = lazily(() => fields.text(128).min(1))
const target = lazily(() => sha().describe('The commit the target is at.'))

export const updateRebaseMetadata = operation({
  name: 'queue.updateRebaseMetadata',
  summary: 'Record a finished rebase (its head and base) and move from rebasing to testing.',
  ...itemWrite,
  input: () => ({
    ...itemInput(),
    headSha: sha().describe('The rebased change.'),
    testedAgainstSha: target(),
    fromSha: sha()
      .optional()
      .describe('The head that was rebased. Refused if another one has been submitted since.'),
  }),
  decide(rows, input, context) {
    assertHeadSha(input.headSha)
    const { item, workflow, late } = heldItem(rows, input, context)
    const moved = moveItem(item, workflow, 'testing', context)
    if (moved === null) return reply(viewItem(item, context.now))
    assertRebasedFrom(item, input.fromSha)
    const { headSha, testedAgainstSha } = input
    const after = withRebase(moved, { headSha, testedAgainstSha }, context.wall)
    const event = { kind: 'item.rebased', detail: { testedAgainstSha } } as const
    return finishItem(item, after, event, context, late)
  },
})

export const isFresh = operation({
  name: 'queue.isFresh',
  summary: 'Say whether the change was tested against the current target.',
  effect: 'read',
  input: () => ({ queue: fields.queue, ref: fields.ref, mainSha: target() }),
  output: () => z.boolean(),
  needs: (input) => ({ item: { select: 'item', queue: input.queue, ref: input.ref } }),
  decide: ({ item }, input) => reply(isItemFresh(requireItem(item, input.queue, input.ref), input.mainSha)),
})

export const returnToRebasing = operation({
  name: 'queue.returnToRebasing',
  summary: 'Return a change to rebasing because the target has moved.',
  ...itemWrite,
  input: () => ({ ...itemInput(), mainSha: target() }),
  decide(rows, input, context) {
    const { item, workflow, late } = heldItem(rows, input, context)
    const { mainSha } = input
    const after = returnItem(item, workflow, mainSha, context)
    const detail = { from: item.state, to: after.state, mainSha }
    return finishItem(item, after, { kind: 'item.moved', detail }, context, late)
  },
})

export const beginMerge = operation({
  name: 'queue.beginMerge',
  summary:
    'Move from ready_to_merge to merging; from then on it cannot be cancelled. Give `mainSha` to merge only what was tested against it.',
  ...itemWrite,
  input: () => ({
    ...itemInput(),
    mainSha: target()
      .optional()
      .describe('The commit the target is at. Refused unless the change was tested against it.'),
    journal: fields.data.optional().describe('What the next worker needs to tell whether it landed.'),
  }),
  decide(rows, input, context) {
    const { item, workflow, late } = heldItem(rows, input, context)
    const { mainSha } = input
    if (mainSha !== undefined) assertFresh(item, mainSha)
    const moved = moveItem(item, workflow, 'merging', context)
    if (moved === null) return reply(viewItem(item, context.now))
    const after = input.journal
      ? { ...moved, data: { ...moved.data, journal: input.journal as never } }
      : moved
    const freshness = mainSha === undefined ? { freshness: 'not checked' } : { mainSha }
    const detail = { from: item.state, to: after.state, ...freshness }
    return finishItem(item, after, { kind: 'item.moved', detail }, context, late)
  },
})

export const completeMerge = operation({
  name: 'queue.completeMerge',
  summary: 'Record that the change has landed as this commit, and free the changes stacked on it.',
  ...itemWrite,
  input: () => ({ ...itemInput(), mergedSha: sha().describe('The commit it landed as.') }),
  decide(rows, input, context) {
    if (rows.item && isCompletedUnder(rows.item, input.token)) return reply(viewItem(rows.item, context.now))
    const { item, workflow, late } = heldItem(rows, input, context)
    const completed = completeItem(item, workflow, null, context)
    const { mergedSha } = input
    const after = { ...completed, data: { ...completed.data, mergedSha } }
    return finishItem(item, after, { kind: 'item.merged', detail: { mergedSha } }, context, late)
  },
})

export const failMerge = operation({
  name: 'queue.failMerge',
  summary: 'Report a failed merge. Terminal unless marked retryable.',
  ...itemWrite,
  input: failInput,
  decide: failHeld,
})
