/**
 * What is wrong with a store and its fleet: findings, each with its remedy. The caller supplies the facts; this judges
 * them.
 */
import type { Alert } from './alert.ts'
import type { CommitLoss } from './commit-loss.ts'
import { counted } from './count.ts'
import { formatDuration } from './duration.ts'
import { describeBlocker, isForeign, type LockBlocker, remedyFor } from './foreign-lock.ts'
import type { Judged } from './holding.ts'
import { describeTransaction, endingOf, type OpenTransaction } from './open-transaction.ts'

export type FindingLevel = 'ok' | 'notice' | 'warning' | 'error'

export interface Finding {
  readonly check: string
  readonly level: FindingLevel
  readonly what: string
  /** What to do; null if nothing needs doing. */
  readonly remedy: string | null
  /** Whether `--fix` applies the remedy. */
  readonly isFixable: boolean
}

/** What the inspecting process knows about the store apart from its rows. */
export interface StoreFacts {
  readonly engine: 'sqlite' | 'postgres'
  readonly location: string
  readonly durability: 'full' | 'normal'
  readonly schemaVersion: number
  readonly engineVersion: string
  /** What a PostgreSQL server reports about itself. */
  readonly server: {
    readonly fsync: boolean
    readonly synchronousCommit: string
    readonly synchronousStandbys: string
    /** The last standby list that was set, if none is set now. */
    readonly formerStandbys: string | null
  } | null
  readonly version: string
  readonly node: string
  /** Wall time of the inspecting process. */
  readonly wallAt: number
  /** Sizes in bytes; null if unavailable. */
  readonly storeBytes: number | null
  readonly logBytes: number | null
  readonly freeBytes: number | null
  /** Problems with the store itself. */
  readonly warnings: readonly { readonly check: string; readonly what: string; readonly remedy: string }[]
  /** The last healing failure this process saw. */
  readonly recoveryError: string | null
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
  readonly neglected: readonly {
    readonly namespace: string
    readonly isHealingDue: boolean
    readonly isSendingDue: boolean
  }[]
  /** The first ready tasks that belong on a machine where no process is running, and whether there are more. */
  readonly stranded: {
    readonly tasks: readonly { readonly title: string; readonly host: string }[]
    readonly more: boolean
  }
  /** Transactions open for longer than `longTransactionMs`. */
  readonly transactions: readonly OpenTransaction[]
  /** Open items waiting for an item that failed or no longer exists; at most `maxVainWaits`. */
  readonly vainWaits: readonly {
    readonly item: string
    readonly queue: string
    readonly blocker: string
    readonly state: string | null
  }[]
  /** Sessions holding advisory locks that the store's sessions wait for. */
  readonly lockBlockers: readonly LockBlocker[]
  /** The most recent reports of acknowledged commits that the server no longer has, newest last. */
  readonly commitLosses: readonly CommitLoss[]
  /** The store's wall time. */
  readonly wall: number
  readonly alerts: readonly Alert[]
}

const mebibyte = 1024 * 1024
const freeBytesLow = 100 * mebibyte
const freeBytesMin = 10 * mebibyte
/** From 32 MiB on, a commit checkpoints the log itself; four times that means a reader is not letting go. */
const maxLogBytes = 128 * mebibyte
/** Our own transactions end within seconds. One that is open this long holds back the event feed, or was forgotten. */
export const longTransactionMs = 30_000
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

function finding(
  check: string,
  level: FindingLevel,
  what: string,
  remedy: string | null,
  isFixable = false,
): Finding {
  return { check, level, what, remedy, isFixable }
}

function ok(check: string, what: string): Finding {
  return finding(check, 'ok', what, null)
}

function checkStore({ engine, engineVersion, location, durability, server }: StoreFacts): Finding {
  const what = `${engine} ${engineVersion} at ${location}`
  if (server?.fsync === false) {
    return finding(
      'store',
      'error',
      `${what}; fsync is off: if its machine fails, the last changes or the whole store may be lost`,
      'set fsync = on in the server configuration, and restart it',
    )
  }
  if (durability === 'full' && server !== null && server.formerStandbys !== null) {
    return finding(
      'store',
      'warning',
      `${what}; acknowledged changes rest on this server alone, though commits used to wait for standbys (${server.formerStandbys})`,
      'bring the standbys back and set synchronous_standby_names; if one server is enough, remove the row "standbys" from the table meta',
    )
  }
  if (durability === 'full')
    return ok('store', `${what}; every acknowledged change is on disk${standbysText(server)}`)
  return finding(
    'store',
    'notice',
    `${what}; a power failure may lose the last changes`,
    'open it with durability full where that matters',
  )
}

/** Says whether a failover could lose acknowledged changes. */
function standbysText(server: StoreFacts['server']): string {
  if (server === null) return ''
  return server.synchronousStandbys === ''
    ? '; it waits for no standby, so a failover may lose the last ones'
    : ` and on standbys (${server.synchronousStandbys}, synchronous_commit ${server.synchronousCommit})`
}

