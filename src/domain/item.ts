/**
 * An item: a piece of work in a queue. Pure rules for every operation on it; each returns the resulting item, one
 * version higher. Every operation by a holder starts with `assertHolds`, which checks its token and agent.
 */
import { AttemptsExhaustedError, HoldfastError, IllegalMoveError, InvalidError } from '../errors.ts'
import { type Backoff, backoffMs } from './backoff.ts'
import { type Blame, clearedBy, markLoss, noSuspicion } from './crash.ts'
import { assertNoCircle, dependenciesOf, type Surroundings, waitsFor } from './dependency.ts'
import { assertHolder, type Claimant, grant, type Holder, type LeaseColumns, noLease } from './lease.ts'
import { knownState, type State, stateOf, type Workflow } from './workflow.ts'

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

/**
 * Which line an item is in. Each line has its own index, so that a claim reads only items it can take. A suspect can be
 * claimed too, but each process takes only one at a time.
 */
export type Phase = 'ready' | 'suspect' | 'waiting' | 'held' | 'closed'

export interface Failure {
  readonly message: string
  readonly code?: string | undefined
  readonly retryable?: boolean | undefined
  /** Where it was thrown and what caused it; truncated. */
  readonly stack?: string | undefined
}

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

export const priorityDefault = 5

export function describeItem(item: Pick<Item, 'id' | 'key' | 'queue'>): string {
  return `item ${item.key === null ? item.id : `${item.key} (${item.id})`} of queue ${item.queue}`
}

/** The only place that decides which line an item is in. */
export function phaseOf(item: Omit<Item, 'phase'>, workflow: Workflow): Phase {
  const state = stateOf(workflow, item.state)
  if (state.closed) return 'closed'
  if (state.held) return 'held'
  if (state.claimTo === undefined || isKeptBack(item)) return 'waiting'
  return item.suspectedAt === null ? 'ready' : 'suspect'
}

export interface NewItem {
  readonly id: string
  readonly queue: string
  readonly priority?: number | undefined
  readonly key?: string | null | undefined
  readonly dedupeKey?: string | null | undefined
  readonly parent?: Item | null | undefined
  readonly blockers?: readonly Item[] | undefined
  /** Ids of everything that already waits for an item with this id, directly or indirectly. */
  readonly around?: Surroundings | undefined
  readonly runAt?: number | null | undefined
  readonly maxAttempts: number
  readonly submittedBy: string | null
  readonly payload: string
  readonly data: Item['data']
  /** Tokens start above this, because an earlier item with the same key may have used it. */
  readonly tokenFloor?: number | undefined
}

// Written out field by field, here and in `enter`. An object literal with at most one leading spread is many times
// faster than one with several, and these functions run for every item.
export function createItem(input: NewItem, workflow: Workflow, wall: number): Item {
  const { parent, ancestors, blockers, waitingFor } = dependenciesOf(input)
  return settle(
    {
      id: input.id,
      queue: input.queue,
      workflow: workflow.name,
      state: workflow.initial,
      phase: 'waiting',
      priority: input.priority ?? priorityDefault,
      key: input.key ?? null,
      dedupeKey: input.dedupeKey ?? null,
      parent,
      ancestors,
      blockers,
      waitingFor,
      runAt: delayed(input.runAt, wall),
      offeredTo: null,
      attempts: 0,
      failures: 0,
      crashes: 0,
      exposures: 0,
      suspectedAt: null,
      progressAtLoss: null,
      crashResets: 0,
      maxAttempts: input.maxAttempts,
      quarantinedAt: null,
      quarantineReason: null,
      cancelRequestedAt: null,
      submittedBy: input.submittedBy,
      addedAt: wall,
      startedAt: null,
      stateChangedAt: wall,
      closedAt: null,
      outcome: null,
      previousState: null,
      version: 1,
      agent: null,
      instance: null,
      token: input.tokenFloor ?? 0,
      grantedAt: null,
      renewedAt: null,
      expiresAt: null,
      leaseMs: null,
      holderHost: null,
      error: null,
      progress: null,
      result: null,
      data: input.data,
      payload: input.payload,
    },
    workflow,
  )
}

function delayed(runAt: number | null | undefined, wall: number): number | null {
  return runAt == null || runAt <= wall ? null : runAt
}

