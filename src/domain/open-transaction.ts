/** A transaction that a program has open on the server. */
import { formatDuration } from './duration.ts'

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

export function describeTransaction({
  pid,
  role,
  program,
  state,
  openForMs,
  hasWritten,
}: OpenTransaction): string {
  const who =
    pid === null
      ? `the prepared transaction "${program}"`
      : `the transaction of server process ${pid}${program && ` (${program})`}`
  const what = hasWritten
    ? 'newer events stay hidden until it ends'
    : 'rows replaced since then cannot be cleaned up'
  return `${who} of ${role} has been open for ${formatDuration(openForMs)}${pid === null ? '' : `, ${state}`}: ${what}`
}

/** What ends it. */
export function endingOf({ pid, program }: OpenTransaction): string {
  return pid === null
    ? `commit or roll back what was prepared: rollback prepared '${program.replaceAll("'", "''")}'`
    : `let that program commit, or end it: select pg_terminate_backend(${pid})`
}
