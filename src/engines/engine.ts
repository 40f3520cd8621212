/**
 * The port between rules and storage. A command names the rows it needs by selectors from a closed union; the
 * engine loads them, the rules decide, the engine applies the changes with their events, guarded by version and
 * token, in one transaction. An engine contains no rule.
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
  /** `policy` and `escalation` of a damaged row are null, or anything: the rules look before they use them. */
  message: Message
  delivery: Delivery
  recipient: Recipient
  addressable: Addressable
  /** `marks` of a damaged row are null: nothing was counted. */
  allowance: Allowance
}

export interface DefinedQueue {
  readonly queue: Queue
  readonly definition: Workflow | null
}

export interface Dependent extends DefinedQueue {
  readonly item: Item
}

/** Which items of a queue are meant, by what their data says. Absent = any; null = none is set. */
export interface ItemFilter {
  /** All of these. */
  readonly labels?: readonly string[] | undefined
  readonly owner?: string | null | undefined
  /** This one's, or nobody's. */
  readonly ownerOrNone?: string | undefined
  readonly host?: string | null | undefined
  /** Of this machine, or of none; null: only of none. */
  readonly hostOrNone?: string | null | undefined
  /** At least this urgent: the number is not higher. */
  readonly maxPriority?: number | undefined
  /** Held by this agent. */
  readonly agent?: string | undefined
}

/** How far ready tasks have been looked through for one that fits. */
export interface SearchPlace {
  /** Which of the filter's lists is walked, by its number in `listsOf`. */
  readonly by: number
  /** Where to go on; null: the list has come to its end. */
  readonly from: LinePosition | null
}

export interface WorkflowRow {
  readonly name: string
  readonly definition: Workflow
  readonly version: number
}

/** What was answered to a mutation that carried an idempotency key. */
export interface Answer {
  readonly key: string
  readonly operation: string
  /** Whom alone it is for; null where another agent that repeats the request has it too. */
  readonly agent: string | null
  readonly requestHash: string
  /** JSON text. */
  readonly answer: string
  /** The grants it handed out: the answer is repeated only while they are current. */
  readonly grants: readonly Grant[]
  readonly at: number
}

/** A lease by what identifies it. */
export interface Grant {
  readonly kind: 'item' | 'lock'
  readonly id: string
  readonly token: number
}

export interface RecoveryRun {
  readonly id: string
  /** What it took of one queue; '' for named locks and messages, which are of none. */
  readonly queue: string
  readonly at: number
  readonly trigger: string
  readonly by: string
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly quarantined: number
  readonly messagesReclaimed: number
}

/** What the runs did that are no longer kept; one row for each queue. */
export interface RecoveryTotal {
  readonly queue: string
  readonly locksCleaned: number
  readonly entriesReclaimed: number
  readonly messagesReclaimed: number
  readonly version: number
}

/** How often healing failed, and the last time, for each trigger and queue. */
export interface RecoveryFailure {
  readonly queue: string
  readonly trigger: string
  readonly count: number
  readonly at: number
  readonly by: string
  readonly error: string
  readonly version: number
}

/** Where the events begin that are still kept; what came before is in the images. */
export interface Checkpoint {
  readonly name: 'events'
  readonly seq: number
  /** The last date that was believed of what came before. */
  readonly at: number
  /** Digest over every event removed so far, each range chained to the one before. */
  readonly digest: string
  readonly version: number
}

/** A thing as it was at the checkpoint. */
export interface ImageRow {
  readonly subject: Subject
  readonly id: string
  readonly image: Image
}

/** A range of events, from the oldest kept one on; it can only be removed. */
export interface SealedEvents {
  readonly through: number
  readonly count: number
}

/** An item that succeeded or was removed, and for which more items waited than that transaction freed. */
export interface Cascade {
  readonly blocker: string
  readonly at: number
}

export interface NeglectedNamespace {
  readonly namespace: string
  /** A recovery would do something. */
  readonly isHealingDue: boolean
  /** Messages are due, and no process that beats has the namespace open. */
  readonly isSendingDue: boolean
}

/** Items by their keys, or ids where they have none. */
export interface VainWait {
  readonly item: string
  readonly queue: string
  readonly blocker: string
  /** Null where it is gone. */
  readonly state: string | null
}

