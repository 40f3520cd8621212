/** Finds the primary: asks all hosts, and takes no standby and no server that is behind what this process has seen. */
import {
  type Admission,
  adoptAfterMs,
  type Branch,
  type BranchFacts,
  chooseServer,
} from '../../domain/branch.ts'
import { type Environment, pause, settlesWithin } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Address, ServerHost } from './address.ts'
import { isMissing, isUnsafeSchema } from './classify.ts'
import type { Connection, ConnectionOptions } from './connection.ts'
import { jittered } from './jitter.ts'
import { assertOwnSchema, unsafeSchema } from './ownership.ts'
import type { Row } from './plan.ts'
import { inSchema } from './schema-name.ts'
import { commitSetting } from './settings.ts'
import { openOrTake } from './spare-connection.ts'
import { readBranch, selectBranch, selectHere } from './timeline.ts'

/** What a server said about itself when it was found. */
export interface ServerFacts extends BranchFacts {
  readonly version: string
  readonly fsync: boolean
  readonly fullPageWrites: boolean
  readonly synchronousCommit: string
  readonly synchronousStandbys: string
}

const versionMin = 140_000
/** Longer than a round trip to another region. */
const othersMs = 1_000
/** Quick at first, because a restart takes a second; never all clients at once. */
const retryMs = { first: 20, max: 1_000 }
/**
 * A host that does not answer is soon asked again. But a server that all clients return to at once needs longer for
 * each.
 */
const quickConnectMs = 2_000
const quickAttempts = 5

const askFacts = `select pg_is_in_recovery(), current_setting('server_version'), current_setting('server_version_num')::int,
current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
h.system, h.server, h.timeline, pg_backend_pid()
from (${selectHere}) h`

export interface Met {
  readonly connection: Connection
  readonly facts: ServerFacts
}

export interface Wanted extends ConnectionOptions {
  readonly environment: Environment
  /** The branch this process has used, and whether it may go on with a primary; null: it has used none. */
  readonly branches: { readonly used: Branch; judge(met: BranchFacts): Admission } | null
}

/**
 * Finds the primary among the hosts, asking each once. After a failover the former primary may be back and still call
 * itself the primary, so all are asked and the highest timeline wins. A host that does not answer shortly after the
 * first is not waited for. If none serves, throws what was said.
 */
export function findPrimary(address: Address, wanted: Wanted): Promise<Met> {
  return bestOf(address, wanted, (host, { over }) => meet(address, host, { ...wanted, signal: over }))
}

/** A search that goes on until there is a primary. */
export interface Search {
  /** Ends the search. */
  readonly signal: AbortSignal
  onFailure(error: unknown): void
}

/**
 * The same, for as long as it takes. Each host is retried on its own, so that a silent one does not keep us from asking
 * the others. Throws when the search is ended, or when every host has answered and one of them cannot be used.
 */
export function searchPrimary(address: Address, wanted: Wanted, search: Search): Promise<Met> {
  const { environment } = wanted
  const isHopeless = (failures: Asking['failures']) =>
    failures.size === address.hosts.length && [...failures.values()].some(isUnfit)
  return bestOf(address, wanted, async (host, { found, over, giveUp, failures }) => {
    const signal = AbortSignal.any([over, search.signal])
    for (let attempt = 1; ; attempt++) {
      const isLast = found.aborted
      try {
        const connectTimeoutMs = attempt <= quickAttempts ? quickConnectMs : undefined
        const meeting = meet(address, host, { ...wanted, connectTimeoutMs, signal })
        return await (environment.outside?.(meeting) ?? meeting)
      } catch (error) {
        failures.set(host, error)
        if (isHopeless(failures)) giveUp()
        if (isLast || signal.aborted) throw error
        search.onFailure(error)
        await pause(environment, jittered(retryMs, attempt, environment), AbortSignal.any([found, signal]))
        if (signal.aborted) throw error
      }
    }
  })
}

interface Asking {
  /** A primary was found. Hosts between two attempts are asked once more, because one may be on a higher timeline. */
  readonly found: AbortSignal
  /** No host is waited for any more. */
  readonly over: AbortSignal
  giveUp(): void
  /** The last error of each host that could not be used. */
  readonly failures: Map<ServerHost, unknown>
}

async function bestOf(
  { hosts }: Address,
  { environment }: Wanted,
  ask: (host: ServerHost, asking: Asking) => Promise<Met>,
): Promise<Met> {
  const met: Met[] = []
  const found = new AbortController()
  const over = new AbortController()
  const failures = new Map<ServerHost, unknown>()
  const asking = { found: found.signal, over: over.signal, giveUp: () => over.abort(), failures }
  const meetings = hosts.map(async (host) => {
    const each = await ask(host, asking).catch((error: unknown) => {
      failures.set(host, error)
      throw error
    })
    if (over.signal.aborted) return leave(each)
    failures.delete(host)
    met.push(each)
    found.abort()
  })
  const all = Promise.allSettled(meetings)
  await Promise.any(meetings).catch(() => {})
  await settlesWithin(environment, othersMs, all)
  over.abort()
  const [first, ...others] = met
  if (first === undefined) {
    const reasons = (await all).flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    throw reasons.find(isUnfit) ?? reasons.reduce((best, each) => (isMoreTelling(each, best) ? each : best))
  }
  const refused = [...failures.values()].filter(isRefused).map(({ branch }) => branch)
  const best = chooseServer([first.facts, ...others.map(({ facts }) => facts)], refused)
  for (const each of met) if (each.facts !== best) leave(each)
  const chosen = met.find(({ facts }) => facts === best)
  if (chosen === undefined) throw new Undecided(first.facts)
  return chosen
}

