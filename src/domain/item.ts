/**
 * An item: a piece of work in a queue. Its row, which line it is in, and the one way into another state. The rules for
 * each operation on it are in the files beside this one; each returns the resulting item, one version higher.
 */

import { HeldError, IllegalMoveError } from '../errors.ts'
import type { Failure } from './failure.ts'
import type { Json } from './json.ts'
import type { LeaseColumns } from './lease.ts'
import { statusOf, taskQueue } from './task-status.ts'
import { type State, stateOf, type Workflow } from './workflow.ts'

/**
 * Which line an item is in. Each line has its own index, so that a claim reads only items it can take. A suspect can be
 * claimed too, but each process takes only one at a time.
 */
export type Phase = 'ready' | 'suspect' | 'waiting' | 'held' | 'closed'

export interface Item extends LeaseColumns {
  /** The machine a manual claim came from, if known. For a bound claim, look at its instance. */
  readonly holderHost: string | null
  readonly id: string
  readonly queue: string
  readonly workflow: string
  readonly state: string
  readonly phase: Phase
  readonly priority: number
  /** Names the thing being worked on (a workspace, a branch); unique in its queue while the item is open. */
  readonly key: string | null
  readonly dedupeKey: string | null
  /** Id of the item this one is stacked on. */
  readonly parent: string | null
  /** Ids from the root of the stack down to the parent. */
  readonly ancestors: readonly string[]
  /** Ids this item was declared to depend on. */
  readonly blockers: readonly string[]
  /** The blockers that have not succeeded yet. */
  readonly waitingFor: readonly string[]
  /** Not claimable before this wall time; null once that time has passed. */
  readonly runAt: number | null
  /** The only agent that may claim it before `runAt`; after that, anyone may. */
  readonly offeredTo: string | null
  readonly attempts: number
  readonly failures: number
  /** Crashes blamed on it since it last made new progress. */
  readonly crashes: number
  /** How often it was lost along with other items since then. */
  readonly exposures: number
  /** When it came under suspicion of killing its holders; null if it is not suspected. */
  readonly suspectedAt: number | null
  /** Its progress when its holder was last lost. Only progress that differs from this counts as new. */
  readonly progressAtLoss: Json
  /** How often new progress has cleared its crashes. */
  readonly crashResets: number
  readonly maxAttempts: number
  readonly quarantinedAt: number | null
  readonly quarantineReason: string | null
  readonly cancelRequestedAt: number | null
  readonly submittedBy: string | null
  readonly addedAt: number
  readonly startedAt: number | null
  readonly stateChangedAt: number
  readonly closedAt: number | null
  /** How it closed; null while it is open. */
  readonly outcome: 'succeeded' | 'failed' | null
  readonly previousState: string | null
  readonly version: number
  readonly error: Failure | null
  readonly progress: Json
  /** JSON text of the outcome; opaque here. */
  readonly result: string | null
  /** JSON text; opaque here. */
  readonly payload: string
  /** Facts specific to the workflow (bead, head, tested-against, rebase count, journal, …). */
  readonly data: { readonly [key: string]: Json | undefined }
}

export interface Clocks {
  /** Lease clock. */
  readonly now: number
  /** Wall clock. */
  readonly wall: number
}

export function describeItem(item: Pick<Item, 'id' | 'key' | 'queue'>): string {
  if (item.queue === taskQueue) return `task ${item.key ?? item.id}`
  return `item ${item.key === null ? item.id : `${item.key} (${item.id})`} of queue ${item.queue}`
}

/** A state in the words of its users: those of a task are called statuses. */
export function describeState({ queue }: Pick<Item, 'queue'>, state: string): string {
  return (queue === taskQueue && statusOf(state)) || state
}

/** The only place that decides which line an item is in, except when no rule knows its state (`quarantineItem`). */
export function phaseOf(item: Omit<Item, 'phase'>, workflow: Workflow): Phase {
  const state = stateOf(workflow, item.state)
  if (state.closed) return 'closed'
  if (state.held) return 'held'
  if (state.claimTo === undefined || isKeptBack(item)) return 'waiting'
  return item.suspectedAt === null ? 'ready' : 'suspect'
}

/** The item with fields changed by its submitter; its state stays the same. */
export function editItem(
  item: Item,
  edit: Partial<Omit<Item, 'state' | 'phase' | 'version'>>,
  workflow: Workflow,
): Item {
  return settle({ ...item, ...edit, version: item.version + 1 }, workflow)
}

/** What determines an item's position in its queue's line. */
export type LinePosition = Pick<Item, 'priority' | 'addedAt' | 'id'>

/** The order in which items are claimed: by priority, then age, then id. */
export function compareInLine(left: LinePosition, right: LinePosition): number {
  if (left.priority !== right.priority) return left.priority - right.priority
  if (left.addedAt !== right.addedAt) return left.addedAt - right.addedAt
  return left.id < right.id ? -1 : 1
}

