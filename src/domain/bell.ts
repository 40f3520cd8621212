/**
 * Which waiting processes should check the store after a commit. A process listens to the bell of what it waits for,
 * and a commit rings the bells of what it changed. A store has 64 bells, and two things may share one: a ring is only a
 * hint that costs one look at the store, and only that look tells the truth.
 */
import type { Delivery } from './delivery.ts'
import type { Item } from './item.ts'
import type { Lock } from './lock.ts'
import type { Waiter } from './lock-line.ts'
import type { Message } from './message.ts'
import { type Queue, queueOfLock } from './queue.ts'
import { inboxAdapter } from './recipient.ts'
import type { State } from './state.ts'
import { taskQueue } from './task.ts'

/**
 * `queue`: something there can be claimed, or will be at a time not known before. `lock`: it may be available, or its
 * line is shorter. `state`: a document was saved or deleted. `inbox`: something must be sent through this adapter
 * sooner than expected. `feed`: there are new events; it has no name.
 */
export interface Bell {
  readonly kind: 'queue' | 'lock' | 'state' | 'inbox' | 'feed'
  readonly name: string
}

export const maxBells = 64
/** Nearly every commit rings the feed. Separate bells keep it from waking processes that wait for something else. */
const feedBells = 4
const otherBells = maxBells - feedBells

export const feed: Bell = { kind: 'feed', name: '' }

/** The bell's number, the same in every process. */
export function bellNumber(namespace: string, { kind, name }: Bell): number {
  const hash = mixed(hashed(afterNul(hashed(afterNul(hashed(firstHash, namespace)), kind)), name))
  return kind === 'feed' ? otherBells + (hash % feedBells) : hash % otherBells
}

/** Whether it announces more than new events. */
export function isOfThings(bell: number): boolean {
  return bell < otherBells
}

const firstHash = 0x811c9dc5
const prime = 0x01000193

/** FNV-1a, continued with this text. Part by part: joining the parts for every change would cost more. */
function hashed(start: number, text: string): number {
  let hash = start
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), prime)
  return hash
}

function afterNul(hash: number): number {
  return Math.imul(hash, prime)
}

function mixed(hash: number): number {
  return (hash ^ (hash >>> 15)) >>> 0
}

interface Rows {
  readonly item: Item
  readonly lock: Lock
  readonly waiter: Waiter
  readonly queue: Queue
  readonly state: State
  readonly message: Message
  readonly delivery: Delivery
}

/** Tables that nobody waits for. */
type Quiet =
  | 'run'
  | 'outcome'
  | 'workflow'
  | 'instance'
  | 'answer'
  | 'recoveryRun'
  | 'recoveryTotal'
  | 'recoveryFailure'
  | 'cascade'
  | 'checkpoint'
  | 'horizon'
  | 'image'
  | 'stateFloor'
  | 'sealedEvents'
  | 'recipient'
  | 'addressable'
  | 'allowance'

export type BellChange = { readonly event?: unknown } & (
  | {
      [Table in keyof Rows]: {
        readonly table: Table
        readonly before: Rows[Table] | null
        readonly after: Rows[Table] | null
      }
    }[keyof Rows]
  | { readonly table: Quiet }
)

interface Changes {
  readonly changes: readonly BellChange[]
  readonly remarks?: readonly unknown[]
}

/** Adds the bells that a decision rings once it is committed. The only place that decides who should look. */
export function noteRings(namespace: string, { changes, remarks = [] }: Changes, bells: Set<number>): void {
  for (const change of changes)
    for (const bell of bellsOf(change, changes)) bells.add(bellNumber(namespace, bell))
  if (remarks.length > 0 || changes.some(({ event }) => event !== undefined))
    bells.add(bellNumber(namespace, feed))
}

function bellsOf(change: BellChange, all: readonly BellChange[]): readonly Bell[] {
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
function isServed({ name }: Waiter, all: readonly BellChange[]): boolean {
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
