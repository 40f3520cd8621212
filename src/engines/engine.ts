/**
 * The port between rules and storage. A command names the rows it needs with selectors from a closed union. The engine
 * loads them, the rules decide, and the engine applies the changes with their events, guarded by version and token, in
 * one transaction. An engine contains no rule.
 */

import type { Allowance } from '../domain/allowance.ts'
import type { BoundedCount } from '../domain/count.ts'
import type { GrantEnd, Loss } from '../domain/crash-pattern.ts'
import type { Delivery } from '../domain/delivery.ts'
import type { EventKind, Image, StoredEvent, Subject } from '../domain/event.ts'
import type { LockBlocker } from '../domain/foreign-lock.ts'
import type { Horizon } from '../domain/horizon.ts'
import type { Claimant, Instance, Process } from '../domain/instance.ts'
import type { Item, Json, LinePosition, Phase } from '../domain/item.ts'
import type { Lock } from '../domain/lock.ts'
import type { LineHead, LockLine, Waiter } from '../domain/lock-line.ts'
import type { Message } from '../domain/message.ts'
import type { OpenTransaction } from '../domain/open-transaction.ts'
import type { Outage } from '../domain/outage.ts'
import type { Outcome, Progress } from '../domain/progress.ts'
import type { Queue } from '../domain/queue.ts'
import type { Quotas } from '../domain/quota.ts'
import type { WordList } from '../domain/ready-word.ts'
import type { Addressable, Recipient } from '../domain/recipient.ts'
import type { State, StateFloor, StateSummary } from '../domain/state.ts'
import type { Workflow } from '../domain/workflow.ts'
import type { Environment } from '../environment.ts'
import type { LogFacts, LogName } from '../logger.ts'
import type { RecoveryReport } from '../operations/recovery/recovery.ts'

/** Rows as the rules see them, by table. */
export interface Tables {
  item: Item
  lock: Lock
  waiter: Waiter
  progress: Progress
  outcome: Outcome
  queue: Queue
  workflow: WorkflowRow
  instance: Instance
  answer: Answer
  recoveryRun: RecoveryRun
  recoveryTotal: RecoveryTotal
  recoveryFailure: RecoveryFailure
  cascade: Cascade
  checkpoint: Checkpoint
  horizon: Horizon
  image: ImageRow
  state: State
  stateFloor: StateFloor
  sealedEvents: SealedEvents
  /** In a damaged row, `policy` and `escalation` are null or anything at all: the rules check before they use them. */
  message: Message
  delivery: Delivery
  recipient: Recipient
  addressable: Addressable
  /** In a damaged row, `marks` is null: nothing was counted. */
  allowance: Allowance
}

export interface DefinedQueue {
  readonly queue: Queue
  readonly definition: Workflow | null
}

export interface Dependent extends DefinedQueue {
  readonly item: Item
}

/** Selects items of a queue by their data. Absent means any; null means not set. */
export interface ItemFilter {
  /** Items that have all of these labels. */
  readonly labels?: readonly string[] | undefined
  readonly owner?: string | null | undefined
  /** Items of this owner, or of nobody. */
  readonly ownerOrNone?: string | undefined
  readonly host?: string | null | undefined
  /** Items for this machine, or for none; null: only those for none. */
  readonly hostOrNone?: string | null | undefined
  /** At least this urgent: a priority number no higher than this. */
  readonly maxPriority?: number | undefined
  /** Held by this agent. */
  readonly agent?: string | undefined
}

/** How far the search for a matching ready task has got. */
export interface SearchPlace {
  /** Which of the filter's lists is being walked, by its index in `listsOf`. */
  readonly by: number
  /** Where to continue; null: the list was searched to its end. */
  readonly from: LinePosition | null
}

export interface WorkflowRow {
  readonly name: string
  readonly definition: Workflow
  readonly version: number
}

/** The answer to a mutation that carried an idempotency key. */
export interface Answer {
  readonly key: string
  readonly operation: string
  /** The only agent that may have it; null if another agent that repeats the request gets it too. */
  readonly agent: string | null
  readonly requestHash: string
  /** JSON text. */
  readonly answer: string
  /** The grants it handed out. The answer is repeated only while they are current. */
  readonly grants: readonly Grant[]
  readonly at: number
}