export interface Page<Row> {
  readonly rows: readonly Row[]
  /** Pass as `after` to go on; null at the end. */
  readonly next: string | null
}

/** Enough to tell how a queue fares now, and cheap to count. */
export const maxNewestClosed = 100

export interface QueueCounts {
  readonly byState: Readonly<Record<string, number>>
  readonly byPhase: Readonly<Record<Phase, number>>
  readonly quarantined: number
  readonly quarantinedByState: Readonly<Record<string, number>>
  readonly oldestReadyAt: number | null
}

/** What a look at a queue shows, by index: it costs the same however long the queue is. */
export interface QueueGlance {
  readonly queue: string
  /** Suspects too. */
  readonly ready: BoundedCount
  readonly waiting: BoundedCount
  readonly quarantined: BoundedCount
  readonly closed: BoundedCount
  /** States of the newest closed items, as many as were counted. */
  readonly closedByState: ReadonlyMap<string, number>
  /** States of the newest closed items, at most `maxNewestClosed` of them. */
  readonly newestClosed: ReadonlyMap<string, number>
  readonly oldestReadyAt: number | null
}

/** Every way to name rows: [arguments, what is loaded]. */
export interface Selectors {
  /** `stacks`: another is put on top of it, so its own place in a stack must not change meanwhile. */
  item: [{ queue: string | null; ref: string; stacks?: true }, Item | null]
  itemsById: [{ ids: readonly string[] }, readonly Item[]]
  openItemByKey: [{ queue: string; key: string }, Item | null]
  openItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The newest item under a dedupe key, open or closed. */
  lastItemByDedupeKey: [{ queue: string; dedupeKey: string }, Item | null]
  /** The next `limit` that can be claimed now: priority, then age, then id. */
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
   * The next ready tasks that pass the filter, in line order: found in one of its lists, from a place on, among so many
   * rows of it; null: all. `next` is where that look ended, null where the list did.
   */
  tasksMatching: [
    { filter: ItemFilter; by: number; from: LinePosition | null; window: number | null; limit: number },
    { readonly items: readonly Item[]; readonly next: LinePosition | null },
  ]
  /** How many ready tasks are in each list, counted up to `limit`; where one is short, the others may stay uncounted. */
  wordCounts: [{ lists: readonly WordList[]; limit: number }, readonly number[]]
  /** Ready tasks of machines that are none of these. */
  strandedTasks: [{ hosts: readonly string[]; limit: number }, readonly Item[]]
  /** What is kept for an agent and could be claimed by it, in working order. */
  offered: [{ queue: string; agent: string; filter: ItemFilter | null; limit: number }, readonly Item[]]
  /** Everything held, soonest expiry first, each with the wall time of its last event. */
  heldItems: [
    { queue: string | null; limit: number },
    readonly { readonly item: Item; readonly changedAt: number | null }[],
  ]
  /** Every slot of every lock, soonest expiry first. */
  heldLocks: [{ limit: number }, readonly Lock[]]
  /**
   * How many items of a queue an agent holds, and how many are held on a machine: that of an instance, or the named one.
   * There they are held by running processes, or by hand. Null is not counted.
   */
  heldCounts: [
    { queue: string; agent: string | null; instance: string | null; host: string | null },
    { byAgent: number; onHost: number },
  ]
  /** What an agent holds by hand, by this instance, or by a process registered for it. */
  itemsOfAgent: [{ agent: string; instance: string | null; queue: string; limit: number }, readonly Item[]]
  /**
   * Held, not expired, in the last third of the lease (at most 5 min), and not warned of under this token: all of
   * them, or of these. Locks are named by name#slot.
   */
  nearItems: [{ ids: readonly string[] | null; limit: number }, readonly Item[]]
  nearLocks: [{ ids: readonly string[] | null; limit: number }, readonly Lock[]]
  nearDeliveries: [{ ids: readonly string[] | null; limit: number }, readonly Delivery[]]
  /** The items claimed together with the slots of this lock. */
  lockedItems: [{ name: string }, readonly Item[]]
  /** Everything held whose lease lapsed before now, longest expired first; of these queues, or all. */
  lapsedItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  lapsedLocks: [{ name: string | null; limit: number }, readonly Lock[]]
  /** What others are at work on is passed over, unless `waits`. */
  itemsOfInstances: [
    { instances: readonly string[]; queue: string | null; limit: number; waits?: true },
    readonly Item[],
  ]
  locksOfInstances: [
    { instances: readonly string[]; name: string | null; limit: number; waits?: true },
    readonly Lock[],
  ]
  /** Held items of a queue without a sign of life for a time, most silent first. */
  silentItems: [{ queue: string; thresholdMs: number; limit: number }, readonly Item[]]
  /** Delayed items whose time has come; of these queues, or all. */
  dueItems: [{ queues: readonly string[] | null; limit: number }, readonly Item[]]
  /** When the next delayed item of any queue is due; null when none is delayed. */
  nextDueAt: [Record<never, never>, number | null]
  /** Items that wait for one of these, each with its queue; also such as stopped to wait a moment ago. */
  dependents: [{ ids: readonly string[]; limit: number }, readonly Dependent[]]
  /** Ids of everything that waits for an item, also through others; at most `limit`. */
  transitiveDependents: [{ id: string; limit: number }, readonly string[]]
  /** Ids of these and of everything that they wait for, also through others; at most `limit`. */
  transitiveBlockers: [{ ids: readonly string[]; limit: number }, readonly string[]]
  /** Open items that are stacked on an item, also through others; at most `limit`. */
  stackedOn: [{ id: string; limit: number }, readonly Item[]]
  /** Of the first `window` waits of open items: those for one that failed, or is gone. */
  vainWaits: [{ window: number; limit: number }, readonly VainWait[]]
  /**
   * Items still waiting for one that succeeded and is closed, or was removed, each with that blocker; and cascades with
   * nothing left to free: a blocker that started over is waited for until its next end. `more`: there are other cascades.
   */
  freedDependents: [
    { limit: number },
    {
      dependents: readonly (Dependent & { blocker: string })[]
      finished: readonly Cascade[]
      more: boolean
    },
  ]
  /** Closed well or removed, and not all that waited for them are freed yet; mostly none. */
  closedBlockers: [Record<never, never>, readonly string[]]
  items: [
    {
      queue: string
      states: readonly string[] | null
      /** Where they can stand; looked for nowhere else. */
      lines: readonly Phase[]
      /** Of the closed ones, `states` names only such as end badly. */
      failedOnly: boolean
      /** Of the waiting ones, only such as are set aside can be in one of `states`. */
      quarantinedOnly: boolean
      /** Of the waiting ones, only such as wait for one of these; 10,000 are looked at. Null: any. */
      freedBy: readonly string[] | null
      quarantined: boolean | null
      filter: ItemFilter | null
      limit: number
      after: string | null
    },
    Page<Item>,
  ]
  /** How many ready items stand before this place and in all, each counted up to `limit`. */
  line: [
    { queue: string; priority: number; addedAt: number | null; id: string | null; limit: number },
    { ahead: number; total: number },
  ]
  /** Every item, exactly: linear in the length of the queue. */
  counts: [{ queue: string }, QueueCounts]
  /** Each counted up to `limit`. */
  queueGlances: [{ queues: readonly string[]; limit: number }, readonly QueueGlance[]]
  readyCounts: [
    { queues: readonly string[]; limit: number },
    readonly { readonly queue: string; readonly ready: BoundedCount }[],
  ]
  /**
   * The queues most worth a look: with items set aside, failing, paused, with the longest waiting (among a thousand),
   * with held items; then by name.
   */
  watchedQueues: [{ limit: number }, { readonly queues: readonly DefinedQueue[]; readonly more: boolean }]
  /** The item of this key in each queue: the open one, else the one added last. */
  itemsByKey: [{ key: string; limit: number }, readonly Item[]]
  /** Closed items that nobody waits for, oldest first. All that ended `before`: up to this wall time. */
  closedBefore: [{ queue: string | null; before: number; limit: number }, readonly Item[]]
  /** A queue with the definition of its workflow, where that is not a built-in one. */
  queue: [{ name: string }, DefinedQueue | null]
  queues: [{ names: readonly string[] | null }, readonly DefinedQueue[]]
  workflow: [{ name: string }, WorkflowRow | null]
  /** The rows of a lock's slots. */
  lock: [{ name: string }, readonly Lock[]]
  /** A lock with its line, counted up to the limit, and the caller's own place in it. */
  lockLine: [{ name: string; waiter: string | null; limit: number }, LockLine]
  /** A lock, the first in line, and how many are before the caller's place, counted up to a limit of its own. */
  lockHead: [{ name: string; waiter: string; limit: number; maxAhead: number }, LineHead]
  /** Locks, each with the first in its line. */
  lockHeads: [{ names: readonly string[] }, readonly Pick<LineHead, 'locks' | 'first'>[]]
  /** In how many lines for locks an agent stands, counted up to the limit. */
  waitersOfAgent: [{ agent: string; limit: number }, number]
  /** Locks in order of name and slot, after the given one; lapsed ones too. */
  locks: [{ agent: string | null; prefix: string; after: string | null; limit: number }, Page<Lock>]
  /** Named locks and reservations of an agent; no processing locks. */
  namedLocksOf: [{ agent: string; limit: number }, readonly Lock[]]
  /** Whether any named lock is held now. */
  isAnyLocked: [Record<never, never>, boolean]
  /** Locks that reserve paths and have not lapsed. */
  reservations: [{ limit: number }, readonly Lock[]]
  /** Places in lines; those that others are at work on only where it waits for them. */
  waitersById: [{ ids: readonly string[]; waits?: true }, readonly Waiter[]]
  lapsedWaiters: [{ limit: number }, readonly Waiter[]]
  waitersOfInstances: [{ instances: readonly string[]; limit: number; waits?: true }, readonly Waiter[]]
  progressOf: [{ runs: readonly string[] }, readonly Progress[]]
  /** Runs in order of name, after the given one. */
  progressPage: [{ status: string | null; after: string | null; limit: number }, Page<Progress>]
  /** Runs said to be running without the lock under which they ran. */
  orphanedProgress: [{ limit: number }, readonly Progress[]]
  /** Those whose items are known, or whose items are no longer known. */
  progressEndedBefore: [{ before: number; isTrimmed: boolean; limit: number }, readonly Progress[]]
  outcomesById: [{ ids: readonly string[] }, readonly Outcome[]]
  outcomesOf: [{ run: string; outcome: string | null; after: string | null; limit: number }, Page<Outcome>]
  locksByRef: [{ refs: readonly string[] }, readonly Lock[]]
  instances: [{ ids: readonly string[] }, readonly Instance[]]
  /** The processes of these instances. */
  processes: [{ instances: readonly string[] }, readonly Process[]]
  /** Instances not ended. */
  runningInstances: [{ limit: number }, readonly Instance[]]
  /** Those of one machine, or of one process on it, by start; where `otherBoots`, also of its earlier starts. */
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
  /** Those that beat and were silent for so long on the lease clock, longest first. */
  silentInstances: [{ silentMs: number; limit: number }, readonly Instance[]]
  /** How many items, locks, places in line and deliveries instances hold, whoever is at work on them. */
  heldByInstances: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly count: number }[],
  ]
  /** When these last beat or renewed something, in awake time of their machine; not where that cannot be told. */
  awakeTimes: [
    { instances: readonly string[] },
    readonly { readonly instance: string; readonly awakeAt: number }[],
  ]
  /** Running processes of one machine that sweep and have beaten lately, of all namespaces, oldest first. */
  healers: [
    {
      machine: Pick<Instance, 'bootId' | 'hostName' | 'pidNamespace'>
      silentMs: number
      limit: number
    },
    readonly Instance[],
  ]
  /**
   * Running processes that one of this machine can judge, of all namespaces but this one. `awakeAt`: when it last beat,
   * in awake time of its machine; null where that cannot be told.
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
  /** Ended ones that still hold something. */
  endedHolders: [{ limit: number }, readonly Instance[]]
  /** The process behind a claim by this caller. */
  claimant: [{ agent: string; instance: string | null }, Claimant]
  /** The process registered for an agent by somebody, if it has not ended. */
  registeredInstance: [{ agent: string }, Instance | null]
  instancesEndedBefore: [{ before: number; limit: number }, readonly Instance[]]
  answer: [{ key: string }, Answer | null]
  answersBefore: [{ before: number; limit: number }, readonly Answer[]]
  /** The newest run, and the sums over all there ever were, also those that are no longer kept; of one queue, or all. */
  recoveryHistory: [
    { queue: string | null },
    {
      last: Omit<RecoveryRun, 'id' | 'queue'> | null
      locksCleaned: number
      entriesReclaimed: number
      messagesReclaimed: number
    },
  ]
  /** Of one queue, or all; the newest first. */
  recoveryFailures: [{ queue: string | null }, readonly RecoveryFailure[]]
  recoveryFailure: [{ queue: string; trigger: string }, RecoveryFailure | null]
  /** Runs before the newest `keep`, oldest first. */
  oldRecoveryRuns: [{ keep: number; limit: number }, readonly RecoveryRun[]]
  recoveryTotals: [{ queues: readonly string[] }, readonly RecoveryTotal[]]
  /** Whether a recovery that knows of no death would do anything. */
  isHealingDue: [Record<never, never>, boolean]
  /**
   * The other namespaces with something to heal, among the next `limit` that hold, delay or wait for anything or have
   * processes: what a recovery would do, or processes silent for so long.
   */
  dueNamespaces: [
    { after: string; silentMs: number; limit: number },
    { readonly due: readonly string[]; readonly next: string | null },
  ]
  /** Of the first `limit` other namespaces that hold, delay or send anything: those where something is overdue. */
  neglectedNamespaces: [{ silentMs: number; limit: number }, readonly NeglectedNamespace[]]
  /** What a recovery would take now: lapsed, or held by these instances, which are dead. */
  lapsedCounts: [
    { queue: string | null; name: string | null; instances: readonly string[] },
    { items: number; locks: number; deliveries: number },
  ]
  /** What other programs have had open on the server for so long, oldest first; none where there is no server. */
  longTransactions: [{ openForMs: number; limit: number }, readonly OpenTransaction[]]
  /** Who holds advisory locks that sessions of the store wait for, or any without using the store; none where there is no server. */
  lockBlockers: [{ limit: number }, readonly LockBlocker[]]
  events: [
    {
      since: number
      limit: number
      /** Only those of one thing. */
      of: { readonly subject: Subject; readonly id: string } | null
      newest: boolean
      /** Only events before this sequence number. */
      before?: number | undefined
    },
    readonly StoredEvent[],
  ]
  /**
   * Events of one kind of thing. They have no index of their own, so at most `window` events of all kinds are looked
   * through; `next` is the number to go on from, null where there is nothing beyond.
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
  /** Leases lost since so long ago by the wall clock, newest first. */
  losses: [{ sinceMs: number; limit: number }, readonly Loss[]]
  /** How grants ended, newest first, as far as the newest `window` events tell. */
  grantEnds: [{ window: number }, readonly GrantEnd[]]
  /** A few of the events after this one, from the newest back, each time half the way. */
  eventSamples: [{ after: number }, readonly Pick<StoredEvent, 'at'>[]]
  checkpoint: [Record<never, never>, Checkpoint | null]
  horizons: [Record<never, never>, readonly Horizon[]]
  images: [{ keys: readonly { subject: Subject; id: string }[] }, readonly ImageRow[]]
  /** Images in order of subject and id, after the given one. */
  imagePage: [{ after: { subject: string; id: string } | null; limit: number }, readonly ImageRow[]]
  /** By id, or by a prefix of it; two when the prefix is not enough. */
  messageByRef: [{ ref: string }, readonly Message[]]
  messagesById: [{ ids: readonly string[] }, readonly Message[]]
  /** All deliveries of these messages, in the order they were made. */
  deliveriesOf: [{ messages: readonly string[] }, readonly Delivery[]]
  deliveriesById: [{ ids: readonly string[] }, readonly Delivery[]]
  /** To be sent now by one of these adapters, longest due first. */
  dueDeliveries: [{ adapters: readonly string[]; limit: number }, readonly Delivery[]]
  /** With a delivery whose wait for an answer has ended and that nobody is sending. */
  unansweredMessages: [{ limit: number }, readonly Message[]]
  /** Of the first ones whose wait for an answer has ended: those whose message is not there. */
  strandedDeliveries: [{ limit: number }, readonly Delivery[]]
  /** Whose next level of escalation is reached. */
  dueMessages: [{ limit: number }, readonly Message[]]
  /** When any of the three above happens next, on the lease clock. */
  nextRedeliveryAt: [{ adapters: readonly string[] }, number | null]
  /** By adapter, when the first delivery was due that should have been sent so long ago; longest overdue first. */
  overdueDeliveries: [
    { overdueMs: number; limit: number },
    readonly { readonly adapter: string; readonly dueAt: number }[],
  ]
  /** Being sent, soonest expiry first. */
  heldDeliveries: [{ limit: number }, readonly Delivery[]]
  lapsedDeliveries: [{ limit: number }, readonly Delivery[]]
  deliveriesOfInstances: [{ instances: readonly string[]; limit: number; waits?: true }, readonly Delivery[]]
  /** What a recipient was sent: open ones by priority and age, or all of them, newest first. */
  inbox: [
    { recipient: string; isUnread: boolean; isAll: boolean; limit: number; after: string | null },
    Page<Delivery>,
  ]
  /** Open messages, or dead letters, by id, which is by age. */
  messages: [
    { phase: 'open' | 'dead'; sender: string | null; limit: number; after: string | null },
    Page<Message>,
  ]
  openMessageCount: [{ sender: string | null }, number]
  closedMessagesBefore: [{ before: number; limit: number }, readonly Message[]]
  /**
   * Registered recipients, and agents that opened the store or acted in it; without names all running ones, or all that
   * can be written to.
   */
  recipients: [
    { names: readonly string[] | null; limit: number; isAnybody?: true },
    { registered: readonly Recipient[]; agents: readonly string[] },
  ]
  /** Null where nobody has acted under this name. */
  addressable: [{ name: string }, Addressable | null]
  /** Known since then or before, without a delivery and without an open message of theirs. */
  unusedNames: [{ before: number; limit: number }, readonly Addressable[]]
  allowances: [{ names: readonly string[] }, readonly Allowance[]]
  /** Whose last mark is older than this, on the lease clock. */
  allowancesBefore: [{ ageMs: number; limit: number }, readonly Allowance[]]
  /** The highest token a deleted row of this namespace has had. */
  tokenFloor: [Record<never, never>, number]
  state: [{ key: string }, State | null]
  /** 0 when there is no such document. */
  stateVersion: [{ key: string }, number]
  stateFloor: [Record<never, never>, StateFloor | null]
  /** Documents in order of their keys, without their values. */
  states: [{ prefix: string; limit: number; after: string | null }, Page<StateSummary>]
}

