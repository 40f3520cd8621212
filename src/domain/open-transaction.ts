/** A transaction that some program has open on the server. */
import { formatDuration } from './duration.ts'

export interface OpenTransaction {
  /** The server process that runs it; null when it was prepared and waits for its second phase. */
  readonly pid: number | null
  readonly role: string
  /** How the program calls itself; of a prepared one, its name. */
  readonly program: string
  readonly state: string
  readonly openForMs: number
  /** Whether it has written: events that are younger are not told before it ends. */
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
    ? 'younger events are not told before it ends'
    : 'rows that were replaced since cannot be cleaned up'
  return `${who} of ${role} has been open for ${formatDuration(openForMs)}${pid === null ? '' : `, ${state}`}: ${what}`
}

/** What ends it. */
export function endingOf({ pid, program }: OpenTransaction): string {
  return pid === null
    ? `commit or roll back what was prepared: rollback prepared '${program.replaceAll("'", "''")}'`
    : `let that program commit, or end it: select pg_terminate_backend(${pid})`
}