/** What identifies a lease. */
export interface Grant {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
}

export interface RecoveryRun {
  readonly id: string
  /** The queue that this row is about; '' for named locks and messages, which belong to no queue. */
  readonly queue: string
  readonly at: number
  readonly trigger: string
  readonly by: string
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly quarantined: number
  readonly messagesReclaimed: number
}

/** Totals of the runs that are no longer kept; one row per queue. */
export interface RecoveryTotal {
  readonly queue: string
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly messagesReclaimed: number
  readonly version: number
}

/** How often healing failed, and its last failure, per trigger and queue. */
export interface RecoveryFailure {
  readonly queue: string
  readonly trigger: string
  readonly count: number
  readonly at: number
  readonly by: string
  readonly error: string
  readonly version: number
}

/** Where the retained events begin; everything earlier is in the images. */
export interface Checkpoint {
  readonly name: 'events'
  readonly seq: number
  /** The last trusted date of what came before. */
  readonly at: number
  /** Digest over every event removed so far; each range is chained to the one before. */
  readonly digest: string
  readonly version: number
}

/** A thing as it was at the checkpoint. */
export interface ImageRow {
  readonly subject: Subject
  readonly id: string
  readonly image: Image
}

/** A range of events starting at the oldest one kept; it can only be removed. */
export interface SealedEvents {
  readonly through: number
  readonly count: number
}

/** An item that succeeded or was removed while more items waited for it than that transaction freed. */
export interface Cascade {
  readonly blocker: string
  readonly at: number
}

export interface NeglectedNamespace {
  readonly namespace: string
  /** A recovery would find something to do. */
  readonly isHealingDue: boolean
  /** Messages are due, and no process with a recent beat has the namespace open. */
  readonly isSendingDue: boolean
}

/** A wait that cannot end. Items are named by their keys, or by their ids if they have none. */
export interface VainWait {
  readonly item: string
  readonly queue: string
  readonly blocker: string
  /** Null if the blocker is gone. */
  readonly state: string | null
}

export interface Page<Row> {
  readonly rows: readonly Row[]
  /** Pass as `after` to continue; null at the end. */
  readonly next: string | null
}

/** Enough to tell how a queue is doing now, and cheap to count. */
export const maxNewestClosed = 100

export interface QueueCounts {
  readonly byState: Readonly<Record<string, number>>
  readonly byPhase: Readonly<Record<Phase, number>>
  readonly quarantined: number
  readonly quarantinedByState: Readonly<Record<string, number>>
  readonly oldestReadyAt: number | null
}

/** A queue at a glance, read from indexes: it costs the same however long the queue is. */
export interface QueueGlance {
  readonly queue: string
  /** Includes suspects. */
  readonly ready: BoundedCount
  readonly waiting: BoundedCount
  readonly quarantined: BoundedCount
  readonly closed: BoundedCount
  /** States of the newest closed items, over as many as were counted. */
  readonly closedByState: ReadonlyMap<string, number>
  /** States of the newest closed items, at most `maxNewestClosed` of them. */
  readonly newestClosed: ReadonlyMap<string, number>
  readonly oldestReadyAt: number | null
}

/**
 * Every way to name rows: [arguments, what is loaded]. `waits`: wait for rows that others are working on instead of
 * skipping them.
 */