/** Replaces the blockers of an open item; its parent stays among them. */
export function setItemBlockers(
  item: Item,
  workflow: Workflow,
  { blockers, ...around }: { blockers: readonly Item[] } & Surroundings,
): Item {
  if (item.phase === 'closed') throw illegal(item, item.state, stateOf(workflow, item.state))
  assertNoCircle(
    item.id,
    blockers.map(({ id }) => id),
    around,
  )
  return editItem(item, waitsFor(blockers), workflow)
}

/** The item with fields changed by its submitter; its state stays the same. */
export function editItem(
  item: Item,
  edit: Partial<Omit<Item, 'state' | 'phase' | 'version'>>,
  workflow: Workflow,
): Item {
  return settle({ ...item, ...edit, version: item.version + 1 }, workflow)
}

export function claimItem(
  item: Item,
  workflow: Workflow,
  holder: Holder & { leaseMs: number },
  at: Clocks,
): Item {
  const to = stateOf(workflow, item.state).claimTo
  if (!isInLine(item) || to === undefined) throw notClaimable(item, 'claim an item that is ready')
  return grantItem(item, to, workflow, holder, at)
}

/** Claims an item by name, even from a state in which it is never handed out as the next item. */
export function claimItemByName(
  item: Item,
  workflow: Workflow,
  holder: Holder & { leaseMs: number },
  at: Clocks,
): Item {
  const state = stateOf(workflow, item.state)
  if (state.claimByNameTo === undefined) return claimItem(item, workflow, holder, at)
  if (isKeptBack(item)) throw notClaimable(item, 'wait until what keeps it back is over')
  return grantItem(item, state.claimByNameTo, workflow, holder, at)
}

/** Can be claimed now. */
function isInLine({ phase }: Item): boolean {
  return phase === 'ready' || phase === 'suspect'
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
function isKeptBack(item: Omit<Item, 'phase'>): boolean {
  return item.runAt !== null || item.waitingFor.length > 0 || item.quarantinedAt !== null
}

function notClaimable(item: Item, next: string): IllegalMoveError {
  return new IllegalMoveError({ subject: describeItem(item), from: item.state, to: 'claimed' }, next)
}

function grantItem(
  item: Item,
  to: string,
  workflow: Workflow,
  holder: Holder & { leaseMs: number },
  at: Clocks,
): Item {
  const lease = grant(holder, { leaseMs: holder.leaseMs, now: at.now, previous: item.token, floor: 0 })
  const claimed: Item = {
    ...item,
    agent: lease.agent,
    instance: lease.instance,
    token: lease.token,
    grantedAt: lease.grantedAt,
    renewedAt: lease.renewedAt,
    expiresAt: lease.expiresAt,
    leaseMs: lease.leaseMs,
    holderHost: lease.instance === null ? (holder.holderHost ?? null) : null,
    attempts: item.attempts + 1,
    startedAt: at.wall,
  }
  return enter(claimed, to, workflow, at.wall)
}

/** Guards an operation by the holder. Returns whether the lease had already lapsed. */
export function assertHolds(item: Item, { agent, token }: Claimant, now: number): { late: boolean } {
  return assertHolder(item, {
    subject: describeItem(item),
    held: item.phase === 'held',
    agent,
    token,
    now,
    goneBecause: item.cancelRequestedAt === null ? `it is ${item.state} now` : 'it was cancelled',
  })
}

/** Returns null for a move to the current state: nothing changes, and it is not an error. */
export function moveItem(item: Item, workflow: Workflow, to: string, at: Clocks): Item | null {
  const target = stateOf(workflow, to)
  if (to === item.state) return null
  const from = stateOf(workflow, item.state)
  if (!from.moves.includes(to)) throw illegal(item, to, from)
  if (target.held && !from.held) {
    throw new IllegalMoveError(
      { subject: describeItem(item), from: item.state, to },
      'claim it instead: a held state needs a holder',
    )
  }
  return enter(item, to, workflow, at.wall)
}

export function completeItem(item: Item, workflow: Workflow, result: string | null, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.completeTo === undefined) throw illegal(item, 'completed', from)
  return { ...enter(item, from.completeTo, workflow, at.wall), result, error: null }
}

/** A repeated completion under the same grant succeeds, because the first response may have been lost. */
export function isCompletedUnder(item: Item, token: number | undefined): boolean {
  return item.token === token && item.outcome === 'succeeded'
}

export interface FailOptions {
  readonly error: Failure
  readonly retryable: boolean
  readonly backoff: Backoff
  readonly random: number
}

