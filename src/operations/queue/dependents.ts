/** Freeing the items that waited for one that has succeeded. */
import * as z from 'zod'
import { unblockItem } from '../../domain/item-waiting.ts'
import type { Context } from '../../port/command.ts'
import type { Change } from '../../port/decision.ts'
import type { Cascade, Dependent } from '../../port/item.ts'
import { change, need, operation } from '../operation.ts'
import { workflowOf } from '../subject.ts'

/** Waiting items that one transaction frees. More would hold up other callers. */
const maxFreed = 100

/** Items that wait for this one, as many as one transaction frees. */
export const dependentsOf = (id: string) =>
  need({
    waiting: { select: 'dependents', ids: [id], limit: maxFreed },
  })

/**
 * Frees what waits for this blocker. If there may be more, adds a cascade row: while it exists, others free the rest.
 */
export function freed(waiting: readonly Dependent[], blocker: string, context: Context): Change[] {
  return [
    ...waiting.flatMap((dependent) => unblocked(dependent, blocker, context)),
    ...(waiting.length === maxFreed
      ? [{ table: 'cascade', before: null, after: { blocker, at: context.wall } } as const]
      : []),
  ]
}

export const freeDependents = operation({
  name: 'queue.freeDependents',
  summary: 'Free up to 100 items that waited for one that has succeeded.',
  effect: 'write',
  class: 'internal',
  input: () => ({}),
  output: () => z.object({ freed: z.number(), more: z.boolean() }),
  needs: () => ({ waiting: { select: 'freedDependents', limit: maxFreed } }),
  decide({ waiting: { dependents, finished, more } }, _input, context) {
    const items = firstOfEach(dependents)
    const freed = items.flatMap(({ blocker, ...dependent }) => unblocked(dependent, blocker, context))
    return {
      changes: [...freed, ...finished.map(endedCascade)],
      result: { freed: freed.length, more },
    }
  },
})

/** Each item changes only once per transaction. The next one finds what else it no longer waits for. */
export function firstOfEach<Freed extends Dependent>(dependents: readonly Freed[]): Freed[] {
  const first = new Map<string, Freed>()
  for (const each of dependents) if (!first.has(each.item.id)) first.set(each.item.id, each)
  return [...first.values()]
}

export function endedCascade(cascade: Cascade): Change {
  return { table: 'cascade', before: cascade, after: null }
}

export function unblocked(dependent: Dependent, blocker: string, context: Context): Change[] {
  const after = unblockItem(dependent.item, workflowOf(dependent), blocker)
  return after ? [change('item', dependent.item, after, 'item.unblocked', context, { blocker })] : []
}
