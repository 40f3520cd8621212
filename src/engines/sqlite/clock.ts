/**
 * The lease clock of a SQLite store: the host's awake time plus an offset, written once for each boot id. All processes
 * of a kernel share it, even those in containers with their own boot ids. NTP, date changes and suspend do not move it,
 * so a laptop that slept takes no lease from anyone. It never goes back: a new boot starts where the clock was last
 * seen.
 */
import {
  isAwakeTimeBack,
  isOfEarlierBoot,
  isUnknownBoot,
  type KernelTimes,
  type SignsOfLife,
} from '../../domain/boot.ts'
import type { Environment } from '../../environment.ts'
import type { Connection } from './connection.ts'

/** The clock of one boot id. */
interface BootClock extends SignsOfLife {
  readonly offset: number
  /** Awake time when it was last in use. */
  readonly usedAt: number
}

/** As often as processes beat: each opener records that the clock is in use, but no more often than this. */
const noteEveryMs = 30_000

/** Must run inside a write transaction: two processes may both be the first to open the store after a boot. */
export function bootOffset(connection: Connection, environment: Environment): number {
  const { bootId } = environment.host.identity
  const awakeAt = Math.floor(environment.monotonic())
  const own = readOwn(connection, bootId)
  const offset = offsetFrom(own, connection, environment)
  if (own?.offset === offset && awakeAt - own.usedAt < noteEveryMs) return offset
  connection.run(
    `insert into lease_clock (boot_id, offset_ms, created_at, seen_at, awake_ms)
values (?1, ?2, ?3, ?3, ?4)
on conflict (boot_id) do update set offset_ms = ?2, seen_at = ?3, awake_ms = ?4`,
    bootId,
    BigInt(offset),
    BigInt(environment.now()),
    BigInt(awakeAt),
  )
  if (own === null) removeUnused(connection, bootId)
  return offset
}

/** The offset this process uses: the stored one, or the one it would write. */
export function knownOffset(connection: Connection, environment: Environment): number {
  return offsetFrom(readOwn(connection, environment.host.identity.bootId), connection, environment)
}

type OwnClock = Pick<BootClock, 'offset' | 'usedAt'>

function readOwn(connection: Connection, bootId: string): OwnClock | null {
  const row = connection.get('select offset_ms, awake_ms from lease_clock where boot_id = ?', bootId)
  return row ? { offset: Number(row[0]), usedAt: Number(row[1]) } : null
}

function offsetFrom(own: OwnClock | null, connection: Connection, environment: Environment): number {
  const awakeMs = Math.floor(environment.monotonic())
  // A boot id that reappears after a restart belongs to another boot: some ids are set by hand.
  const isOurs = own !== null && !isUnknownBoot(environment.host.identity.bootId)
  if (isOurs && own.usedAt <= awakeMs) return own.offset
  const newest = readClocks(connection).toSorted((left, right) => markOf(right) - markOf(left))[0]
  const kernel = { ...environment.host.kernel(), awakeMs }
  const offset = newest && mayRun(newest, kernel) ? newest.offset : environment.now() - awakeMs
  return Math.max(offset, highWaterMark(connection, newest) - awakeMs)
}

/** Whether processes using this clock may be running on this kernel; if so, we use their clock. */
function mayRun(clock: BootClock, kernel: KernelTimes): boolean {
  return !isAwakeTimeBack(clock.usedAt, kernel.awakeMs) && !isOfEarlierBoot(clock, kernel)
}

function markOf({ offset, usedAt }: BootClock): number {
  return offset + usedAt
}

/** The latest time the lease clock is known to have shown. Future times, such as the end of a lease, do not count. */
function highWaterMark(connection: Connection, newest: BootClock | undefined): number {
  const granted = connection.get(
    `select max(at)
from (
  select max(max(coalesce(granted_at, 0), coalesce(renewed_at, 0))) as at from item where phase = 'held'
  union all
  select max(max(coalesce(granted_at, 0), coalesce(renewed_at, 0))) from lock
  union all
  select max(max(coalesce(granted_at, 0), coalesce(renewed_at, 0))) from lock_waiter
  union all
  select max(max(coalesce(granted_at, 0), coalesce(renewed_at, 0))) from delivery where agent is not null
  union all
  select max(seen_at) from instance
)`,
  )?.[0]
  return Math.max(newest ? markOf(newest) : 0, Number(granted ?? 0))
}

/** Reads each clock with the last beats of its processes. Only those that have not ended may have beaten just now. */
function readClocks(connection: Connection): BootClock[] {
  return connection
    .all(
      `select
  clock.offset_ms,
  clock.created_at,
  max(clock.seen_at, coalesce(max(instance.beat_at), 0)),
  max(clock.awake_ms, coalesce(max(instance.seen_at) - clock.offset_ms, 0)),
  max(iif(instance.ended_at is null, instance.seen_at, null)) - clock.offset_ms
from lease_clock clock
left join instance on instance.boot_id = clock.boot_id
group by clock.boot_id`,
    )
    .map(([offset, startedAt, beatAt, usedAt, awakeAt]) => ({
      offset: Number(offset),
      startedAt: Number(startedAt),
      beatAt: Number(beatAt),
      usedAt: Number(usedAt),
      awakeAt: awakeAt === null ? null : Number(awakeAt),
    }))
}

/** Containers come and go. The clocks of those that left no process behind are the same as ours. */
function removeUnused(connection: Connection, bootId: string): void {
  connection.run(
    `delete from lease_clock
where boot_id <> ? and not exists (
  select 1 from instance where instance.boot_id = lease_clock.boot_id and instance.ended_at is null
)`,
    bootId,
  )
}