export interface Selectors {
  /** `stacks`: another item is being stacked on this one, so its own position in a stack must not change meanwhile. */
  item: [{ queue: string | null; ref: string; stacks?: true }, Item | null]
  itemsById: [{ ids: readonly string[] }, readonly Item[]]
  openItemByKey: [{ queue: string; key: string }, Item | null]
  openItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The newest item with a dedupe key, open or closed. */
  lastItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The next `limit` items that can be claimed now: by priority, then age, then id. */
  claimable: [{ queue: string; limit: number }, readonly Item[]]
  /**
   * Suspects that can be claimed now, in the same order; none while the process of this instance holds one. A caller
   * without a process may have any.
   */
  suspects: [
    { queue: string; filter: ItemFilter | null; instance: string | null; limit: number },
    readonly Item[],
  ]
  /**
   * The next ready tasks that match the filter, in line order. They come from one of its lists, starting at a position,
   * among the next `window` rows; null: all rows. `next` is where the search stopped, or null if the list ended.
   */
  tasksMatching: [
    { filter: ItemFilter; by: number; from: LinePosition | null; window: number | null; limit: number },
    { readonly items: readonly Item[]; readonly next: LinePosition | null },
  ]
  /**
   * How many ready tasks are in each list, counted up to `limit`. Once one list is short, the others may stay
   * uncounted.
   */
  wordCounts: [{ lists: readonly WordList[]; limit: number }, readonly number[]]
  /** Ready tasks for machines other than these. */
  strandedTasks: [{ hosts: readonly string[]; limit: number }, readonly Item[]]
  /** Items reserved for an agent that it could claim, in working order. */
  offered: [{ queue: string; agent: string; filter: ItemFilter | null; limit: number }, readonly Item[]]
  /** All held items, soonest expiry first, each with the wall time of its last event. */
  heldItems: [
    { queue: string | null; limit: number },
    readonly { readonly item: Item; readonly changedAt: number | null }[],
  ]
  /** Every slot of every lock, soonest expiry first. */
  heldLocks: [{ limit: number }, readonly Lock[]]
  /**
   * How many items of a queue an agent holds, and how many are held on a machine, given by an instance or by name. The
   * latter are held by running processes or by hand. Null is not counted.
   */
  heldCounts: [
    { queue: string; agent: string | null; instance: string | null; host: string | null },
    { byAgent: number; onHost: number },
  ]
  /** Items that an agent holds by hand, through this instance, or through a process registered for it. */
  itemsOfAgent: [{ agent: string; instance: string | null; queue: string; limit: number }, readonly Item[]]
  /**
   * Held, not expired, in the last third of the lease (at most 5 min), and not yet warned about under this token: all
   * such rows, or those among `ids`. Locks are named by name#slot.
   */
  nearItems: [{ ids: readonly string[] | null; limit: number }, readonly Item[]]
  nearLocks: [{ ids: readonly string[] | null; limit: number }, readonly Lock[]]
  nearDeliveries: [{ ids: readonly string[] | null; limit: number }, readonly Delivery[]]
  /** The items claimed together with the slots of this lock. */
  lockedItems: [{ name: string }, readonly Item[]]
  /** Held items whose lease lapsed before now, longest expired first; in these queues, or in all. */
  lapsedItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  lapsedLocks: [{ name: string | null; limit: number }, readonly Lock[]]
  /** Rows that others are working on are skipped, unless `waits`. */
  itemsOfInstances: [
    { instances: readonly string[]; queue: string | null; limit: number; waits?: true },
    readonly Item[],
  ]
  locksOfInstances: [
    { instances: readonly string[]; name: string | null; limit: number; waits?: true },
    readonly Lock[],
  ]
  /** Held items of a queue that showed no sign of life for this long, longest silent first. */
  silentItems: [{ queue: string; thresholdMs: number; limit: number }, readonly Item[]]
  /** Delayed items that are due; in these queues, or in all. */
  dueItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  /** When the next delayed item of any queue is due; null when none is delayed. */
  nextDueAt: [Record<never, never>, number | null]
  /** Items that wait for one of these, each with its queue, including items that stopped waiting a moment ago. */
  dependents: [{ ids: readonly string[]; limit: number }, readonly Dependent[]]
  /** Ids of everything that waits for an item, directly or indirectly; at most `limit`. */
  transitiveDependents: [{ id: string; limit: number }, readonly string[]]
  /** Ids of these and of everything they wait for, directly or indirectly; at most `limit`. */
  transitiveBlockers: [{ ids: readonly string[]; limit: number }, readonly string[]]
  /** Open items stacked on an item, directly or indirectly; at most `limit`. */
  stackedOn: [{ id: string; limit: number }, readonly Item[]]
  /** Among the first `window` waits, those of open items for one that failed or is gone. */
  vainWaits: [{ window: number; limit: number }, readonly VainWait[]]
  /**
   * Items still waiting for one that succeeded and is closed, or was removed, each with that blocker; and cascades with
   * nothing left to free, since items wait for a blocker that started over until it ends again. `more`: there are other
   * cascades.
   */
  freedDependents: [
    { limit: number },
    {
      dependents: readonly (Dependent & { blocker: string })[]
      finished: readonly Cascade[]
      more: boolean
    },
  ]
  /** Blockers that succeeded or were removed while some items that waited for them are not freed yet; usually none. */
  closedBlockers: [Record<never, never>, readonly string[]]
  items: [
    {
      queue: string
      states: readonly string[] | null
      /** The phases they can be in; no other phase is searched. */
      lines: readonly Phase[]
      /** Among closed items, `states` names only failed states. */
      failedOnly: boolean
      /** Among waiting items, only quarantined ones can be in one of `states`. */
      quarantinedOnly: boolean
      /** Among waiting items, only those that wait for one of these; up to 10,000 are examined. Null: any. */
      freedBy: readonly string[] | null
      quarantined: boolean | null
      filter: ItemFilter | null
      limit: number
      after: string | null
    },
    Page<Item>,
  ]
  /** How many ready items are ahead of this position, and how many there are in all, each counted up to `limit`. */
  line: [
    { queue: string; priority: number; addedAt: number | null; id: string | null; limit: number },
    { ahead: number; total: number },
  ]
  /** Exact counts over every item: linear in the length of the queue. */
  counts: [{ queue: string }, QueueCounts]
  /** Each counted up to `limit`. */
  queueGlances: [{ queues: readonly string[]; limit: number }, readonly QueueGlance[]]
  readyCounts: [
    { queues: readonly string[]; limit: number },
    readonly { readonly queue: string; readonly ready: BoundedCount }[],
  ]
  /**
   * The queues most worth a look: with quarantined items, failing, paused, with the longest waits (among a thousand),
   * with held items; then by name.
   */
  watchedQueues: [{ limit: number }, { readonly queues: readonly DefinedQueue[]; readonly more: boolean }]
  /** The item with this key in each queue: the open one, or else the one added last. */
  itemsByKey: [{ key: string; limit: number }, readonly Item[]]
  /** Closed items that nobody waits for, oldest first. `before`: those closed up to and including this wall time. */
  closedBefore: [{ queue: string | null; before: number; limit: number }, readonly Item[]]
  /** A queue with the definition of its workflow, unless that is built in. */
  queue: [{ name: string }, DefinedQueue | null]
  queues: [{ names: readonly string[] | null }, readonly DefinedQueue[]]
  workflow: [{ name: string }, WorkflowRow | null]
  /** The rows of a lock's slots. */
  lock: [{ name: string }, readonly Lock[]]
  /** A lock with its line, counted up to the limit, and the caller's own position in it. */
  lockLine: [{ name: string; waiter: string | null; limit: number }, LockLine]
  /** A lock, the first in line, and how many are ahead of the caller, counted up to `maxAhead`. */
  lockHead: [{ name: string; waiter: string; limit: number; maxAhead: number }, LineHead]
  /** Locks, each with the first waiter in its line. */
  lockHeads: [{ names: readonly string[] }, readonly Pick<LineHead, 'locks' | 'first'>[]]
  /** How many lock lines an agent is waiting in, counted up to the limit. */
  waitersOfAgent: [{ agent: string; limit: number }, number]
  /** Locks by name and slot, after the given one; includes lapsed ones. */
  locks: [{ agent: string | null; prefix: string; after: string | null; limit: number }, Page<Lock>]
  /** Named locks and reservations of an agent, without processing locks. */
  namedLocksOf: [{ agent: string; limit: number }, readonly Lock[]]
  /** Whether any named lock is held now. */
  isAnyLocked: [Record<never, never>, boolean]
  /** Locks that reserve paths and have not lapsed. */
  reservations: [{ limit: number }, readonly Lock[]]
  /** Waiters in line; rows that others are working on are skipped, unless `waits`. */
  waitersById: [{ ids: readonly string[]; waits?: true }, readonly Waiter[]]
  lapsedWaiters: [{ limit: number }, readonly Waiter[]]
  waitersOfInstances: [{ instances: readonly string[]; limit: number; waits?: true }, readonly Waiter[]]
  progressOf: [{ runs: readonly string[] }, readonly Progress[]]
  /** Runs by name, after the given one. */
  progressPage: [{ status: string | null; after: string | null; limit: number }, Page<Progress>]
  /** Runs marked as running whose lock is gone. */
  orphanedProgress: [{ limit: number }, readonly Progress[]]
  /** `isTrimmed`: runs whose item outcomes are no longer kept; otherwise, runs whose outcomes are. */
  progressEndedBefore: [{ before: number; isTrimmed: boolean; limit: number }, readonly Progress[]]
  outcomesById: [{ ids: readonly string[] }, readonly Outcome[]]
  outcomesOf: [{ run: string; outcome: string | null; after: string | null; limit: number }, Page<Outcome>]
  locksByRef: [{ refs: readonly string[] }, readonly Lock[]]
  instances: [{ ids: readonly string[] }, readonly Instance[]]
  /** The processes of these instances. */
  processes: [{ instances: readonly string[] }, readonly Process[]]
  /** Instances that have not ended. */
  runningInstances: [{ limit: number }, readonly Instance[]]
  /**
   * Running instances of one machine, or of one process on it, by start; with `otherBoots`, also of its earlier boots.
   */
  machineInstances: [
    {
      machine: Pick<Instance, 'bootId' | 'hostName' | 'pidNamespace'>
      pid: number | null
      otherBoots: boolean
      after: string | null
      limit: number
    },
    Page<Instance>,
  ]
  /** Instances that beat and have been silent for this long on the lease clock, longest first. */
  silentInstances: [{ silentMs: number; limit: number }, readonly Instance[]]
  /** How many items, locks, places in line and deliveries instances hold, even if others are working on those rows. */
  heldByInstances: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly count: number }[],
  ]
  /**
   * When these last beat or renewed something, in awake time of their machine; omits those for which that is unknown.
   */
  awakeTimes: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly awakeAt: number }[],
  ]
  /** Running processes of one machine that sweep and have beaten recently, in all namespaces, oldest first. */
  healers: [
    {
      machine: Pick<Instance, 'bootId' | 'hostName' | 'pidNamespace'>
      silentMs: number
      limit: number
    },
    readonly Instance[],
  ]
  /**
   * Running processes that a process of this machine can judge, in all namespaces but this one. `awakeAt`: when it last
   * beat, in awake time of its machine; null if unknown.
   */
  otherProcesses: [
    {
      machine: Pick<Instance, 'bootId' | 'hostName' | 'pidNamespace'>
      otherBoots: boolean
      after: string
      limit: number
    },
    Page<{ readonly namespace: string; readonly instance: Instance; readonly awakeAt: number | null }>,
  ]
  /** Ended instances that still hold something. */
  endedHolders: [{ limit: number }, readonly Instance[]]
  /** The process behind a claim by this caller. */
  claimant: [{ agent: string; instance: string | null }, Claimant]
  /** The process someone registered for an agent, if it has not ended. */
  registeredInstance: [{ agent: string }, Instance | null]
  instancesEndedBefore: [{ before: number; limit: number }, readonly Instance[]]
  answer: [{ key: string }, Answer | null]
  answersBefore: [{ before: number; limit: number }, readonly Answer[]]
  /** The newest run, and the totals over all runs ever, including those no longer kept; for one queue, or all. */
  recoveryHistory: [
    { queue: string | null },
    {
      last: Omit<RecoveryRun, 'id' | 'queue'> | null
      locksCleaned: number
      entriesReclaimed: number
      messagesReclaimed: number
    },
  ]
  /** For one queue, or all; newest first. */
  recoveryFailures: [{ queue: string | null }, readonly RecoveryFailure[]]
  recoveryFailure: [{ queue: string; trigger: string }, RecoveryFailure | null]
  /** Runs before the newest `keep`, oldest first. */
  oldRecoveryRuns: [{ keep: number; limit: number }, readonly RecoveryRun[]]
  recoveryTotals: [{ queues: readonly string[] }, readonly RecoveryTotal[]]
  /** Whether a recovery that knows of no death would do anything. */
  isHealingDue: [Record<never, never>, boolean]
  /**
   * The other namespaces with something to heal, among the next `limit` that hold, delay or wait for anything or have
   * processes. That is work for a recovery, or processes that have been silent for this long.
   */
  dueNamespaces: [
    { after: string; silentMs: number; limit: number },
    { readonly due: readonly string[]; readonly next: string | null },
  ]
  /**
   * Among the first `limit` namespaces that hold, delay or send anything: the other ones where something is overdue.
   */
  neglectedNamespaces: [{ silentMs: number; limit: number }, readonly NeglectedNamespace[]]
  /** What a recovery would reclaim now: lapsed, or held by these instances, which are dead. */
  lapsedCounts: [
    { queue: string | null; name: string | null; instances: readonly string[] },
    { items: number; locks: number; deliveries: number },
  ]
  /**
   * Transactions that other programs have had open on the server for this long, oldest first; none without a server.
   */
  longTransactions: [{ openForMs: number; limit: number }, readonly OpenTransaction[]]
  /**
   * Holders of advisory locks: those that sessions of the store wait for, and any that do not use the store. None
   * without a server.
   */
  lockBlockers: [{ limit: number }, readonly LockBlocker[]]
  events: [
    {
      since: number
      limit: number
      /** Only events about one thing. */
      of: { readonly subject: Subject; readonly id: string } | null
      newest: boolean
      /** Only events before this sequence number. */
      before?: number | undefined
    },
    readonly StoredEvent[],
  ]
  /**
   * Events about one kind of thing. They have no index, so at most `window` events of all kinds are examined. `next` is
   * the number to continue from; null if there is nothing more.
   */
  eventsAbout: [
    {
      subject: Subject
      since: number
      before: number | null
      newest: boolean
      limit: number
      window: number
    },
    { readonly events: readonly StoredEvent[]; readonly next: number | null },
  ]
  /** Leases lost within this time by the wall clock, newest first. */
  losses: [{ sinceMs: number; limit: number }, readonly Loss[]]
  /** How grants ended, newest first, according to the newest `window` events. */
  grantEnds: [{ window: number }, readonly GrantEnd[]]
  /** A few of the events after this one: the newest, then halving the distance each time. */
  eventSamples: [{ after: number }, readonly Pick<StoredEvent, 'at'>[]]
  checkpoint: [Record<never, never>, Checkpoint | null]
  horizons: [Record<never, never>, readonly Horizon[]]
  images: [{ keys: readonly { subject: Subject; id: string }[] }, readonly ImageRow[]]
  /** Images by subject and id, after the given one. */
  imagePage: [{ after: { subject: string; id: string } | null; limit: number }, readonly ImageRow[]]
  /** By id, or by a prefix of it; two if the prefix is ambiguous. */
  messageByRef: [{ ref: string }, readonly Message[]]
  messagesById: [{ ids: readonly string[] }, readonly Message[]]
  /** All deliveries of these messages, in the order they were created. */
  deliveriesOf: [{ messages: readonly string[] }, readonly Delivery[]]
  deliveriesById: [{ ids: readonly string[] }, readonly Delivery[]]
  /** Deliveries that one of these adapters has to send now, longest due first. */
  dueDeliveries: [{ adapters: readonly string[]; limit: number }, readonly Delivery[]]
  /** Messages with a delivery whose wait for an answer has ended and that nobody is sending. */
  unansweredMessages: [{ limit: number }, readonly Message[]]
  /** Among the first deliveries whose wait for an answer has ended, those whose message is missing. */
  strandedDeliveries: [{ limit: number }, readonly Delivery[]]
  /** Messages that have reached their next escalation level. */
  dueMessages: [{ limit: number }, readonly Message[]]
  /** When the next delivery, end of a wait or escalation is due, on the lease clock. */
  nextRedeliveryAt: [{ adapters: readonly string[] }, number | null]
  /** For each adapter with a delivery overdue by this much, when its first one was due; longest overdue first. */
  overdueDeliveries: [
    { overdueMs: number; limit: number },
    readonly { readonly adapter: string; readonly dueAt: number }[],
  ]
  /** Deliveries being sent, soonest expiry first. */
  heldDeliveries: [{ limit: number }, readonly Delivery[]]
  lapsedDeliveries: [{ limit: number }, readonly Delivery[]]
  deliveriesOfInstances: [{ instances: readonly string[]; limit: number; waits?: true }, readonly Delivery[]]
  /** What a recipient was sent: open deliveries by priority and age, or all of them, newest first. */
  inbox: [
    { recipient: string; isUnread: boolean; isAll: boolean; limit: number; after: string | null },
    Page<Delivery>,
  ]
  /** Open messages, or dead letters, by id, which is also by age. */
  messages: [
    { phase: 'open' | 'dead'; sender: string | null; limit: number; after: string | null },
    Page<Message>,
  ]
  openMessageCount: [{ sender: string | null }, number]
  closedMessagesBefore: [{ before: number; limit: number }, readonly Message[]]
  /**
   * Registered recipients, and agents that opened the store or acted in it. Without names: all running ones, or with
   * `isAnybody` everyone who can be sent a message.
   */
  recipients: [
    { names: readonly string[] | null; limit: number; isAnybody?: true },
    { registered: readonly Recipient[]; agents: readonly string[] },
  ]
  /** Null if nobody has acted under this name. */
  addressable: [{ name: string }, Addressable | null]
  /** Names known since then or earlier, without a delivery and without an open message of their own. */
  unusedNames: [{ before: number; limit: number }, readonly Addressable[]]
  allowances: [{ names: readonly string[] }, readonly Allowance[]]
  /** Allowances whose last mark is older than this, on the lease clock. */
  allowancesBefore: [{ ageMs: number; limit: number }, readonly Allowance[]]
  /** The highest token any deleted row of this namespace had. */
  tokenFloor: [Record<never, never>, number]
  state: [{ key: string }, State | null]
  /** 0 if there is no such document. */
  stateVersion: [{ key: string }, number]
  stateFloor: [Record<never, never>, StateFloor | null]
  /** Documents by key, without their values. */
  states: [{ prefix: string; limit: number; after: string | null }, Page<StateSummary>]
}