export type Selector = {
  [Name in keyof Selectors]: { readonly select: Name } & Readonly<Selectors[Name][0]>
}[keyof Selectors]
export type Needs = Readonly<Record<string, Selector | null>>
type Row<S> = S extends { select: infer Kind extends keyof Selectors } ? Selectors[Kind][1] : null
export type Loaded<N extends Needs> = { readonly [Name in keyof N]: Row<N[Name]> }

/** What happened, for the audit; written with the change it belongs to. */
export interface EventDraft {
  readonly kind: EventKind
  readonly agent: string | null
  readonly detail?: Readonly<Record<string, Json | undefined>>
}

/** One row as it was and as it shall be: null before = insert, null after = delete. */
export type Change = {
  [Table in keyof Tables]: {
    readonly table: Table
    readonly before: Tables[Table] | null
    readonly after: Tables[Table] | null
    /** Absent for renewals and bookkeeping only: they carry no version and are not replayed. */
    readonly event?: EventDraft
  }
}[keyof Tables]

/** A remark on a thing that was not changed, such as a refused release. */
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
  /** The grants an idempotent repetition depends on. */
  readonly granted?: readonly Grant[]
}

/** A decision that needs more rows, once: children of a merged parent, queues of lapsed items. */
export interface Ask<N extends Needs = Needs, Result = unknown> {
  readonly ask: N
  readonly then: (more: Loaded<N>) => Decision<Result>
}

