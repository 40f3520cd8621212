/** `hf.fleet`: status overview, explanations, diagnosis, and the start page for agents. */

import * as z from 'zod'
import { onAbort } from '../abort.ts'
import { feed } from '../domain/bell.ts'
import { maxLeaseMs } from '../domain/lease.ts'
import { fitText, shown } from '../domain/text.ts'
import { pause } from '../environment.ts'
import { InvalidError, NotFoundError } from '../errors.ts'
import { storageOf } from '../host/file-system.ts'
import { packageVersion } from '../host/package-version.ts'
import type { DoctorReport } from '../operations/fleet/doctor.ts'
import type { FleetExplanation } from '../operations/fleet/explain.ts'
import { kinds } from '../operations/fleet/find.ts'
import type { FleetStatus } from '../operations/fleet/fleet.ts'
import type { PrimePage } from '../operations/fleet/prime.ts'
import { parseInput } from '../operations/operation.ts'
import type { RecoveryReport } from '../operations/recovery/report.ts'
import type { AskedOf, ResultOf } from '../operations/table.ts'
import type { StoreStatus } from '../port/engine.ts'
import { judgeHolders } from '../runtime/lease/stale-locks.ts'
import { knownOptionsOf, optionsOf } from '../runtime/session/input.ts'
import { signal } from '../runtime/session/option-fields.ts'
import type { Session } from '../runtime/session/session.ts'
import type { AgentOptions } from './call-options.ts'

/** Something a name may refer to. */
export type FleetThing = ResultOf<'fleet.find'>['found'][number]

/** How often the status is reported, and what ends the watch. */
export interface FleetWatchOptions {
  /** How often to report at most, ms; default 1000. A third as often while nothing changes. */
  readonly everyMs?: number | undefined
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined
}

/** The status of the fleet, and of the store it shares. */
export interface FleetReport extends FleetStatus {
  /** The store they share. */
  readonly store: StoreStatus
  /** The part of the store that this is about. */
  readonly namespace: string
}

/** Findings, and what was done about them. */
export interface DoctorVisit extends DoctorReport {
  /** What the fix gave back; null when none was asked for. */
  readonly fixed: RecoveryReport | null
}

const watchEveryMs = 1000
/** Recovery failures are kept for ever, but an old one needs no attention. */
const errorShownMs = 60 * 60 * 1000
/** Report even when nothing has changed, only less often: leases run out with time. */
const idleFactor = 3
const explainOptions = { name: 'fleet.explain', input: z.strictObject({ kind: z.enum(kinds).optional() }) }
const watchOptions = {
  name: 'fleet.watch',
  input: z.strictObject({
    everyMs: z.int().min(1).max(maxLeaseMs).optional(),
    signal,
  }),
}

