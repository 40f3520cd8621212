/**
 * Advisory locks held by someone else. PostgreSQL lets every role that can connect take any of ours. We can tell which
 * locks are ours only while someone waits for them, so others are listed too, for callers that were just refused as
 * BUSY.
 */
import { counted } from './count.ts'

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
export function isForeign({ usesStore, waitedMs }: LockBlocker): boolean {
  return !usesStore || waitedMs > ownMs
}

export function describeBlocker({ pid, role, program, waiting }: LockBlocker): string {
  const holder = `server process ${pid}${program && ` (${program})`} of ${role}`
  return waiting > 0
    ? `${holder} holds an advisory lock of this store; ${counted(waiting, 'session')} waiting for it`
    : `${holder}, which does not use this store, holds advisory locks in its database; nobody waits for them now`
}

export function remedyFor({ pid, waiting }: LockBlocker): string {
  const end = `end it: select pg_terminate_backend(${pid})`
  return `${waiting > 0 ? end : `if commands fail as BUSY, ${end}`}; to keep other programs out, give the store its own database and revoke connect on it from public`
}
