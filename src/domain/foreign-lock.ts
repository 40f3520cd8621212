/**
 * Advisory locks that somebody else holds. PostgreSQL lets every role that may connect take every one of ours. Which are
 * ours is seen only while somebody waits for them, so others are named too, for who was just refused as BUSY.
 */
import { counted } from './count.ts'

export interface LockBlocker {
  /** The server process that holds it. */
  readonly pid: number
  readonly role: string
  /** How the program calls itself. */
  readonly program: string
  /** Whether that role may write to the store. */
  readonly usesStore: boolean
  /** Sessions of the store that wait for what it holds, and for how long the first of them has. */
  readonly waiting: number
  readonly waitedMs: number
}

/** Ours let go within the 4 s after which the server ends a frozen client; behind a pooler they go by any name. */
const ownMs = 5_000

/** Somebody without any business in the store, or who keeps a lock for longer than Holdfast ever does. */
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
  return `${waiting > 0 ? end : `if commands fail as BUSY, ${end}`}; to keep strangers out, give the store a database of its own and revoke connect on it from public`
}
