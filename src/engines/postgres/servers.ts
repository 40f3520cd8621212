/** Finding the server that decides: asks all hosts, takes no standby, and none that fell behind what was seen. */
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import type { Connection, ConnectionOptions } from './connection.ts'
import { commitSetting } from './settings.ts'
import { openOrTake } from './spare.ts'

/** What a server said of itself when it was met. */
export interface ServerFacts {
  readonly version: string
  readonly timeline: number
  readonly fsync: boolean
  readonly fullPageWrites: boolean
  readonly synchronousCommit: string
  readonly synchronousStandbys: string
}

const versionMin = 140_000
/** Longer than a round trip to another region. */
const othersMs = 1_000

const askFacts = `select pg_is_in_recovery(), current_setting('server_version'), current_setting('server_version_num')::int,
current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
case when pg_is_in_recovery() then 0 else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end, pg_backend_pid()`

export interface Met {
  readonly connection: Connection
  readonly facts: ServerFacts
}

export interface Wanted extends ConnectionOptions {
  readonly environment: Environment
  /** A server that is behind what was seen before lost a failover. */
  readonly timelineMin: number
}

/**
 * The primary among the hosts. After a failover the one before may be back, and says of itself that it is the primary:
 * all are asked, and the highest timeline serves. One that does not answer a moment after the first is not waited
 * for. Throws what was said when none serves.
 */
export async function findPrimary(address: Address, wanted: Wanted): Promise<Met> {
  const met: Met[] = []
  let isOver = false
  const meetings = address.hosts.map(async (host) => {
    const each = await meet(address, host, wanted)
    if (isOver) leave(each)
    else met.push(each)
  })
  const all = Promise.allSettled(meetings)
  await Promise.any(meetings).catch(() => {})
  await orSoon(all, wanted.environment)
  isOver = true
  const [best, ...others] = met.sort((left, right) => right.facts.timeline - left.facts.timeline)
  for (const other of others) leave(other)
  if (best) return best
  const failures = (await all).flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
  throw failures.find(isUnfit) ?? failures[0]
}

async function orSoon(all: Promise<unknown>, environment: Environment): Promise<void> {
  const over = new AbortController()
  await Promise.race([all, pause(environment, othersMs, over.signal)])
  over.abort()
}

function leave({ connection }: Pick<Met, 'connection'>): void {
  connection.destroy(new Error('not the server we look for'))
}

function isUnfit(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'STORE_UNFIT'
}

async function meet(address: Address, host: ServerHost, wanted: Wanted): Promise<Met> {
  const { timelineMin } = wanted
  const connection = await openOrTake(address, host, wanted)
  try {
    const [row] = await connection.ask(askFacts)
    const [
      isStandby,
      version,
      number,
      fsync,
      fullPageWrites,
      synchronousCommit,
      standbys,
      timeline,
      backend,
    ] = row as [boolean, string, string, boolean, boolean, string, string, string, number]
    connection.own(Number(backend))
    const facts: ServerFacts = {
      version,
      timeline: Number(timeline),
      fsync,
      fullPageWrites,
      synchronousCommit: commitSetting(synchronousCommit, wanted.durability),
      synchronousStandbys: standbys,
    }
    if (isStandby) throw notServing(host, 'it is a standby')
    if (facts.timeline < timelineMin)
      throw notServing(
        host,
        `it is on timeline ${facts.timeline}, behind ${timelineMin} that was seen before`,
      )
    assertFit(address, Number(number), facts)
    return { connection, facts }
  } catch (error) {
    leave({ connection })
    throw error
  }
}

function notServing({ host, port }: ServerHost, why: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the server at ${host}:${port} does not serve: ${why}`,
    next: 'this process goes on looking for the primary',
    facts: { host, port },
  })
}

function assertFit(address: Address, version: number, { fsync, version: shown }: ServerFacts): void {
  if (version < versionMin) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${address.shown} is PostgreSQL ${shown}; 14 is the oldest that serves`,
      next: 'upgrade the server',
      facts: { version: shown },
    })
  }
  if (!fsync && !address.allowUnsafeServer) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${address.shown} runs with fsync = off: what it acknowledges is lost when its machine fails`,
      next: 'turn fsync on, or add allowUnsafeServer=true to the URL if that is meant',
      facts: { fsync },
    })
  }
}