/** Plain data: what is asked, by whom. Everything random or clock-like comes with it or from the store. */
export interface Command {
  readonly operation: string
  readonly input: unknown
  readonly namespace: string
  readonly caller: Caller
  readonly idempotencyKey?: string | undefined
  /** How long it waits for a store that is away; as long as the engine does unless it says so. */
  readonly patienceMs?: number | undefined
  /** Set where the input was checked and made plain data: it is not checked again. */
  readonly checked?: { readonly requestHash: string | null }
  /** Fresh ids and a random number, made where the command was made. */
  readonly entropy: { readonly ids: readonly string[]; readonly random: number }
}

export interface Caller {
  readonly agent: string
  /** The instance that stands behind bound leases; null for one-shot and remote callers. */
  readonly instance: string | null
  /** False: that instance is a process which renews nothing, so its leases have the length of manual ones. */
  readonly renews?: false | undefined
  /** The machine of the process that asks; absent where nobody knows it. */
  readonly host?: string | undefined
  /** It asks for another agent, which may be on any machine. */
  readonly isForAnother?: true | undefined
  /** Length of the leases that process renews, where neither the claim nor the queue says one. */
  readonly leaseMs?: number | undefined
  /** How much of what all share this agent may take. */
  readonly quotas?: Quotas | undefined
  /** How far it has looked, by reads, for a task that fits: its claim goes on there. */
  readonly searched?: SearchPlace | undefined
}

