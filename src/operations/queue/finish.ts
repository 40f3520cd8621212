/** What a holder does with an item: renew, progress, move, complete, fail, release. */
import * as z from 'zod'
import { adjustBackoff, retryBackoff } from '../../domain/backoff.ts'
import type { Item } from '../../domain/item.ts'
import {
  assertHolds,
  completeItem,
  failItem,
  isCompletedUnder,
  moveItem,
  releaseItem,
} from '../../domain/item-end.ts'
import { recordProgress } from '../../domain/item-loss.ts'
import type { Json } from '../../domain/json.ts'
import { isHolder, renew as renewLease } from '../../domain/lease.ts'
import { taskQueue } from '../../domain/task-status.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Decision, EventDraft } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import * as fields from '../fields.ts'
import { ask, change, need, operation, reply, type Step } from '../operation.ts'
import { assertVersion, requireItem, requireQueue } from '../subject.ts'
import { type ItemView, itemView, viewItem } from '../view.ts'
import { dependentsOf, freed } from './dependents.ts'

export const itemInput = lazily(() => ({ queue: fields.queue, ref: fields.ref, token: fields.token }))

export const itemNeeds = (input: { queue: string; ref: string }) =>
  need({
    defined: { select: 'queue', name: input.queue },
    item: { select: 'item', queue: input.queue, ref: input.ref },
  })

type ItemRows = { defined: DefinedQueue | null; item: Item | null }

/** The item and its workflow. Refuses anyone but the holder. */
export function heldItem(
  rows: ItemRows,
  input: { queue: string; ref: string; token?: number | undefined },
  context: Context,
) {
  // Someone who looks for a task knows of no queue.
  if (input.queue === taskQueue) requireItem(rows.item, input.queue, input.ref, input.token)
  const { workflow, queue } = requireQueue(rows.defined, input.queue)
  const item = requireItem(rows.item, input.queue, input.ref, input.token)
  const { late } = assertHolds(item, { agent: context.agent, token: input.token }, context.now)
  return { item, workflow, queue, late }
}

/**
 * The item changes, and if it has succeeded, it frees what waited for it: the first 100 in the same transaction. `late`:
 * its lease had lapsed, and nobody had taken the item yet.
 */
export function finishItem(
  before: Item,
  after: Item,
  { kind, detail }: Omit<EventDraft, 'agent'>,
  context: Context,
  late = false,
): Step<ItemView> {
  const changed = change('item', before, after, kind, context, late ? { ...detail, late } : detail)
  const decision = { changes: [changed], result: viewItem(after, context.now) }
  if (after.outcome !== 'succeeded') return decision
  return ask(dependentsOf(after.id), ({ waiting }) => ({
    ...decision,
    changes: [changed, ...freed(waiting, after.id, context)],
  }))
}

/** What most operations on one item have in common. */
export const itemWrite = { effect: 'write', output: itemView, needs: itemNeeds } as const

export const renew = operation({
  name: 'queue.renew',
  summary: 'Renew the lease of an item for its full length.',
  ...itemWrite,
  input: () => ({ ...itemInput(), leaseMs: fields.leaseMs }),
  decide(rows, input, context) {
    const { item } = heldItem(rows, input, context)
    const after = renewLease(item, context.now, input.leaseMs)
    return { changes: [{ table: 'item', before: item, after }], result: viewItem(after, context.now) }
  },
})

export const progress = operation({
  name: 'queue.progress',
  summary: 'Record progress on an item. New progress clears its crash count.',
  ...itemWrite,
  input: () => ({
    ...itemInput(),
    progress: fields.json().describe('Progress; any JSON.'),
    data: fields.data.optional(),
  }),
  decide(rows, input, context) {
    const { item, late } = heldItem(rows, input, context)
    const after = withData(recordProgress(item, input.progress as Json), input.data)
    return finishItem(item, after, { kind: 'item.progressed' }, context, late)
  },
})

