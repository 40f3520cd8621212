/** What an operator or submitter does: retry, cancel, setPriority, remove, cleanup, releaseFromQuarantine. */
import * as z from 'zod'
import { heldError, type Item, setItemPriority } from '../../domain/item.ts'
import { cancelItem, retryItem } from '../../domain/item-end.ts'
import { releaseItemFromQuarantine } from '../../domain/item-loss.ts'
import { assertUnneeded } from '../../domain/item-waiting.ts'
import { processingLockName } from '../../domain/queue.ts'
import { lazily } from '../../lazily.ts'
import type { Context } from '../../port/command.ts'
import type { Change, Decision, EventDraft } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import * as fields from '../fields.ts'
import { ask, change, operation, reply } from '../operation.ts'
import { agreedPast, beforeOf } from '../recovery/horizon.ts'
import { assertVersion, requireItem, requireQueue } from '../subject.ts'
import { type ItemView, itemView, viewItem } from '../view.ts'
import { assertFree, sameNames } from './add.ts'
import { isHeldWith } from './claim-under-lock.ts'
import { itemNeeds, itemWrite, why } from './finish.ts'

const target = lazily(() => ({
  queue: fields.queue,
  ref: fields.ref,
  reason: fields.reason,
  expectedVersion: fields.expectedVersion,
}))

/** The item and its workflow. Refuses an item that has changed since the version the caller read. */
function targetItem(
  rows: { defined: DefinedQueue | null; item: Item | null },
  input: { queue: string; ref: string; expectedVersion?: number | undefined },
) {
  const { workflow } = requireQueue(rows.defined, input.queue)
  const item = requireItem(rows.item, input.queue, input.ref)
  assertVersion(item, input.expectedVersion)
  return { item, workflow }
}

function changedItem(
  before: Item,
  after: Item,
  kind: EventDraft['kind'],
  context: Context,
  detail?: EventDraft['detail'],
): Decision<ItemView> {
  return {
    changes: [change('item', before, after, kind, context, detail)],
    result: viewItem(after, context.now),
  }
}

export const retry = operation({
  name: 'queue.retry',
  summary: 'Retry a failed item.',
  ...itemWrite,
  input: target,
  decide(rows, input, context) {
    const { item, workflow } = targetItem(rows, input)
    const after = retryItem(item, workflow, context)
    return ask(sameNames(item.queue, item), ({ sameKey, sameDedupeKey }) => {
      // Its names were free while it was closed, so another item may have taken them.
      assertFree(sameKey, 'key', item.key, item.id)
      assertFree(sameDedupeKey, 'dedupeKey', item.dedupeKey, item.id)
      return changedItem(item, after, 'item.retried', context, why(input.reason))
    })
  },
})

export const cancel = operation({
  name: 'queue.cancel',
  summary: 'Cancel an item. A holder is notified and loses both the item and its lock.',
  ...itemWrite,
  input: target,
  decide(rows, input, context) {
    const { item, workflow } = targetItem(rows, input)
    const after = cancelItem(item, workflow, context)
    const detail = { ...why(input.reason), holder: item.agent }
    const cancelled = changedItem(item, after, 'item.cancelled', context, detail)
    if (item.phase !== 'held') return cancelled
    return ask({ locks: { select: 'lock', name: processingLockName(item.queue) } }, ({ locks }) => {
      const because = 'its item was cancelled'
      const released = locks
        // A holder that gave the item back may have kept its own lock.
        .filter((lock) => isHeldWith(item, lock))
        .map((lock) => change('lock', lock, null, 'lock.released', context, { because }))
      return { ...cancelled, changes: [...cancelled.changes, ...released] }
    })
  },
})

export const setPriority = operation({
  name: 'queue.setPriority',
  summary: 'Change the priority of an item.',
  ...itemWrite,
  input: () => ({ ...target(), priority: fields.priority.unwrap().describe('Lower numbers come first.') }),
  decide(rows, input, context) {
    const item = requireItem(rows.item, input.queue, input.ref)
    assertVersion(item, input.expectedVersion)
    const after = setItemPriority(item, input.priority)
    if (after === null) return reply(viewItem(item, context.now))
    const detail = { from: item.priority, ...why(input.reason) }
    return changedItem(item, after, 'item.prioritized', context, detail)
  },
})

export const releaseFromQuarantine = operation({
  name: 'queue.releaseFromQuarantine',
  summary: 'Release an item from quarantine and reset its crash count.',
  effect: 'admin',
  input: target,
  output: itemView,
  needs: itemNeeds,
  decide(rows, input, context) {
    const { item, workflow } = targetItem(rows, input)
    const after = releaseItemFromQuarantine(item, workflow, context)
    return changedItem(item, after, 'item.unquarantined', context, why(input.reason))
  },
})

export const remove = operation({
  name: 'queue.remove',
  summary:
    'Remove an item; its events stay. Refused while others wait for it, or while it is held unless forced.',
  effect: 'admin',
  input: () => ({ ...target(), force: z.boolean().optional().describe('Even while it is held.') }),
  output: () => z.boolean(),
  needs: itemNeeds,
  decide(rows, input, context) {
    const item = rows.item
    if (!item) return reply(false)
    assertVersion(item, input.expectedVersion)
    if (item.phase === 'held' && !input.force) {
      throw heldError(item, 'cancel it first, or remove it with `force`')
    }
    return ask({ found: { select: 'dependents', ids: [item.id], limit: 10 } }, ({ found }) => {
      const waiting = found.filter((each) => each.item.waitingFor.includes(item.id))
      const items = waiting.map((dependent) => dependent.item)
      assertUnneeded(item, items, 'cancel or remove those first')
      return { changes: [removal(item, context, why(input.reason))], result: true }
    })
  },
})

export function removal(item: Item, context: Context, detail?: { reason: string }): Change {
  return change('item', item, null, 'item.removed', context, { ...detail, key: item.key, state: item.state })
}

const maxCleaned = 500
/** A dry run blocks nobody, so it may look at more. */
const maxDryRun = 10_000
/** Includes items that were closed while the wall clock was ahead. */
const everythingClosed = Number.MAX_SAFE_INTEGER

export const cleanup = operation({
  name: 'queue.cleanup',
  summary: 'Remove finished items older than an age (0 = all); at most 500 per call. Events stay.',
  effect: 'admin',
  input: () => ({
    queue: fields.queue.optional(),
    maxAgeMs: fields.whole(0).describe('Only items finished longer ago than this, ms; 0 = all finished.'),
    dryRun: fields.dryRun,
  }),
  output: () => z.object({ removed: z.number(), more: z.boolean() }),
  needs: () => ({ kept: { select: 'horizons' } }),
  decide({ kept }, { queue = null, maxAgeMs, dryRun }, context) {
    const { past, change } = agreedPast(maxAgeMs, kept, context)
    const before = maxAgeMs === 0 ? everythingClosed : beforeOf(past)
    const limit = dryRun ? maxDryRun : maxCleaned
    return ask({ closed: { select: 'closedBefore', queue, before, limit } }, ({ closed }) => ({
      changes: dryRun
        ? []
        : [...change, ...closed.map((item) => removal(item, context, { reason: 'retention' }))],
      result: { removed: closed.length, more: closed.length === limit },
    }))
  },
})