export type Selector = {
  [Name in keyof Selectors]: { readonly select: Name } & Readonly<Selectors[Name][0]>
}[keyof Selectors]
export type Needs = Readonly<Record<string, Selector | null>>
type Row<S> = S extends { select: infer Kind extends keyof Selectors } ? Selectors[Kind][1] : null
export type Loaded<N extends Needs> = { readonly [Name in keyof N]: Row<N[Name]> }

/** What happened, for the audit log; written with the change it belongs to. */
export interface EventDraft {
  readonly kind: EventKind
  readonly agent: string | null
  readonly detail?: Readonly<Record<string, Json | undefined>>
}

/** One row before and after: null before means insert, null after means delete. */
export type Change = {
  [Table in keyof Tables]: {
    readonly table: Table
    readonly before: Tables[Table] | null
    readonly after: Tables[Table] | null
    /** Absent only for renewals and bookkeeping, which carry no version and are not replayed. */
    readonly event?: EventDraft
  }
}[keyof Tables]

/** A remark about a thing that was not changed, such as a refused release. */
export interface Remark extends EventDraft {
  readonly subject: Subject
  readonly id: string
  readonly queue: string | null
  readonly token: number | null
}

export interface Decision<Result = unknown> {
  readonly changes: readonly Change[]
  readonly remarks?: readonly Remark[]
  readonly result: Result
  /** The grants that an idempotent repeat depends on. */
  readonly granted?: readonly Grant[]
}