/** Questions about the whole store: what is going on, why, and what is wrong. */
export class Fleet {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** The store, queues, who holds what, agents, runs, messages, recovery, and anything that needs attention. */
  async status(): Promise<FleetReport> {
    const judged = await judgeHolders(this.#session)
    const fleet = await this.#session.call('fleet.status', { judged })
    return { store: this.#session.engine.status, namespace: this.#session.settings.namespace, ...fleet }
  }

  /** What a name refers to: an item, task, lock, message, run, agent or queue. */
  async find(ref: string): Promise<FleetThing[]> {
    return (await this.#session.call('fleet.find', { ref })).found
  }

  /**
   * Why something is waiting, held or stuck, with the evidence. NOT_FOUND when nothing has this name. INVALID when
   * several things do: then give the `kind`.
   */
  async explain(
    ref: string,
    options: {
      /** What it is, where several things have this name. */
      kind?: FleetExplanation['kind'] | undefined
    } = {},
  ): Promise<FleetExplanation> {
    parseInput(explainOptions, optionsOf('fleet.explain', options))
    const { kind } = options
    const found = (await this.find(ref)).filter((each) => each.kind === (kind ?? each.kind))
    const [thing, another] = found
    if (!thing) {
      throw new NotFoundError({
        what: `${kind === undefined ? 'nothing' : `no ${kind}`} here is called ${shown(ref)}`,
        next: 'give an id, a key, or the name of a lock, run, agent or queue',
        facts: { name: ref },
      })
    }
    if (another) {
      throw new InvalidError({
        what: `"${ref}" is ambiguous: ${found.map((each) => `${each.kind} ${each.title}`).join(', ')}`,
        next: 'say which kind you mean, or give its id',
        facts: { found },
      })
    }
    const judged = await judgeHolders(this.#session)
    return this.#session.call('fleet.explain', { kind: thing.kind, id: thing.id, judged })
  }

  /**
   * What is wrong with the store and its fleet; each finding comes with a remedy. With `fix`, a recovery runs first.
   * Reports transactions that other programs have kept open on the server for `longTransactionMs` (default 30 s).
   */
  async doctor(
    options: AskedOf<'fleet.doctor'> & {
      /** Recover first. */
      fix?: boolean | undefined
    } = {},
  ): Promise<DoctorVisit> {
    const { fix } = knownOptionsOf('fleet.doctor', options, ['fix', 'longTransactionMs'])
    const fixed = fix ? await this.#session.recovery.recover() : null
    const { lastError } = await this.#session.recovery.stats({})
    const isRecent = lastError !== null && lastError.at > this.#session.environment.now() - errorShownMs
    const judged = await judgeHolders(this.#session)
    // Read after the calls above, which have refreshed it.
    const { status } = this.#session.engine
    const isFile = status.engine === 'sqlite' && status.location !== ':memory:'
    const sizes = isFile ? storageOf(status.location) : null
    const { engine, location, durability, schemaVersion, engineVersion, server } = status
    const store = {
      engine,
      location: fitText(location, 4096),
      durability,
      schemaVersion,
      engineVersion,
      server: server
        ? {
            fsync: server.fsync,
            synchronousCommit: server.synchronousCommit,
            synchronousStandbys: fitText(server.synchronousStandbys, 1000),
            formerStandbys: server.formerStandbys === null ? null : fitText(server.formerStandbys, 1000),
          }
        : null,
      version: packageVersion(),
      node: process.versions.node,
      wallAt: this.#session.environment.now(),
      storeBytes: sizes?.storeBytes ?? null,
      logBytes: sizes?.logBytes ?? null,
      freeBytes: sizes?.freeBytes ?? null,
      warnings: (status.warnings ?? []).map(({ check, what, remedy }) => ({
        check,
        what: fitText(what, 10_000),
        remedy: fitText(remedy, 10_000),
      })),
      recoveryError: isRecent ? fitText(lastError.error, 10_000) : null,
    }
    const report = await this.#session.call('fleet.doctor', {
      judged,
      store,
      longTransactionMs: options.longTransactionMs,
    })
    return { ...report, fixed }
  }

  /**
   * One page for an agent that starts: who it is, what it holds, what it was sent, and what is next. Recovers first, as
   * a claim does (`recovery.onClaim`), so that work somebody lost can be claimed.
   */
  async prime(options: AgentOptions = {}): Promise<PrimePage> {
    const { agent } = optionsOf('fleet.prime', options)
    if (this.#session.settings.recovery.onClaim) await this.#session.recovery.healIfPossible('manual')
    const judged = await judgeHolders(this.#session)
    const page = await this.#session.ask('fleet.prime', { judged }, options)
    await this.#session.introduce(agent)
    return page
  }

  /** Yields the status now and after every change; less often also without one, because time passes. */
  watch(options: FleetWatchOptions = {}): AsyncGenerator<FleetReport, void, undefined> {
    parseInput(watchOptions, optionsOf('fleet.watch', options))
    return this.#watch(options)
  }

  async *#watch({
    everyMs = watchEveryMs,
    signal,
  }: FleetWatchOptions): AsyncGenerator<FleetReport, void, undefined> {
    const { environment } = this.#session
    while (!signal?.aborted && !this.#session.isClosed) {
      const [changed, closing] = [new AbortController(), new AbortController()]
      // Listen before reading: a change made during the read then leads to the next report.
      const unwake = this.#session.onRing(feed, () => changed.abort())
      const end = () => {
        closing.abort()
        changed.abort()
      }
      const stay = this.#session.onClosing(end)
      const unheard = onAbort(signal, end)
      try {
        yield await this.status()
        await pause(environment, everyMs, closing.signal)
        await pause(environment, (idleFactor - 1) * everyMs, changed.signal)
      } finally {
        unwake()
        stay()
        unheard()
      }
    }
  }
}