export const move = operation({
  name: 'queue.move',
  summary: 'Move an item to another state of its workflow. A held item needs its token.',
  ...itemWrite,
  input: () => ({
    ...itemInput(),
    to: fields.text(100).min(1).describe('The state it goes to.'),
    data: fields.data.optional(),
    expectedVersion: fields.expectedVersion,
  }),
  decide(rows, input, context) {
    const { workflow } = requireQueue(rows.defined, input.queue)
    const item = requireItem(rows.item, input.queue, input.ref, input.token)
    const late =
      item.phase === 'held' || input.token !== undefined
        ? assertHolds(item, { agent: context.agent, token: input.token }, context.now).late
        : false
    assertVersion(item, input.expectedVersion)
    const moved = moveItem(item, workflow, input.to, context)
    if (moved === null) return reply(viewItem(item, context.now))
    const after = withData(moved, input.data)
    const detail = { from: item.state, to: after.state }
    return finishItem(item, after, { kind: 'item.moved', detail }, context, late)
  },
})

/** New facts are merged into the existing ones. Together they must fit the limits of a payload. */
function withData(item: Item, data: Record<string, unknown> | undefined): Item {
  if (data === undefined) return item
  const all = { ...item.data, ...(data as Item['data']) }
  fields.assertSize('data', all)
  return { ...item, data: all }
}

export const complete = operation({
  name: 'queue.complete',
  summary: 'Complete an item. Items that waited for it become ready.',
  ...itemWrite,
  input: () => ({ ...itemInput(), result: fields.result, expectedVersion: fields.expectedVersion }),
  decide(rows, input, context) {
    if (rows.item && isCompletedUnder(rows.item, input.token)) return reply(viewItem(rows.item, context.now))
    const { item, workflow, late } = heldItem(rows, input, context)
    assertVersion(item, input.expectedVersion)
    const after = completeItem(item, workflow, input.result ?? null, context)
    return finishItem(item, after, { kind: 'item.completed' }, context, late)
  },
})

export const failInput = lazily(() => ({
  ...itemInput(),
  error: fields.failure,
  retryable: z.boolean().optional().describe('Whether a retry may help; default that of the workflow.'),
  backoff: fields.backoff(),
}))

export const fail = operation({
  name: 'queue.fail',
  summary: 'Report a handled failure. The item is retried while attempts are left.',
  ...itemWrite,
  input: failInput,
  decide: failHeld,
})

export function failHeld(
  rows: ItemRows,
  input: z.output<z.ZodObject<ReturnType<typeof failInput>>>,
  context: Context,
): Step<ItemView> {
  const { item, workflow, queue, late } = heldItem(rows, input, context)
  const failure = {
    error: input.error,
    retryable: input.retryable ?? workflow.failsRetryably,
    backoff: adjustBackoff(queue.backoff ?? retryBackoff, input.backoff),
    random: context.random,
  }
  const event = { kind: 'item.failed', detail: { message: input.error.message } } as const
  return finishItem(item, failItem(item, workflow, failure, context), event, context, late)
}

export const release = operation({
  name: 'queue.release',
  summary: 'Release an item unfinished, if it is still yours.',
  effect: 'write',
  input: () => ({ ...itemInput(), reason: fields.reason }),
  output: () => z.boolean(),
  needs: itemNeeds,
  decide(rows, input, context) {
    const { workflow } = requireQueue(rows.defined, input.queue)
    // It was removed from under its holder. As with every late release, there is nothing left to give back.
    if (!rows.item && input.token !== undefined) return reply(false)
    const item = requireItem(rows.item, input.queue, input.ref)
    if (item.phase !== 'held' || !isHolder(item, { agent: context.agent, token: input.token }))
      return refusedRelease(item, input.token, context, { holder: item.agent })
    const after = releaseItem(item, workflow, context)
    return {
      changes: [change('item', item, after, 'item.released', context, why(input.reason))],
      result: true,
    }
  },
})

/** Only remarked: nothing is left to give back. */
export function refusedRelease(
  { id, queue, state, token: currentToken }: Item,
  token: number | undefined,
  { agent }: Context,
  more: { readonly holder?: string | null } = {},
): Decision<boolean> {
  const detail = { act: 'release', state, currentToken, ...more }
  const remark = {
    kind: 'item.refused',
    agent,
    subject: 'item',
    id,
    queue,
    token: token ?? null,
    detail,
  } as const
  return { changes: [], remarks: [remark], result: false }
}

/** The detail of an event that somebody gave a reason for. */
export function why(reason: string | undefined): { reason: string } | undefined {
  return reason === undefined ? undefined : { reason }
}