/** A decision that needs more rows, one time: children of a merged parent, queues of lapsed items. */
export interface Ask<N extends Needs = Needs, Result = unknown> {
  readonly ask: N
  readonly then: (more: Loaded<N>) => Decision<Result>
}

/** Plain data: what is asked, and by whom. Anything random or clock-like comes with it or from the store. */
export interface Command {
  readonly operation: string
  readonly input: unknown
  readonly namespace: string
  readonly caller: Caller
  readonly idempotencyKey?: string | undefined
  /** How long it waits for an unreachable store. Default: the engine's own patience. */
  readonly patienceMs?: number | undefined
  /** Set if the input was already checked and turned into plain data, so that it is not checked again. */
  readonly checked?: { readonly requestHash: string | null }
  /** Fresh ids and a random number, generated where the command was created. */
  readonly entropy: { readonly ids: readonly string[]; readonly random: number }
}

export interface Caller {
  readonly agent: string
  /** The instance behind bound leases; null for one-shot and remote callers. */
  readonly instance: string | null
  /** False: that instance is a process that renews nothing, so its leases are as long as manual ones. */
  readonly renews?: false | undefined
  /** The machine of the calling process; absent if unknown. */
  readonly host?: string | undefined
  /** It acts for another agent, which may be on any machine. */
  readonly isForAnother?: true | undefined
  /** Length of the leases that process renews, if neither the claim nor the queue sets one. */
  readonly leaseMs?: number | undefined
  /** How much of the shared resources this agent may take. */
  readonly quotas?: Quotas | undefined
  /** How far it has searched, with reads, for a matching task; its claim continues there. */
  readonly searched?: SearchPlace | undefined
}