/** Counts a handled failure. The last allowed failure ends in the workflow's failed state, even if it is retryable. */
export function failItem(item: Item, workflow: Workflow, options: FailOptions, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.failTo === undefined) throw illegal(item, 'failed', from)
  const failures = item.failures + 1
  const mayRepeat = options.retryable && failures < item.maxAttempts
  const to = mayRepeat ? (from.failRetryableTo ?? from.failTo) : from.failTo
  // The handler finished and its process is still alive, so this item did not kill the others.
  const cleared = { exposures: 0, suspectedAt: null }
  const failed = { ...item, ...cleared, failures, error: { ...options.error, retryable: options.retryable } }
  // An item that is claimable right after a failure has to wait first, or it would fail in a tight loop.
  if (stateOf(workflow, to).claimTo !== undefined) {
    const runAt = at.wall + backoffMs(options.backoff, failures, options.random)
    return enter({ ...failed, runAt }, to, workflow, at.wall)
  }
  return enter(failed, to, workflow, at.wall)
}

/** A deliberate release counts as neither a failure nor a crash. Legal from every held state. */
export function releaseItem(item: Item, workflow: Workflow, at: Clocks): Item {
  return enter(item, lostTo(item, workflow), workflow, at.wall)
}

export function retryItem(item: Item, workflow: Workflow, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  if (from.retryTo === undefined) {
    if (from.closed === 'failed' && item.failures >= item.maxAttempts) {
      throw new AttemptsExhaustedError({
        subject: describeItem(item),
        failures: item.failures,
        maxAttempts: item.maxAttempts,
      })
    }
    throw new IllegalMoveError(
      { subject: describeItem(item), from: item.state, to: workflow.initial },
      `${item.state} is not retryable; only ${retryableStates(workflow)} can be retried`,
    )
  }
  const failures = workflow.retryForgives ? 0 : item.failures
  return enter(
    { ...item, failures, error: null, runAt: null, offeredTo: null },
    from.retryTo,
    workflow,
    at.wall,
  )
}

function retryableStates(workflow: Workflow): string {
  const names = Object.entries(workflow.states).filter(([, state]) => state.retryTo !== undefined)
  return names.map(([name]) => name).join(', ') || 'nothing in this workflow'
}

export function cancelItem(item: Item, workflow: Workflow, at: Clocks): Item {
  const from = stateOf(workflow, item.state)
  const to = workflow.cancelTo
  if (to === undefined) {
    throw new IllegalMoveError(
      { subject: describeItem(item), from: item.state, to: 'cancelled' },
      `nothing in the workflow ${workflow.name} can be cancelled; remove it instead`,
    )
  }
  if (!from.moves.includes(to)) throw illegal(item, to, from)
  const requested = item.phase === 'held' ? at.wall : null
  return enter({ ...item, cancelRequestedAt: requested }, to, workflow, at.wall)
}

export interface Loss {
  /** What proves or suggests that the holder is gone. */
  readonly evidence: string
  readonly blame: Blame
  readonly maxCrashes: number
}

/** Takes a held item from its lost holder. Identity, payload, priority, key, data and progress are kept. */
export function reclaimItem(item: Item, workflow: Workflow, loss: Loss, at: Clocks): Item {
  return enter({ ...item, ...markLoss(item, loss, at.wall) }, lostTo(item, workflow), workflow, at.wall)
}

/** Quarantines a held item whose state is unknown: no rule covers it, so a person has to look at it. */
export function quarantineItem(item: Item, reason: string, at: Clocks): Item {
  return {
    ...item,
    ...noLease,
    holderHost: null,
    phase: 'waiting',
    startedAt: null,
    quarantinedAt: at.wall,
    quarantineReason: reason,
    version: item.version + 1,
  }
}

export function releaseItemFromQuarantine(item: Item, workflow: Workflow, at: Clocks): Item {
  if (item.quarantinedAt === null) {
    throw new InvalidError({
      what: `${describeItem(item)} is not quarantined`,
      next: 'nothing needs to be done',
    })
  }
  const known = knownState(workflow, item.state)
  // An item quarantined in a held or unknown state goes back in line, because nobody holds it.
  const to = known ? (known.lostTo ?? item.state) : workflow.initial
  const freed = { ...item, ...noSuspicion, crashResets: 0, quarantinedAt: null, quarantineReason: null }
  const stays = to === item.state && !known?.closed
  return stays
    ? settle({ ...freed, version: item.version + 1 }, workflow)
    : enter(freed, to, workflow, at.wall)
}

