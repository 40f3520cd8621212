/** What is wrong with the store itself: durability, disk, and transactions or locks that others leave open. */
import { type Finding, finding, ok } from './finding.ts'
import { describeBlocker, isForeign, type LockBlocker, remedyFor } from './foreign-lock.ts'
import { describeTransaction, endingOf, type OpenTransaction } from './open-transaction.ts'

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

export function checkDisk({ storeBytes, logBytes, freeBytes }: StoreFacts): Finding[] {
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

export function checkTransactions(long: readonly OpenTransaction[]): Finding[] {
  if (long.length === 0) return [ok('transactions', 'none has been open for long')]
  return long.map((each) => finding('transactions', 'warning', describeTransaction(each), endingOf(each)))
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