/** Facts of this moment, for deciding. */
export interface Context extends Caller {
  /** Lease clock, ms. */
  readonly now: number
  /** Wall clock, ms. */
  readonly wall: number
  /** The lease clock may be wrong: nobody loses a lease by it. */
  readonly isDoubtful: boolean
  /** When this process last could not reach the store, if it did not for long. */
  readonly outage: Outage | null
  /** For how long the store spares a lease that nobody renews after its end. */
  readonly manualGraceMs: number
  readonly ids: readonly string[]
  readonly random: number
}

export interface Executor {
  /** How often there was a reason to doubt the lease clock, or what the store has kept; absent where there can be none. */
  readonly doubts?: number
  execute(command: Command): Promise<unknown>
  /**
   * Calls back when a commit of any process rang this bell (`bellNumber`); a hint, never the truth. It listens once this
   * has returned: who looks after that misses nothing.
   */
  onRing(bell: number, listener: () => void): () => void
  /** Rings arrive here: one was heard lately. Otherwise who waits looks more often. Asking makes it find out. */
  readonly hearsRings: boolean
  /** Answers what is waiting, then closes. What a store that is away has not answered after `withinMs` is given up. */
  close(withinMs?: number): Promise<void>
}

export interface EngineOptions {
  readonly environment: Environment
  readonly durability: 'full' | 'normal'
  readonly busyTimeoutMs: number
  /** Whoever opens it heals at once; a clock that nobody vouches for is waited for. */
  readonly recoverOnOpen: boolean
  /** How long a command waits for a store that is away. */
  readonly patienceMs: number
  /** Heal before a batch that claims. */
  readonly recoverOnClaim: boolean
  /** Kept in the store from now on; undefined: as the store has it. */
  readonly manualGraceMs?: number | undefined
  /** Somebody beside the engine calls `checkpoint`; else it does so itself, between transactions. */
  readonly hasCaretaker: boolean
  /** The file that the store was for another thread of this process; another one is refused. */
  readonly file?: string | undefined
  readonly onRecovered: (report: RecoveryReport, trigger: 'claim', ms: number) => void
  /** `queue`: the one that was to be claimed from. */
  readonly onRecoveryFailed: (error: unknown, trigger: 'claim' | 'completion', queue: string | null) => void
  readonly log: (level: 'info' | 'warn' | 'error', name: LogName, facts: LogFacts) => void
  /** `status` is another from now on. */
  readonly onStatus?: () => void
}

export interface StoreWarning {
  /** The check of `doctor` under which it is shown. */
  readonly check: string
  readonly what: string
  readonly remedy: string
  /** Somebody may have wanted it so: `doctor` tells it, and no log at every start. */
  readonly isLasting?: true
}

export interface StoreStatus {
  readonly engine: 'sqlite' | 'postgres'
  readonly location: string
  readonly durability: 'full' | 'normal'
  readonly schemaVersion: number
  readonly engineVersion: string
  /** This process may read the store and not write it. */
  readonly isReadOnly?: true
  /** What is not as it should be, though the store can be used; logged at open and shown by `doctor`. */
  readonly warnings?: readonly StoreWarning[]
  /** What a PostgreSQL server said of itself. */
  readonly server?: {
    readonly timeline: number
    readonly fsync: boolean
    readonly synchronousCommit: string
    /** The standbys that commits wait for, as the server has them now; empty: none. */
    readonly synchronousStandbys: string
    /** The last list that was set, where none is set now: acknowledged changes rest on one server. */
    readonly formerStandbys: string | null
  }
}

export interface Engine extends Executor {
  readonly status: StoreStatus
}
