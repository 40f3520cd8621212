/** `hf.fleet`: the whole at a glance, why something is as it is, what is wrong, and where an agent begins. */

import * as z from 'zod'
import { feed } from '../domain/bell.ts'
import { maxLeaseMs } from '../domain/lease.ts'
import { fitText, shown } from '../domain/text.ts'
import type { StoreStatus } from '../engines/engine.ts'
import { pause } from '../environment.ts'
import { InvalidError, NotFoundError } from '../errors.ts'
import { storageOf } from '../host/file-system.ts'
import { packageVersion } from '../host/package-version.ts'
import type { DoctorReport } from '../operations/fleet/doctor.ts'
import { type FleetExplanation, kinds } from '../operations/fleet/explain.ts'
import type { FleetStatus } from '../operations/fleet/fleet.ts'
import type { PrimePage } from '../operations/fleet/prime.ts'
import { parseInput } from '../operations/operation.ts'
import type { RecoveryReport } from '../operations/recovery/recovery.ts'
import type { ResultOf } from '../operations/table.ts'
import { judgeHolders } from '../runtime/lease/stale-locks.ts'
import { knownOptionsOf, optionsOf } from '../runtime/session/input.ts'
import type { Session } from '../runtime/session/session.ts'

/** What a word may mean. */
export type FleetThing = ResultOf<'fleet.find'>['found'][number]

export interface FleetWatchOptions {
  /** At most so often, ms; default 1000. While nothing is changed, a third as often. */
  readonly everyMs?: number
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

/** The fleet, and the store it shares. */
export interface FleetReport extends FleetStatus {
  readonly store: StoreStatus
}

/** Findings, and what was done about them. */
export interface DoctorVisit extends DoctorReport {
  /** What a fix gave back; null when none was asked for. */
  readonly fixed: RecoveryReport | null
}

const watchEveryMs = 1000
/** Failures to heal are kept for ever; an old one needs no attention. */
const errorShownMs = 60 * 60 * 1000
/** Leases run out without anybody changing anything. */
const idleFactor = 3
const explainOptions = { name: 'fleet.explain', input: z.strictObject({ kind: z.enum(kinds).optional() }) }
const watchOptions = {
  name: 'fleet.watch',
  input: z.strictObject({
    everyMs: z.int().min(1).max(maxLeaseMs).optional(),
    signal: z.instanceof(AbortSignal, { error: 'must be an AbortSignal' }).optional(),
  }),
}

export class Fleet {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** The store, queues, what is held by whom, agents, runs, messages, healing and what somebody should be told. */
  async status(): Promise<FleetReport> {
    const judged = await judgeHolders(this.#session)
    const fleet = await this.#session.call('fleet.status', { judged })
    return { store: this.#session.engine.status, ...fleet }
  }

  /** Find what a word refers to: an item, task, lock, message, run, agent or queue. */
  async find(ref: string): Promise<FleetThing[]> {
    return (await this.#session.call('fleet.find', { ref })).found
  }

  /**
   * Why something is waiting, held or stuck, with the evidence. NOT_FOUND when the word means nothing here, INVALID
   * when it means several things: then say which kind.
   */
  async explain(ref: string, options: { kind?: FleetExplanation['kind'] } = {}): Promise<FleetExplanation> {
    parseInput(explainOptions, optionsOf('fleet.explain', options))
    const { kind } = options
    const found = (await this.find(ref)).filter((each) => each.kind === (kind ?? each.kind))
    const [thing, another] = found
    if (!thing) {
      throw new NotFoundError({
        what: `nothing here is called ${shown(ref)}${kind === undefined ? '' : `, or it is no ${kind}`}`,
        next: 'give an id, a key, or the name of a lock, run, agent or queue',
        facts: { name: ref },
      })
    }
    if (another) {
      throw new InvalidError({
        what: `"${ref}" means several things: ${found.map((each) => `${each.kind} ${each.title}`).join(', ')}`,
        next: 'say which kind you mean, or give its id',
        facts: { found },
      })
    }
    const judged = await judgeHolders(this.#session)
    return this.#session.call('fleet.explain', { kind: thing.kind, id: thing.id, judged })
  }

  /**
   * What is wrong with the store and its fleet, each finding with its remedy. With `fix`, a recovery comes first.
   * Transactions that other programs have open on a server for `longTransactionMs` (30 s) are named.
   */
  async doctor(options: { fix?: boolean; longTransactionMs?: number } = {}): Promise<DoctorVisit> {
    const { fix } = knownOptionsOf('fleet.doctor', options, ['fix', 'longTransactionMs'])
    const fixed = fix ? await this.#session.recover() : null
    const { lastError } = await this.#session.recoveryStats({})
    const isRecent = lastError !== null && lastError.at > this.#session.environment.now() - errorShownMs
    const judged = await judgeHolders(this.#session)
    // What was asked before it has refreshed it.
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
   * One page for an agent that starts: who it is, what it holds, what it was sent, what is next. Heals first, as a claim
   * does (`recovery.onClaim`), so that what somebody lost is there to be claimed.
   */
  async prime(options: { agent?: string } = {}): Promise<PrimePage> {
    const { agent } = optionsOf('fleet.prime', options)
    if (this.#session.settings.recovery.onClaim) await this.#session.healIfPossible('manual')
    const judged = await judgeHolders(this.#session)
    const page = await this.#session.ask('fleet.prime', { judged }, options)
    await this.#session.introduce(agent)
    return page
  }

  /** The status now, and again when something was changed; also when nothing was, because time passes. */
  watch(options: FleetWatchOptions = {}): AsyncGenerator<FleetReport, void, undefined> {
    parseInput(watchOptions, optionsOf('fleet.watch', options))
    return this.#watch(options)
  }

  async *#watch({
    everyMs = watchEveryMs,
    signal,
  }: FleetWatchOptions): AsyncGenerator<FleetReport, void, undefined> {
    const { environment } = this.#session
    const until = (woken: AbortSignal) => (signal ? AbortSignal.any([signal, woken]) : woken)
    while (!signal?.aborted && !this.#session.isClosed) {
      const [changed, closing] = [new AbortController(), new AbortController()]
      // Before the look: what is changed while it is taken is seen by the next.
      const unwake = this.#session.onRing(feed, () => changed.abort())
      const stay = this.#session.onClosing(() => {
        closing.abort()
        changed.abort()
      })
      try {
        yield await this.status()
        await pause(environment, everyMs, until(closing.signal))
        await pause(environment, (idleFactor - 1) * everyMs, until(changed.signal))
      } finally {
        unwake()
        stay()
      }
    }
  }
}
