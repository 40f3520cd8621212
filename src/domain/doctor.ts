/**
 * What is wrong with a store and its fleet: findings, each with its remedy. The caller supplies the facts; this judges
 * them.
 */
import type { Alert } from './alert.ts'
import type { CommitLoss } from './commit-loss.ts'
import { counted } from './count.ts'
import { formatDuration } from './duration.ts'
import type { Judged } from './holding.ts'
import {
  checkAdvisoryLocks,
  checkDisk,
  checkStore,
  checkTransactions,
  type Finding,
  finding,
  type LockBlocker,
  notice,
  type OpenTransaction,
  ok,
  type StoreFacts,
  warning,
} from './store-check.ts'

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

export interface DoctorFacts {
  readonly store: StoreFacts
  /** How far the lease clock is ahead of the store's wall clock. */
  readonly leaseClockAheadMs: number
  /** How far the inspecting process's wall clock is ahead of the store's. */
  readonly wallAheadMs: number
  readonly processes: readonly (Judged & { readonly agent: string; readonly pid: number })[]
  /** How many leases a recovery would free now. */
  readonly lapsed: number
  readonly orphaned: number
  /** Other namespaces in which something is overdue. */
  readonly neglected: readonly NeglectedNamespace[]
  /** The first ready tasks that belong on a machine where no process is running, and whether there are more. */
  readonly stranded: {
    readonly tasks: readonly { readonly title: string; readonly host: string }[]
    readonly more: boolean
  }
  /** Transactions open for longer than `longTransactionMs`. */
  readonly transactions: readonly OpenTransaction[]
  /** Open items waiting for an item that failed or no longer exists; at most `maxVainWaits`. */
  readonly vainWaits: readonly VainWait[]
  /** Sessions holding advisory locks that the store's sessions wait for. */
  readonly lockBlockers: readonly LockBlocker[]
  /** The most recent reports of acknowledged commits that the server no longer has, newest last. */
  readonly commitLosses: readonly CommitLoss[]
  /** The store's wall time. */
  readonly wall: number
  readonly alerts: readonly Alert[]
}

/** Someone who comes back after a weekend should still hear about it. */
const lossShownMs = 7 * 24 * 3_600_000
/** The clocks are read one after the other, and people round times. */
const clockSlackMs = 60_000

/** Alerts that duplicate a check in this file. */
const saidByChecks = new Set(['stale_leases', 'recovery_late', 'dead_holders'])

export function examine(facts: DoctorFacts): Finding[] {
  return [
    checkStore(facts.store),
    ok('version', `Holdfast ${facts.store.version} on Node ${facts.store.node}`),
    ok('schema', `schema ${facts.store.schemaVersion}, up to date`),
    facts.store.engine === 'sqlite' ? checkOwnClock(facts) : checkServerClock(facts),
    ...facts.store.warnings.map(({ check, what, remedy }) => finding(check, 'warning', what, remedy)),
    ...checkDisk(facts.store),
    ...(facts.store.engine === 'postgres' ? checkTransactions(facts.transactions) : []),
    ...checkAdvisoryLocks(facts.lockBlockers),
    ...checkCommits(facts),
    ...checkWaits(facts.vainWaits),
    checkLeases(facts),
    ...checkNamespaces(facts.neglected),
    ...checkProcesses(facts.processes),
    ...checkHosts(facts.stranded),
    checkRecovery(facts.store),
    ...facts.alerts
      .filter(({ code }) => !saidByChecks.has(code))
      .map(({ code, level, what, next }) => finding(code, level, what, next)),
  ]
}

function checkServerClock({ wallAheadMs }: DoctorFacts): Finding {
  if (Math.abs(wallAheadMs) <= clockSlackMs) return ok('clock', 'leases go by the server clock')
  return notice(
    'clock',
    `the clock of this machine is ${formatDuration(Math.abs(wallAheadMs))} ${wallAheadMs > 0 ? 'ahead of' : 'behind'} that of the server; leases are not affected`,
    'check both clocks: delayed items become ready by the server clock',
  )
}

/** The lease clock stops while the host sleeps, so it may be behind. If it is ahead, somebody set the date back. */
function checkOwnClock({ leaseClockAheadMs: aheadMs }: DoctorFacts): Finding {
  if (aheadMs > clockSlackMs) {
    return notice(
      'clock',
      `the date was set back by ${formatDuration(aheadMs)} since the machine started; leases are not affected`,
      'check the clock of this machine: delays and retention go by the date',
    )
  }
  const behind = aheadMs < -clockSlackMs ? `; the machine slept for ${formatDuration(-aheadMs)}` : ''
  return ok('clock', `leases are counted in awake time${behind}`)
}

