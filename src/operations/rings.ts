/** The bells that a decision rings. The only place that decides who should look. */
import { type Bell, bellNumber, feed } from '../domain/bell.ts'
import type { Delivery } from '../domain/delivery.ts'
import type { Item } from '../domain/item.ts'
import type { Lock } from '../domain/lock.ts'
import type { Waiter } from '../domain/lock-line.ts'
import { queueOfLock } from '../domain/queue.ts'
import { inboxAdapter } from '../domain/recipient.ts'
import type { State } from '../domain/state.ts'
import { taskQueue } from '../domain/task.ts'
import type { Change, Decision } from '../port/decision.ts'

/** Adds the bells that a decision rings once it is committed. */
export function noteRings(namespace: string, { changes, remarks = [] }: Decision, bells: Set<number>): void {
  for (const change of changes)
    for (const bell of bellsOf(change, changes)) bells.add(bellNumber(namespace, bell))
  if (remarks.length > 0 || changes.some(({ event }) => event !== undefined))
    bells.add(bellNumber(namespace, feed))
}

function bellsOf(change: Change, all: readonly Change[]): readonly Bell[] {
  switch (change.table) {
    case 'item': {
      const { queue } = (change.after ?? change.before) as Item
      return concernsClaimers(change.before, change.after) ? [{ kind: 'queue', name: queue }] : []
    }
    case 'queue':
      return change.after === null ? [] : [{ kind: 'queue', name: change.after.name }]
    case 'lock':
      return change.before !== null && mayBeHad(change.before, change.after)
        ? lockBells(change.before.name)
        : []
    case 'waiter':
      return change.before !== null && change.after === null && !isServed(change.before, all)
        ? lockBells(change.before.name)
        : []
    case 'state': {
      const { key } = (change.after ?? change.before) as State
      return [{ kind: 'state', name: key }]
    }
    case 'message':
      return isSooner(change.before?.dueAt, change.after?.dueAt) ? [settling] : []
    case 'delivery':
      return change.after === null ? [] : deliveryBells(change.before, change.after)
    default:
      return []
  }
}

function concernsClaimers(before: Item | null, after: Item | null): boolean {
  if (before?.phase === 'held' && after?.phase !== 'held') {
    // A process takes one suspect at a time, and claimers of tasks may be limited in how many they hold.
    if (before.suspectedAt !== null || before.queue === taskQueue) return true
  }
  if (after === null) return false
  // An item imported as held has already lapsed: the first process that looks gives it back.
  if (after.phase === 'held') return before === null
  return (
    after.phase === 'ready' ||
    after.phase === 'suspect' ||
    (after.phase === 'waiting' && after.runAt !== null)
  )
}

/** Free, or held by someone else: a waiter may be the new holder. */
function mayBeHad(before: Lock, after: Lock | null): boolean {
  return after === null || after.token !== before.token
}

/** Workers of a queue with a processing lock wait on the queue's bell. */
function lockBells(name: string): readonly Bell[] {
  const queue = queueOfLock(name)
  const lock: Bell = { kind: 'lock', name }
  return queue === null ? [lock] : [lock, { kind: 'queue', name: queue }]
}

/** It left because it got the only slot, so nobody behind it can get one. */
function isServed({ name }: Waiter, all: readonly Change[]): boolean {
  return all.some(
    (change) => change.table === 'lock' && change.after?.name === name && change.after.slots === 1,
  )
}

/** Every process settles unanswered messages, whichever adapters it has. */
const settling: Bell = { kind: 'inbox', name: inboxAdapter }

function deliveryBells(before: Delivery | null, after: Delivery): readonly Bell[] {
  // The process that made an attempt knows when the next one is due, and the others check from time to time.
  if (before !== null && after.attempts > before.attempts) return []
  const bells: Bell[] = []
  if (isSooner(before?.nextDueAt, after.nextDueAt)) bells.push({ kind: 'inbox', name: after.adapter })
  if (isSooner(before?.givesUpAt, after.givesUpAt)) bells.push(settling)
  return bells
}

function isSooner(before: number | null | undefined, after: number | null | undefined): boolean {
  return (after ?? Number.POSITIVE_INFINITY) < (before ?? Number.POSITIVE_INFINITY)
}