function leave({ connection }: Pick<Met, 'connection'>): void {
  connection.destroy(new Error('not the server we look for'))
}

function isUnfit(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'STORE_UNFIT'
}

async function meet(address: Address, host: ServerHost, wanted: Wanted): Promise<Met> {
  const connection = await openOrTake(address, host, wanted)
  try {
    // A connection that was kept has passed this before.
    const assertOwn = connection.isOwn ? [] : assertOwnSchema(address)
    const [[said], [branch]] = await Promise.all([
      connection.ask(askFacts),
      connection.ask(...assertOwn, inSchema(selectBranch, address.schema)).catch(noneWithoutStore),
    ])
    const [isStandby, version, number, fsync, fullPageWrites, synchronousCommit, standbys, ...rest] =
      said as [boolean, string, string, boolean, boolean, string, string, ...Row]
    const [system, server, timeline, backend] = rest as [string, string, number, number]
    connection.own(Number(backend))
    const facts: ServerFacts = {
      version,
      fsync,
      fullPageWrites,
      synchronousCommit: commitSetting(synchronousCommit, wanted.durability),
      synchronousStandbys: standbys,
      ...(branch === undefined
        ? { system, server, timeline: Number(timeline), mark: null, marks: [] }
        : readBranch(branch)),
    }
    if (isStandby) throw notServing(host, 'it is a standby')
    if (facts.server !== server) throw notServing(host, 'another one answered in its place')
    const { branches } = wanted
    if (branches?.judge(facts) === 'refused') throw new RefusedBranch(host, facts, branches.used)
    assertFit(address, Number(number), facts)
    return { connection, facts }
  } catch (error) {
    leave({ connection })
    throw isUnsafeSchema(error) ? unsafeSchema(address.shown, error) : error
  }
}

function noneWithoutStore(error: unknown): Row[] {
  if (isMissing(error)) return []
  throw error
}

function notServing({ host, port }: ServerHost, why: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `the server at ${host}:${port} cannot be used: ${why}`,
    next: 'this process keeps looking for the primary',
    facts: { host, port },
  })
}

class RefusedBranch extends HoldfastError {
  readonly branch: BranchFacts

  constructor({ host, port }: ServerHost, branch: BranchFacts, used: Branch) {
    const { timeline } = branch
    const what =
      timeline === used.timeline
        ? `it is on timeline ${timeline}, but not on the branch that this process has used`
        : `it is on timeline ${timeline}, and lacks what this process has used on timeline ${used.timeline}`
    super('STORE_UNAVAILABLE', {
      what: `the server at ${host}:${port} cannot be used: ${what}`,
      next: `stop that server if its branch was abandoned; if it is the one to continue with, this process follows it when no other has answered for ${adoptAfterMs / 1000} s, or at once when it is restarted`,
      facts: { host, port, timeline, used: used.timeline },
    })
    this.branch = branch
  }
}

function isRefused(error: unknown): error is RefusedBranch {
  return error instanceof RefusedBranch
}

/** Whichever server we choose, others may have chosen the other, and what one side commits will be lost. */
export class Undecided extends HoldfastError {
  constructor({ timeline }: ServerFacts) {
    super('STORE_UNAVAILABLE', {
      what: `two servers are primaries on timeline ${timeline}, and both may be in use`,
      next: 'stop the one whose changes you want to discard; this process then continues',
      facts: { timeline },
    })
  }
}

/** Whether the first of two reasons for having no primary is of more use to an operator. */
export function isMoreTelling(reason: unknown, other: unknown): boolean {
  return tellingOf(reason) > tellingOf(other)
}

function tellingOf(reason: unknown): number {
  return [HoldfastError, RefusedBranch, Undecided].findLastIndex((kind) => reason instanceof kind)
}

function assertFit(address: Address, version: number, { fsync, version: shown }: ServerFacts): void {
  if (version < versionMin) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${address.shown} is PostgreSQL ${shown}; 14 or newer is required`,
      next: 'upgrade the server',
      facts: { version: shown },
    })
  }
  if (!fsync && !address.allowUnsafeServer) {
    throw new HoldfastError('STORE_UNFIT', {
      what: `${address.shown} runs with fsync = off: acknowledged changes are lost if its machine fails`,
      next: 'turn fsync on, or add allowUnsafeServer=true to the URL if that is intended',
      facts: { fsync },
    })
  }
}