/** The facts at the time of a decision. */
export interface Context extends Caller {
  /** Lease clock, ms. */
  readonly now: number
  /** Wall clock, ms. */
  readonly wall: number
  /** The lease clock may be wrong, so nobody loses a lease by it. */
  readonly isDoubtful: boolean
  /** When this process last could not reach the store, if that lasted long. */
  readonly outage: Outage | null
  /** How long the store spares a lease that nobody renews after it expires. */
  readonly manualGraceMs: number
  readonly ids: readonly string[]
  readonly random: number
}

export interface Executor {
  /** How often there was reason to doubt the lease clock, or what the store has kept; absent if there can be none. */
  readonly doubts?: number
  execute(command: Command): Promise<unknown>
  /**
   * Calls back when a commit of any process rings this bell (`bellNumber`). A hint, never the truth. Listening has
   * started when this returns, so a caller that checks the store afterwards misses nothing.
   */
  onRing(bell: number, listener: () => void): () => void
  /** Rings arrive here: one was heard recently. If not, waiters poll more often. Reading this triggers a test. */
  readonly hearsRings: boolean
  /**
   * Answers every waiting command, then closes. Commands that an unreachable store has not answered after `withinMs`
   * are abandoned.
   */
  close(withinMs?: number): Promise<void>
}

