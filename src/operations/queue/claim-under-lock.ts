/** Claiming an item together with its queue's processing lock. */
import type { Item } from '../../domain/item.ts'
import { claimItem } from '../../domain/item-claim.ts'
import { type Holder, renew } from '../../domain/lease.ts'
import { acquireLock, type Lock } from '../../domain/lock.ts'
import { processingLockName } from '../../domain/queue.ts'
import type { Context } from '../../port/command.ts'
import type { Decision } from '../../port/decision.ts'
import type { DefinedQueue } from '../../port/queue.ts'
import { leaseLength } from '../agent/claimant.ts'
import { itemGrant, lockGrant } from '../lease/lease.ts'
import { endings, lockChange } from '../lock/lock-change.ts'
import { ask, change, need, reply, type Step } from '../operation.ts'
import { workflowOf } from '../subject.ts'
import { viewItem, viewLease, viewLock } from '../view.ts'
import { type ClaimOutcome, heldAnswer, pausedAnswer } from './claim-outcome.ts'

/**
 * 1. Get the lock: our own (renewed), a free one or a lapsed one. Otherwise the answer is `held`.
 * 2. If we have an unfinished item under that lock, renew it with the lock.
 * 3. Otherwise claim the next item.
 * 4. If there is none, do not take a lock that was not ours already.
 */
export function claimUnderLock(
  defined: DefinedQueue,
  candidate: Item | undefined,
  holder: Holder,
  input: { leaseMs?: number | undefined; token?: number | undefined },
  context: Context,
): Step<ClaimOutcome> {
  const { queue } = defined
  const workflow = workflowOf(defined)
  const leaseMs = leaseLength(input.leaseMs, context, queue)
  const name = processingLockName(queue.name)
  const needs = need({
    locks: { select: 'lock', name },
    floor: { select: 'tokenFloor' },
    nextDueAt: { select: 'nextDueAt', queue: queue.name },
    locked: { select: 'lockedItems', name },
  })
  return ask(needs, ({ locks, floor, locked, nextDueAt }): Decision<ClaimOutcome> => {
    const request = {
      ...holder,
      name,
      slots: queue.slots ?? 1,
      leaseMs,
      reason: null,
      token: input.token,
    }
    const { now, wall, isDoubtful, manualGraceMs } = context
    const acquired = acquireLock(request, locks, { now, wall, isDoubtful, manualGraceMs, floor })
    if (acquired.outcome === 'held') return reply(heldAnswer(acquired.by))
    const own = acquired.outcome === 'renewed' ? acquired.before : null
    const unfinished = own && locked.find((item) => isHeldWith(item, own))
    if (own && unfinished) return goOn(own, acquired.after, unfinished)
    // A paused queue refuses only new claims. What is already held goes on.
    if (queue.pausedAt !== null) return pausedAnswer(queue)
    if (!candidate)
      return {
        changes: own ? [{ table: 'lock', before: own, after: acquired.after }] : [],
        result: { outcome: 'empty', nextDueAt, exists: true },
      }
    const item = claimItem(candidate, workflow, { ...holder, leaseMs }, context)
    const version = (acquired.before?.version ?? 0) + 1
    const lock = { ...acquired.after, item: item.id, itemToken: item.token, version }
    return {
      changes: [
        ...endings(acquired, context),
        lockChange(acquired.before, lock, context),
        change('item', candidate, item, 'item.claimed', context),
      ],
      result: answer(item, lock, context.now),
      granted: [itemGrant(item), lockGrant(lock)],
    }
  })

  function goOn(before: Lock, after: Lock, item: Item): Decision<ClaimOutcome> {
    const renewed = renew(item, context.now, leaseMs)
    return {
      changes: [
        { table: 'lock', before, after },
        { table: 'item', before: item, after: renewed },
      ],
      result: answer(renewed, after, context.now),
      granted: [itemGrant(item), lockGrant(after)],
    }
  }
}

/** Whether the item was claimed with this lock and its holder still has it. */
export function isHeldWith(item: Item, lock: Lock): boolean {
  const isSameClaim = item.id === lock.item && item.token === lock.itemToken
  return item.phase === 'held' && isSameClaim && item.agent === lock.agent && item.instance === lock.instance
}

function answer(item: Item, lock: Lock, now: number): ClaimOutcome {
  return {
    outcome: 'claimed',
    item: viewItem(item, now),
    lease: viewLease(item, now),
    lock: viewLock(lock, now),
  }
}
