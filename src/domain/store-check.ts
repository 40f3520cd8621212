/** What is wrong with the store itself: durability, disk, and transactions or locks that others leave open. */

import { counted } from './count.ts'
import { formatDuration } from './duration.ts'

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

const mebibyte = 1024 * 1024
const freeBytesLow = 100 * mebibyte
const freeBytesMin = 10 * mebibyte
/** From 32 MiB on, a commit checkpoints the log itself; four times that means a reader is not letting go. */
const maxLogBytes = 128 * mebibyte
/** Our own transactions end within seconds. One that is open this long holds back the event feed, or was forgotten. */
export const longTransactionMs = 30_000
export function checkStore({ engine, engineVersion, location, durability, server }: StoreFacts): Finding {
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
    return warning(
      'store',
      `${what}; acknowledged changes rest on this server alone, though commits used to wait for standbys (${server.formerStandbys})`,
      'bring the standbys back and set synchronous_standby_names; if one server is enough, remove the row "standbys" from the table meta',
    )
  }
  if (durability === 'full')
    return ok('store', `${what}; every acknowledged change is on disk${standbysText(server)}`)
  return notice(
    'store',
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

export function checkDisk({ storeBytes, logBytes, freeBytes }: StoreFacts): Finding[] {
  if (storeBytes === null || logBytes === null || freeBytes === null) return []
  const sizes = `${formatBytes(storeBytes)}, log ${formatBytes(logBytes)}`
  const free = `${formatBytes(freeBytes)} free`
  const log =
    logBytes > maxLogBytes
      ? [
          warning(
            'log',
            `the log of the store has grown to ${formatBytes(logBytes)}`,
            'look for a stopped process that has the store open: it keeps the log from being reset',
          ),
        ]
      : []
  if (freeBytes >= freeBytesLow) return [ok('disk', `${sizes}, ${free}`), ...log]
  const level = freeBytes < freeBytesMin ? 'error' : 'warning'
  const remedy = 'free some space: on a full disk, every change fails'
  return [finding('disk', level, `${sizes}, only ${free}`, remedy), ...log]
}

export function checkTransactions(long: readonly OpenTransaction[]): Finding[] {
  if (long.length === 0) return [ok('transactions', 'none has been open for long')]
  return long.map((each) => warning('transactions', describeTransaction(each), endingOf(each)))
}

export function checkAdvisoryLocks(blockers: readonly LockBlocker[]): Finding[] {
  return blockers.filter(isForeign).map((each) => {
    const level = each.waiting > 0 ? 'error' : 'notice'
    return finding('locks', level, describeBlocker(each), remedyFor(each))
  })
}

function formatBytes(bytes: number): string {
  if (bytes < mebibyte) return `${Math.ceil(bytes / 1024)} KiB`
  return bytes < 1024 * mebibyte
    ? `${Math.round(bytes / mebibyte)} MiB`
    : `${Math.round(bytes / (1024 * mebibyte))} GiB`
}

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

export function finding(
  check: string,
  level: FindingLevel,
  what: string,
  remedy: string | null,
  isFixable = false,
): Finding {
  return { check, level, what, remedy, isFixable }
}

export function notice(check: string, what: string, remedy: string): Finding {
  return finding(check, 'notice', what, remedy)
}

export function warning(check: string, what: string, remedy: string, isFixable = false): Finding {
  return finding(check, 'warning', what, remedy, isFixable)
}

export function ok(check: string, what: string): Finding {
  return finding(check, 'ok', what, null)
}

/** Whether a finding means that the store cannot be relied on. */
export function isUnhealthy(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'error')
}

/** A transaction that a program has open on the server. */
export interface OpenTransaction {
  /** The server process that runs it; null if it is prepared and waiting for its second phase. */
  readonly pid: number | null
  readonly role: string
  /** The program's own name for itself; for a prepared transaction, the transaction's name. */
  readonly program: string
  readonly state: string
  readonly openForMs: number
  /** Whether it has written anything: later events are not delivered until it ends. */
  readonly hasWritten: boolean
}

function describeTransaction({ pid, role, program, state, openForMs, hasWritten }: OpenTransaction): string {
  const who =
    pid === null
      ? `the prepared transaction "${program}"`
      : `the transaction of server process ${pid}${program && ` (${program})`}`
  const what = hasWritten
    ? 'newer events stay hidden until it ends'
    : 'rows replaced since then cannot be cleaned up'
  return `${who} of ${role} has been open for ${formatDuration(openForMs)}${pid === null ? '' : `, ${state}`}: ${what}`
}

function endingOf({ pid, program }: OpenTransaction): string {
  return pid === null
    ? `commit or roll back what was prepared: rollback prepared '${program.replaceAll("'", "''")}'`
    : `let that program commit, or end it: select pg_terminate_backend(${pid})`
}

/**
 * A holder of advisory locks. PostgreSQL lets every role that can connect take any of ours. We can tell which locks are
 * ours only while someone waits for them, so others are listed too, for callers that were just refused as BUSY.
 */
export interface LockBlocker {
  /** The server process that holds it. */
  readonly pid: number
  readonly role: string
  /** The program's own name for itself. */
  readonly program: string
  /** Whether that role may write to the store. */
  readonly usesStore: boolean
  /** Sessions of the store that wait for it, and how long the first of them has waited. */
  readonly waiting: number
  readonly waitedMs: number
}

/**
 * Our sessions let go within the 4 s after which the server ends a frozen client; behind a pooler they may have any
 * name.
 */
const ownMs = 5_000

/** A role with no access to the store, or a session that holds a lock longer than Holdfast ever does. */
function isForeign({ usesStore, waitedMs }: LockBlocker): boolean {
  return !usesStore || waitedMs > ownMs
}

function describeBlocker({ pid, role, program, waiting }: LockBlocker): string {
  const holder = `server process ${pid}${program && ` (${program})`} of ${role}`
  return waiting > 0
    ? `${holder} holds an advisory lock of this store; ${counted(waiting, 'session')} waiting for it`
    : `${holder}, which does not use this store, holds advisory locks in its database; nobody waits for them now`
}

function remedyFor({ pid, waiting }: LockBlocker): string {
  const end = `end it: select pg_terminate_backend(${pid})`
  return `${waiting > 0 ? end : `if commands fail as BUSY, ${end}`}; to keep other programs out, give the store its own database and revoke connect on it from public`
}
