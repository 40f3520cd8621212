/** What recovery records, and how a command asks what there is to heal. */
import type { NeglectedNamespace } from '../domain/doctor.ts'
import type { LockBlocker, OpenTransaction } from '../domain/store-check.ts'

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
export interface RecoveryTotal
  extends Pick<RecoveryRun, 'queue' | 'locksCleaned' | 'entriesReclaimed' | 'messagesReclaimed'> {
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

export interface RecoverySelectors {
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
}
