/** Finding the server that decides: asks all hosts, takes no standby, and none that fell behind what was seen. */
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import type { Connection, ConnectionOptions } from './connection.ts'

import { jittered } from './jitter.ts'

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
/** Quick at first, for a restart takes a second; never all clients at once. */
const retryMs = { first: 20, max: 1_000 }
/** What does not answer is asked anew soon; but a server that all clients come back to at once needs longer for each. */
const quickConnectMs = 2_000
const quickAttempts = 5

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
 * The primary among the hosts, each asked once. After a failover the one before may be back, and says of itself that it
 * is the primary: all are asked, and the highest timeline serves. One that does not answer a moment after the first is
 * not waited for. Throws what was said when none serves.
 */
export function findPrimary(address: Address, wanted: Wanted): Promise<Met> {
  return bestOf(address, wanted, (host, { over }) => meet(address, host, { ...wanted, signal: over }))
}

/** How a search goes on, until there is a primary. */
export interface Search {
  /** Ends it. */
  readonly signal: AbortSignal
  onFailure(error: unknown): void
}

/**
 * The same, for as long as it takes. Each host is asked again and again on its own: one that is silent must not keep us
 * from asking the others. Throws when the search is ended, or when every host has answered and one of them cannot be used.
 */
export function searchPrimary(address: Address, wanted: Wanted, search: Search): Promise<Met> {
  const { environment } = wanted
  const failures = new Map<ServerHost, unknown>()
  const isHopeless = () => failures.size === address.hosts.length && [...failures.values()].some(isUnfit)
  return bestOf(address, wanted, async (host, { found, over, giveUp }) => {
    const signal = AbortSignal.any([over, search.signal])
    for (let attempt = 1; ; attempt++) {
      const isLast = found.aborted
      try {
        const connectTimeoutMs = attempt <= quickAttempts ? quickConnectMs : undefined
        const meeting = meet(address, host, { ...wanted, connectTimeoutMs, signal })
        return await (environment.outside?.(meeting) ?? meeting)
      } catch (error) {
        failures.set(host, error)
        if (isHopeless()) giveUp()
        if (isLast || signal.aborted) throw error
        search.onFailure(error)
        await pause(environment, jittered(retryMs, attempt, environment), AbortSignal.any([found, signal]))
        if (signal.aborted) throw error
      }
    }
  })
}

interface Asking {
  /** A primary was found: whoever rests asks once more, for there may be a higher timeline. */
  readonly found: AbortSignal
  /** Nobody is waited for any more. */
  readonly over: AbortSignal
  giveUp(): void
}

async function bestOf(
  { hosts }: Address,
  { environment }: Wanted,
  ask: (host: ServerHost, asking: Asking) => Promise<Met>,
): Promise<Met> {
  const met: Met[] = []
  const found = new AbortController()
  const over = new AbortController()
  const asking = { found: found.signal, over: over.signal, giveUp: () => over.abort() }
  const meetings = hosts.map(async (host) => {
    const each = await ask(host, asking)
    if (over.signal.aborted) return leave(each)
    met.push(each)
    found.abort()
  })
  const all = Promise.allSettled(meetings)
  await Promise.any(meetings).catch(() => {})
  await orSoon(all, environment)
  over.abort()
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
