/**
 * The lease clock of a SQLite store: the host's awake time plus an offset written once per boot. All processes of
 * a boot share it; NTP, date changes and suspend do not move it, so a laptop that slept robs nobody.
 */
import type { Environment } from '../../environment.ts'
import type { Connection } from './connection.ts'

/** Must run inside a write transaction: two processes may open the store for the first time after a boot. */
export function bootOffset(connection: Connection, environment: Environment): number {
  const { offset, isWritten } = knownOffset(connection, environment)
  if (isWritten) return offset
  connection.run(
    'insert into lease_clock (boot_id, offset_ms, created_at) values (?, ?, ?)',
    environment.host.identity.bootId,
    BigInt(offset),
    BigInt(environment.now()),
  )
  return offset
}

/** The offset of this boot, or the one that whoever writes first would write. */
export function knownOffset(
  connection: Connection,
  environment: Environment,
): { offset: number; isWritten: boolean } {
  const { bootId } = environment.host.identity
  const known = connection.get('select offset_ms from lease_clock where boot_id = ?', bootId)
  if (known) return { offset: Number(known[0]), isWritten: true }
  // Goes on from the newest event, so that a wall clock set back between two boots does not prolong manual leases.
  const lastEventAt = Number(connection.get('select at from event order by seq desc limit 1')?.[0] ?? 0)
  const offset = Math.max(environment.now(), lastEventAt) - Math.floor(environment.monotonic())
  return { offset, isWritten: false }
}