function checkCommits({ commitLosses, wall }: DoctorFacts): Finding[] {
  const recent = commitLosses.filter(({ at }) => at > wall - lossShownMs)
  const last = recent.at(-1)
  if (last === undefined) return []
  const reports = `${counted(recent.length, 'report')} in the last ${formatDuration(lossShownMs)}, the last ${formatDuration(Math.max(0, wall - last.at))} ago by ${last.agent}`
  if (recent.every(({ isExpected }) => isExpected)) {
    return [
      notice(
        'commits',
        `the server lost changes that it had not yet written to its disk: ${reports}`,
        'open the store with durability full where that matters',
      ),
    ]
  }
  return [
    warning(
      'commits',
      `the server lost changes that it had acknowledged: ${reports}`,
      'check what was done shortly before (`holdfast events list --subject store` says when), and redo what is missing; with synchronous_standby_names set, a failover loses nothing that was acknowledged',
    ),
  ]
}

/** Waits beyond this are not counted. */
export const maxVainWaits = 1000
const waitsShown = 3

/** A failed parent or blocker may still be retried, so items that wait for it keep waiting, perhaps forever. */
function checkWaits(waits: DoctorFacts['vainWaits']): Finding[] {
  if (waits.length === 0) return []
  const count = new Set(waits.map(({ item, queue }) => JSON.stringify([queue, item]))).size
  const some = waits
    .slice(0, waitsShown)
    .map(({ item, queue, blocker, state }) => `${item} of queue ${queue} for ${blocker} (${state ?? 'gone'})`)
  return [
    warning(
      'waiting',
      `${waits.length < maxVainWaits ? '' : 'at least '}${counted(count, 'item')} ${count === 1 ? 'waits' : 'wait'} for something that failed or is gone: ${some.join(', ')}`,
      'retry or resubmit what they wait for, or cancel them',
    ),
  ]
}

function checkLeases({ lapsed, orphaned }: DoctorFacts): Finding {
  if (lapsed + orphaned === 0) return ok('leases', 'nothing has lapsed, and no dead process holds anything')
  return warning(
    'leases',
    `${counted(lapsed, 'lease')} lapsed, ${counted(orphaned, 'lease')} of dead processes`,
    'recovery reclaims them',
    true,
  )
}

function checkNamespaces(neglected: DoctorFacts['neglected']): Finding[] {
  const healing = neglected.filter(({ isHealingDue }) => isHealingDue)
  const sending = neglected.filter(({ isSendingDue }) => isSendingDue)
  const findings: Finding[] = []
  if (healing.length > 0) {
    const what = `leases have lapsed or delays have ended in ${namedNamespaces(healing)}, and nothing has recovered them yet`
    const remedy =
      'run holdfast recover --all-namespaces; an open process that runs recovery does this within seconds'
    findings.push(warning('namespaces', what, remedy))
  }
  if (sending.length > 0) {
    const what = `messages are due in ${namedNamespaces(sending)}, and no process is open there to send them`
    const remedy = 'keep a process open there, or run holdfast msg retry --namespace … from time to time'
    findings.push(warning('namespaces', what, remedy))
  }
  return findings.length > 0 ? findings : [ok('namespaces', 'nothing is overdue in the others')]
}

const namespacesShown = 5

function namedNamespaces(found: readonly { readonly namespace: string }[]): string {
  const shown = found.slice(0, namespacesShown).map(({ namespace }) => `"${namespace}"`)
  const more = found.length - shown.length
  const names = more > 0 ? [...shown, `${more} more`] : shown
  return `${found.length === 1 ? 'namespace' : 'namespaces'} ${names.join(', ')}`
}

function checkProcesses(processes: DoctorFacts['processes']): Finding[] {
  const stopped = processes.filter(({ isStopped }) => isStopped)
  const count = (liveness: Judged['liveness']) =>
    processes.filter((each) => each.liveness === liveness).length
  const dead = count('dead')
  return [
    ok('processes', `${count('alive')} alive, ${count('unknown')} out of sight, ${dead} dead`),
    ...stopped.map(({ agent, pid }) =>
      warning(
        'stopped',
        `process ${pid} of ${agent} is stopped`,
        'resume or end it: a process that is stopped in the middle of a write blocks all other writers',
      ),
    ),
  ]
}

function checkHosts({ tasks, more }: DoctorFacts['stranded']): Finding[] {
  if (tasks.length === 0) return []
  const named = tasks.map(({ title, host }) => `${title} (on ${host})`)
  return [
    notice(
      'hosts',
      `ready tasks belong on machines where no process is running: ${named.join(', ')}${more ? ' and more' : ''}`,
      'run a process there, claim them by name or with anyHost, or change their host',
    ),
  ]
}

function checkRecovery({ recoveryError }: StoreFacts): Finding {
  if (recoveryError === null) return ok('recovery', 'no failure seen')
  return finding(
    'recovery',
    'error',
    `recovery failed: ${recoveryError}`,
    'fix the cause; work continues meanwhile',
  )
}