export interface EngineOptions {
  readonly environment: Environment
  readonly durability: 'full' | 'normal'
  readonly busyTimeoutMs: number
  /** The opener heals at once, so opening waits for a clock that nobody vouches for. */
  readonly recoverOnOpen: boolean
  /** How long a command waits for an unreachable store. */
  readonly patienceMs: number
  /** Heal before a batch with claims. */
  readonly recoverOnClaim: boolean
  /** Saved in the store from now on; undefined: keep the store's value. */
  readonly manualGraceMs?: number | undefined
  /** Someone other than the engine calls `checkpoint`; otherwise the engine does so itself, between transactions. */
  readonly hasCaretaker: boolean
  /** The store's file as another thread of this process found it; any other file is refused. */
  readonly file?: string | undefined
  readonly onRecovered: (report: RecoveryReport, trigger: 'claim', ms: number) => void
  /** `queue`: the queue that was to be claimed from. */
  readonly onRecoveryFailed: (error: unknown, trigger: 'claim' | 'completion', queue: string | null) => void
  readonly log: (level: 'info' | 'warn' | 'error', name: LogName, facts: LogFacts) => void
  /** Called when `status` has changed. */
  readonly onStatus?: () => void
}

export interface StoreWarning {
  /** The `doctor` check that shows it. */
  readonly check: string
  readonly what: string
  readonly remedy: string
  /** Someone may have wanted it this way: `doctor` shows it, but it is not logged at every start. */
  readonly isLasting?: true
}

export interface StoreStatus {
  readonly engine: 'sqlite' | 'postgres'
  readonly location: string
  readonly durability: 'full' | 'normal'
  readonly schemaVersion: number
  readonly engineVersion: string
  /** This process may read the store but not write to it. */
  readonly isReadOnly?: true
  /** What is wrong although the store can be used; logged at open and shown by `doctor`. */
  readonly warnings?: readonly StoreWarning[]
  /** What a PostgreSQL server reported about itself. */
  readonly server?: {
    readonly timeline: number
    readonly fsync: boolean
    readonly synchronousCommit: string
    /** The standbys that commits wait for, as currently set on the server; empty: none. */
    readonly synchronousStandbys: string
    /** The last list that was set, if none is set now: acknowledged changes then rest on one server. */
    readonly formerStandbys: string | null
  }
}

export interface Engine extends Executor {
  readonly status: StoreStatus
}
