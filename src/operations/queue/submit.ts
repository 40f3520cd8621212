/** Submitting a change: an upsert by its dedupe key. */
import * as z from 'zod'
import {
  awaitedFirst,
  isOtherParent,
  maxStacked,
  nothingAround,
  restacked,
  type Surroundings,
} from '../../domain/dependency.ts'
import type { Item } from '../../domain/item.ts'
import { createItem, dueAt } from '../../domain/item-creation.ts'
import { assertHeadSha } from '../../domain/merge.ts'
import { positionOf } from '../../domain/queue-position.ts'
import { isStackedAnew, submitAgain } from '../../domain/submission.ts'
import { DuplicateError, InvalidError } from '../../errors.ts'
import type { Change } from '../../port/decision.ts'
import * as fields from '../fields.ts'
import { ask, change, need, type OutputOf, operation, type Step, view } from '../operation.ts'
import { noSurroundings, surroundingsOf } from '../subject.ts'
import { itemView, viewItem } from '../view.ts'
import {
  assertFree,
  declaredItems,
  dependenciesIn,
  dependencyNeeds,
  lastPosition,
  newItem,
  position,
  toNewItem,
} from './add.ts'
import { ensureQueue } from './define.ts'

const submitted = view(() => ({
  outcome: z.enum(['new', 'updated', 'resubmitted']),
  item: itemView(),
  ...position(),
}))
type Submitted = OutputOf<typeof submitted>

/**
 * Five cases: new; open with the same key (updated with what is given); open with another key (refused); closed with
 * the same key (starts over in place); closed with another key (a new item).
 */
export const submit = operation({
  name: 'queue.submit',
  summary: 'Submit a change: add it, update the open one, or reopen a finished one.',
  effect: 'write',
  freshIds: () => 1,
  addsWork: true,
  input: () => ({
    queue: fields.queue,
    ...newItem(),
    key: fields.name.describe('The workspace or branch.'),
    dedupeKey: fields.name.optional().describe('Default: "workspace:<key>", one open change per workspace.'),
    headSha: fields.text(128).describe('Commit or change to be merged.'),
    bead: fields.name.nullable().optional().describe('Issue it belongs to.'),
  }),
  output: submitted,
  needs: (input) => ({
    ...dependencyNeeds(input.queue, input),
    defined: { select: 'queue', name: input.queue },
    sameKey: { select: 'openItemByKey', queue: input.queue, key: input.key },
    sameDedupeKey: {
      select: 'lastItemByDedupeKey',
      queue: input.queue,
      dedupeKey: dedupeKeyOf(input),
    },
    line: lastPosition(input.queue, input.priority),
    tokenFloor: { select: 'tokenFloor' },
  }),
  decide(rows, input, context): Step<Submitted> {
    const { queue: name, headSha, bead, delayMs, ...declared } = input
    const rest = { ...declared, runAt: dueAt({ runAt: declared.runAt, delayMs }, context.wall) }
    assertHeadSha(headSha)
    const dedupeKey = dedupeKeyOf(input)
    const { queue, workflow, changes } = ensureQueue(rows.defined, name, context)
    const dependencies = dependenciesIn(rows, name, input)
    const existing = rows.sameDedupeKey
    if (existing && existing.outcome === null) return update(existing)
    assertFree(rows.sameKey, 'key', input.key)
    const data = { ...input.data, headSha, ...(bead === undefined ? {} : { bead }) }
    const draft = toNewItem(
      { ...rest, dedupeKey, data },
      {
        id: context.ids[0] as string,
        queue: name,
        maxAttempts: queue.maxAttempts,
        dependencies,
        context,
      },
    )
    return existing && existing.key === input.key ? startOver(existing) : start()

    function update(open: Item): Step<Submitted> {
      if (open.key !== input.key)
        throw new DuplicateError({ field: 'dedupeKey', value: dedupeKey, existing: open.id })
      const given = { ...rest, headSha, bead, data: input.data as Item['data'] | undefined, ...dependencies }
      const { id, addedAt, waitingFor } = open
      const more = need({
        line: { ...lastPosition(name, input.priority ?? open.priority), addedAt, id },
        ...(isStackedAnew(open, given) ? surroundingsOf(id, awaitedFirst(given, open)) : noSurroundings),
        stacked: isOtherParent(open, given.parent) ? stackedOn(id) : null,
        waitedFor: waitingFor.length === 0 ? null : { select: 'itemsById', ids: waitingFor },
      })
      return ask(more, ({ line, dependents, awaited, stacked, waitedFor }) => {
        const around = { dependents: dependents ?? [], awaited: awaited ?? [] }
        const after = submitAgain(open, workflow, given, { around, wall: context.wall })
        if (after !== open) fields.assertSize('data', after.data)
        const blockers = [...(waitedFor ?? []), ...declaredItems(dependencies)]
        return {
          changes:
            after === open
              ? changes
              : [
                  ...changes,
                  change('item', open, after, 'item.updated', context),
                  ...followed(after, stacked),
                ],
          result: {
            outcome: 'updated',
            item: viewItem(after, context.now),
            ...positionOf(after, { line, before: open, blockers, wall: context.wall }),
          },
        }
      })
    }
    function start() {
      const item = createItem({ ...draft, tokenFloor: rows.tokenFloor }, workflow, context.wall)
      return answer('new', item, [change('item', null, item, 'item.created', context)])
    }
    function startOver(closed: Item): Step<Submitted> {
      // Only an item that existed before can have others waiting for it.
      const isMoved = isOtherParent(closed, dependencies.parent ?? null)
      if (!isMoved && declaredItems(dependencies).length === 0) return startedOver(closed, nothingAround, [])
      const more = {
        ...surroundingsOf(closed.id, awaitedFirst(dependencies)),
        stacked: isMoved ? stackedOn(closed.id) : null,
      }
      return ask(more, ({ stacked, ...around }) => startedOver(closed, around, stacked))
    }
    function startedOver(closed: Item, around: Surroundings, stacked: readonly Item[] | null) {
      const fresh = createItem({ ...draft, id: closed.id, around }, workflow, context.wall)
      // Token and version carry over: a holder from before the restart must not pass for one from after it.
      const after = {
        ...fresh,
        token: closed.token,
        version: closed.version + 1,
        previousState: closed.state,
      }
      const resubmitted = change('item', closed, after, 'item.resubmitted', context)
      return answer('resubmitted', after, [resubmitted, ...followed(after, stacked)])
    }
    /** Items stacked on it record their depth and root in their own rows, so those change too. */
    function followed(moved: Item, stacked: readonly Item[] | null): Change[] {
      return restacked(moved, stacked ?? []).map(({ before, after }) =>
        change('item', before, after, 'item.updated', context, { stackedAnew: moved.id }),
      )
    }
    function answer(outcome: 'new' | 'resubmitted', item: Item, made: readonly Change[]) {
      const blockers = declaredItems(dependencies)
      return {
        changes: [...changes, ...made],
        result: {
          outcome,
          item: viewItem(item, context.now),
          ...positionOf(item, { line: rows.line, before: null, blockers, wall: context.wall }),
        },
      }
    }
  },
})

const stackedOn = (id: string) => ({ select: 'stackedOn', id, limit: maxStacked + 1 }) as const

function dedupeKeyOf(input: { key: string; dedupeKey?: string | undefined }): string {
  const dedupeKey = input.dedupeKey ?? `workspace:${input.key}`
  if (dedupeKey.includes(':')) return dedupeKey
  throw new InvalidError({
    what: `dedupe key "${dedupeKey}" has no ":"`,
    next: 'give it as "workspace:change"',
    facts: { dedupeKey },
  })
}