/** New progress suggests that the work itself is sound, so it clears suspicion. */
export function recordProgress(item: Item, progress: Json): Item {
  return { ...item, ...clearedBy(item, progress), progress, version: item.version + 1 }
}

/** Reserves a free item for one agent until the given time. */
export function offerItem(
  item: Item,
  workflow: Workflow,
  { to, untilWall }: { to: string; untilWall: number },
): Item {
  return settle({ ...item, offeredTo: to, runAt: untilWall }, workflow)
}

export function setItemPriority(item: Item, priority: number): Item | null {
  if (item.phase === 'closed') {
    throw new IllegalMoveError(
      { subject: describeItem(item), from: item.state, to: item.state },
      `${item.state} is a terminal state`,
    )
  }
  return item.priority === priority ? null : { ...item, priority, version: item.version + 1 }
}

/** The delay is over. */
export function promoteItem(item: Item, workflow: Workflow): Item {
  return settle({ ...item, runAt: null, offeredTo: null, version: item.version + 1 }, workflow)
}

/** A blocker has succeeded. Returns null if the item was not waiting for it. */
export function unblockItem(item: Item, workflow: Workflow, blocker: string): Item | null {
  if (!item.waitingFor.includes(blocker)) return null
  const waitingFor = item.waitingFor.filter((id) => id !== blocker)
  return settle({ ...item, waitingFor, version: item.version + 1 }, workflow)
}

/** Refuses to remove an item that others wait for: they would wait forever. `waiting` lists some of them. */
export function assertUnneeded(item: Item, waiting: readonly Pick<Item, 'id'>[], next: string): void {
  if (waiting.length === 0) return
  const ids = waiting.map(({ id }) => id)
  throw new HoldfastError('ILLEGAL_MOVE', {
    what: `${describeItem(item)} cannot be removed: ${ids.join(', ')} ${ids.length === 1 ? 'waits' : 'wait'} for it`,
    next,
    facts: { waiting: ids },
  })
}

/**
 * The item as readers should see it: without blockers that have already succeeded but have not yet been removed from
 * its row. It keeps the version of its row.
 */
export function withoutClosedBlockers(item: Item, workflow: Workflow, closed: readonly string[]): Item {
  const freed = closed.reduce((each, blocker) => unblockItem(each, workflow, blocker) ?? each, item)
  return freed === item ? item : { ...freed, version: item.version }
}

function lostTo(item: Item, workflow: Workflow): string {
  const state = stateOf(workflow, item.state)
  if (state.lostTo === undefined) throw illegal(item, 'given back', state)
  return state.lostTo
}

/** Every state change goes through here. Times never run backwards, and leaving the held states ends the lease. */
export function enter(item: Item, to: string, workflow: Workflow, wall: number): Item {
  const { held, closed } = stateOf(workflow, to)
  const stateChangedAt = Math.max(wall, item.stateChangedAt, item.startedAt ?? 0)
  return settle(
    {
      ...item,
      state: to,
      previousState: item.state,
      stateChangedAt,
      startedAt: held || closed ? item.startedAt : null,
      closedAt: closed ? stateChangedAt : null,
      outcome: closed ?? null,
      quarantinedAt: closed ? null : item.quarantinedAt,
      quarantineReason: closed ? null : item.quarantineReason,
      exposures: closed ? 0 : item.exposures,
      suspectedAt: closed ? null : item.suspectedAt,
      runAt: held || closed ? null : item.runAt,
      offeredTo: held || closed ? null : item.offeredTo,
      version: item.version + 1,
      agent: held ? item.agent : null,
      instance: held ? item.instance : null,
      grantedAt: held ? item.grantedAt : null,
      renewedAt: held ? item.renewedAt : null,
      expiresAt: held ? item.expiresAt : null,
      leaseMs: held ? item.leaseMs : null,
      holderHost: held ? item.holderHost : null,
    },
    workflow,
  )
}

/**
 * Sets the phase of an item that was just created here. Nothing else refers to it yet, so it need not be copied again.
 */
function settle(made: { -readonly [Field in keyof Item]: Item[Field] }, workflow: Workflow): Item {
  made.phase = phaseOf(made, workflow)
  return made
}

function illegal(item: Item, to: string, from: State): IllegalMoveError {
  const next = from.closed
    ? `${item.state} is a terminal state`
    : `from ${item.state} it may go to ${from.moves.join(', ') || 'no other state'}`
  return new IllegalMoveError({ subject: describeItem(item), from: item.state, to }, next)
}