/** Delayed, waiting for others, or quarantined: not claimable in any state. */
export function isKeptBack(item: Omit<Item, 'phase'>): boolean {
  return item.runAt !== null || item.waitingFor.length > 0 || item.quarantinedAt !== null
}

export function setItemPriority(item: Item, priority: number): Item | null {
  if (item.phase === 'closed') {
    throw illegalMove(item, item.state, `${describeState(item, item.state)} is a terminal state`)
  }
  return item.priority === priority ? null : { ...item, priority, version: item.version + 1 }
}

/** Every state change goes through here. Times never run backwards, and leaving the held states ends the lease. */
export function enter(item: Item, to: string, workflow: Workflow, wall: number): Item {
  return moveTo(to, copyOf(item), workflow, wall)
}

type Draft = { -readonly [Field in keyof Item]: Item[Field] }

/** Changes an item that was just created here: nothing else refers to it yet. */
export function moveTo(to: string, made: Draft, workflow: Workflow, wall: number): Item {
  const { held, closed, retryTo } = stateOf(workflow, to)
  made.stateChangedAt = Math.max(wall, made.stateChangedAt, made.startedAt ?? 0)
  made.previousState = made.state
  made.state = to
  made.version += 1
  made.closedAt = closed ? made.stateChangedAt : null
  made.outcome = closed ?? null
  if (closed) {
    made.quarantinedAt = null
    made.quarantineReason = null
    made.exposures = 0
    made.suspectedAt = null
    // Otherwise what it waited for could not be removed. One that can be retried goes on waiting then.
    if (retryTo === undefined && made.waitingFor.length > 0) made.waitingFor = []
  }
  if (held || closed) {
    made.runAt = null
    made.offeredTo = null
  } else made.startedAt = null
  if (!held) {
    made.agent = null
    made.instance = null
    made.grantedAt = null
    made.renewedAt = null
    made.expiresAt = null
    made.leaseMs = null
    made.holderHost = null
  }
  return settle(made, workflow)
}

/** Sets the phase of an item that was just created here. */
export function settle(made: Draft, workflow: Workflow): Item {
  made.phase = phaseOf(made, workflow)
  return made
}

/**
 * A copy that may be changed. Written out, in the order of `createItem` and of the table: V8 makes a new hidden class
 * at every place that spreads so many fields, and code that meets more than four of them runs ten times slower.
 */
export function copyOf(item: Item): Draft {
  return {
    id: item.id,
    queue: item.queue,
    workflow: item.workflow,
    state: item.state,
    phase: item.phase,
    priority: item.priority,
    key: item.key,
    dedupeKey: item.dedupeKey,
    parent: item.parent,
    ancestors: item.ancestors,
    blockers: item.blockers,
    waitingFor: item.waitingFor,
    runAt: item.runAt,
    offeredTo: item.offeredTo,
    attempts: item.attempts,
    failures: item.failures,
    crashes: item.crashes,
    exposures: item.exposures,
    suspectedAt: item.suspectedAt,
    progressAtLoss: item.progressAtLoss,
    crashResets: item.crashResets,
    maxAttempts: item.maxAttempts,
    quarantinedAt: item.quarantinedAt,
    quarantineReason: item.quarantineReason,
    cancelRequestedAt: item.cancelRequestedAt,
    submittedBy: item.submittedBy,
    addedAt: item.addedAt,
    startedAt: item.startedAt,
    stateChangedAt: item.stateChangedAt,
    closedAt: item.closedAt,
    outcome: item.outcome,
    previousState: item.previousState,
    version: item.version,
    agent: item.agent,
    instance: item.instance,
    token: item.token,
    grantedAt: item.grantedAt,
    renewedAt: item.renewedAt,
    expiresAt: item.expiresAt,
    leaseMs: item.leaseMs,
    holderHost: item.holderHost,
    error: item.error,
    progress: item.progress,
    result: item.result,
    data: item.data,
    payload: item.payload,
  }
}

export function illegal(item: Item, to: string, from: State): IllegalMoveError {
  const named = (state: string) => describeState(item, state)
  const moves = from.moves.map(named).join(', ')
  if (from.closed) return illegalMove(item, to, `${named(item.state)} is a terminal state`)
  const next = `from ${named(item.state)} it may go to ${moves || 'no other state'}`
  const unclaimed = moves === '' ? 'claim it first' : `claim it first; unclaimed, it may only go to ${moves}`
  return illegalMove(item, to, from.claimTo === undefined ? next : unclaimed)
}

export function illegalMove(item: Item, to: string, next: string): IllegalMoveError {
  const named = (state: string) => describeState(item, state)
  return new IllegalMoveError({ subject: describeItem(item), from: named(item.state), to: named(to) }, next)
}

/** Refuses what only the holder may do. */
export function heldError(item: Item, next: string): HeldError {
  const { agent, expiresAt } = item
  return new HeldError({ subject: describeItem(item), holder: agent ?? 'an unknown agent', expiresAt }, next)
}