function checkServerClock({ wallAheadMs }: DoctorFacts): Finding {
  if (Math.abs(wallAheadMs) <= clockSlackMs) return ok('clock', 'leases go by the server clock')
  return finding(
    'clock',
    'notice',
    `the clock of this machine is ${formatDuration(Math.abs(wallAheadMs))} ${wallAheadMs > 0 ? 'ahead of' : 'behind'} that of the server; leases are not affected`,
    'check both clocks: delayed items become ready by the server clock',
  )
}

/** The lease clock stops while the host sleeps, so it may be behind. If it is ahead, somebody set the date back. */
function checkOwnClock({ leaseClockAheadMs: aheadMs }: DoctorFacts): Finding {
  if (aheadMs > clockSlackMs) {
    return finding(
      'clock',
      'notice',
      `the date was set back by ${formatDuration(aheadMs)} since the machine started; leases are not affected`,
      'check the clock of this machine: delays and retention go by the date',
    )
  }
  const behind = aheadMs < -clockSlackMs ? `; the machine slept for ${formatDuration(-aheadMs)}` : ''
  return ok('clock', `leases are counted in awake time${behind}`)
}

function checkDisk({ storeBytes, logBytes, freeBytes }: StoreFacts): Finding[] {
  if (storeBytes === null || logBytes === null || freeBytes === null) return []
  const sizes = `${formatBytes(storeBytes)}, log ${formatBytes(logBytes)}, ${formatBytes(freeBytes)} free`
  const log =
    logBytes > maxLogBytes
      ? [
          finding(
            'log',
            'warning',
            `the log of the store has grown to ${formatBytes(logBytes)}`,
            'look for a stopped process that has the store open: it keeps the log from being reset',
          ),
        ]
      : []
  if (freeBytes >= freeBytesLow) return [ok('disk', sizes), ...log]
  const level = freeBytes < freeBytesMin ? 'error' : 'warning'
  return [
    finding('disk', level, `only ${sizes}`, 'free some space: on a full disk, every change fails'),
    ...log,
  ]
}

function checkTransactions(long: readonly OpenTransaction[]): Finding[] {
  if (long.length === 0) return [ok('transactions', 'none has been open for long')]
  return long.map((each) => finding('transactions', 'warning', describeTransaction(each), endingOf(each)))
}

function checkAdvisoryLocks(blockers: readonly LockBlocker[]): Finding[] {
  return blockers.filter(isForeign).map((each) => {
    const level = each.waiting > 0 ? 'error' : 'notice'
    return finding('locks', level, describeBlocker(each), remedyFor(each))
  })
}

function checkCommits({ commitLosses, wall }: DoctorFacts): Finding[] {
  const recent = commitLosses.filter(({ at }) => at > wall - lossShownMs)
  const last = recent.at(-1)
  if (last === undefined) return []
  const reports = `${counted(recent.length, 'report')} in the last ${formatDuration(lossShownMs)}, the last ${formatDuration(Math.max(0, wall - last.at))} ago by ${last.agent}`
  if (recent.every(({ isExpected }) => isExpected)) {
    return [
      finding(
        'commits',
        'notice',
        `the server lost changes that it had not yet written to its disk: ${reports}`,
        'open the store with durability full where that matters',
      ),
    ]
  }
  return [
    finding(
      'commits',
      'warning',
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
    finding(
      'waiting',
      'warning',
      `${waits.length < maxVainWaits ? '' : 'at least '}${counted(count, 'item')} ${count === 1 ? 'waits' : 'wait'} for something that failed or is gone: ${some.join(', ')}`,
      'retry or resubmit what they wait for, or cancel them',
    ),
  ]
}

function formatBytes(bytes: number): string {
  if (bytes < mebibyte) return `${Math.ceil(bytes / 1024)} KiB`
  return bytes < 1024 * mebibyte
    ? `${Math.round(bytes / mebibyte)} MiB`
    : `${Math.round(bytes / (1024 * mebibyte))} GiB`
}

function checkLeases({ lapsed, orphaned }: DoctorFacts): Finding {
  if (lapsed + orphaned === 0) return ok('leases', 'nothing has lapsed, and no dead process holds anything')
  return finding(
    'leases',
    'warning',
    `${counted(lapsed, 'lease')} lapsed, ${counted(orphaned, 'lease')} of dead processes`,
    'recovery reclaims them',
    true,
  )
}

function checkNamespaces(neglected: DoctorFacts['neglected']): Finding[] {
  const healing = neglected.filter(({ isHealingDue }) => isHealingDue)
  const sending = neglected.filter(({ isSendingDue }) => isSendingDue)
  const findings = [
    ...(healing.length === 0
      ? []
      : [
          finding(
            'namespaces',
            'warning',
            `leases have lapsed or delays have ended in ${namedNamespaces(healing)}, and nothing has recovered them yet`,
            'run holdfast recover --all-namespaces; an open process that runs recovery does this within seconds',
          ),
        ]),
    ...(sending.length === 0
      ? []
      : [
          finding(
            'namespaces',
            'warning',
            `messages are due in ${namedNamespaces(sending)}, and no process is open there to send them`,
            'keep a process open there, or run holdfast msg retry --namespace … from time to time',
          ),
        ]),
  ]
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
      finding(
        'stopped',
        'warning',
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
    finding(
      'hosts',
      'notice',
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

/** Whether a finding means that the store cannot be relied on. */
export function isUnhealthy(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'error')
}
