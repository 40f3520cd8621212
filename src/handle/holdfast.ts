/** `open(url, options)`: the handle to a store. Everything else is reached from it. */

import { feed } from '../domain/bell.ts'
import { assertRenewable } from '../domain/lease.ts'
import { assertName } from '../domain/name.ts'
import { shown } from '../domain/text.ts'
import { absoluteUrl, openEngine } from '../engines/open.ts'
import { isPostgresUrl } from '../engines/postgres/address.ts'
import { type Environment, pause, settlesWithin } from '../environment.ts'
import { closedError, HoldfastError, InvalidError } from '../errors.ts'
import { defaultAgent } from '../host/agent-id.ts'
import { systemEnvironment } from '../host/system.ts'
import { type CheckedLogger, type Logger, silentLogger, stderrLogger, sturdy } from '../logger.ts'
import type { EventView } from '../operations/event/event.ts'
import { assertFilter, type EventFilter, isWanted } from '../operations/event/filter.ts'
import type { StaleLocks } from '../operations/lease/watch.ts'
import { assertNoFact } from '../operations/operation.ts'
import type { QueueView } from '../operations/queue/define.ts'
import type { RecoveryReport } from '../operations/recovery/report.ts'
import type { RecoveryStats } from '../operations/recovery/stats.ts'
import {
  type AskedOf,
  type InputOf,
  type OperationName,
  operations,
  type ResultOf,
} from '../operations/table.ts'
import { type OpenOptions, parseOptions, type Settings } from '../options.ts'
import type { EngineOptions, Executor, StoreStatus } from '../port/engine.ts'
import { healingBeforeClaims } from '../runtime/caretaker/before-claims.ts'
import { startCaretaker } from '../runtime/caretaker/caretaker-start.ts'
import { logRecovery } from '../runtime/caretaker/heal.ts'
import { RecoveryFailures } from '../runtime/caretaker/recovery-failures.ts'
import { Board } from '../runtime/lease/board.ts'
import { Keeper } from '../runtime/lease/keeper.ts'
import { reportStaleLocks, type StaleLocksOptions } from '../runtime/lease/stale-locks.ts'
import { Redelivery } from '../runtime/redelivery/redelivery.ts'
import { assertSignal, inPieces, knownOptionsOf, optionsOf, orReject } from '../runtime/session/input.ts'
import { Session, type StoreRecoveryReport } from '../runtime/session/session.ts'
import { openThreaded } from '../runtime/thread/threaded-engine.ts'
import { type ClaimWait, waitForWork } from '../runtime/waiting/claim-wait.ts'
import { Agents } from './agents.ts'
import { Fleet } from './fleet.ts'
import { Locks } from './locks.ts'
import { Messages } from './messages.ts'
import type { Storable } from './payload.ts'
import { Queue } from './queue.ts'
import type { QueueOptions } from './queue-options.ts'
import { Runs } from './runs.ts'
import { type States, statesOf } from './state.ts'
import { Tasks } from './tasks.ts'
import { stopOnSignals } from './worker/stop-signals.ts'
import { drainDefaultMs, type Handler, lastAnswersMs, Worker, type WorkOptions } from './worker/worker.ts'

/**
 * Opens a store, and creates it if it does not exist: a path, `sqlite:path`, `sqlite::memory:` (private) or
 * `postgres://…`. Until `close()`, this process renews the leases it holds and reclaims what others lost. In a worker
 * thread, close the store before the thread is terminated: the SQLite driver aborts the whole process if a thread is
 * terminated in the middle of a call.
 */
export async function open(store: string, options: OpenOptions = {}): Promise<Holdfast> {
  assertUrl(store)
  const url = absoluteUrl(store)
  const settings = parseOptions(options, isPostgresUrl(url) ? 'postgres' : 'sqlite')
  const environment: Environment = settings.environment ?? systemEnvironment
  const agent = settings.agent ?? defaultAgent()
  const failures = new RecoveryFailures(environment, agent)
  const logger = watched(
    settings.logger === false ? silentLogger : (settings.logger ?? stderrLogger),
    failures,
  )
  const log: EngineOptions['log'] = (level, name, facts) => logger[level]?.(facts, name)
  // A PostgreSQL batch waits for answers while it holds row locks, so it runs on its own thread, where no handler of
  // this program can delay it.
  const isThreaded = isPostgresUrl(url) && settings.background && !environment.isLocal
  const engine = await (isThreaded ? openThreaded : openEngine)(url, {
    environment,
    durability: settings.durability,
    busyTimeoutMs: settings.busyTimeoutMs,
    recoverOnOpen: settings.recovery.onOpen,
    patienceMs: settings.patienceMs,
    healing: healingBeforeClaims({
      environment,
      reclaims: settings.recovery.onClaim,
      done: (report, ms) => logRecovery(log, report, 'claim', ms),
      failed: (error, queue) =>
        logger.warn({ trigger: 'claim', queue, error: String(error) }, 'recovery.failed'),
    }),
    manualGraceMs: settings.manualGraceMs,
    hasCaretaker: settings.background,
    onCascadeFailed: (error) =>
      logger.warn({ trigger: 'completion', queue: null, error: String(error) }, 'recovery.failed'),
    log,
  })
  if (environment.answered) tellAnswers(engine, environment.answered)
  for (const { what, remedy, isLasting } of engine.status.warnings ?? [])
    if (!isLasting) logger.warn({ what, remedy }, 'store.warning')
  try {
    return await begin({ url, engine, environment, settings, logger, failures, agent })
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Runs alongside the call, so the caller gets its answer no later. */
function tellAnswers(engine: Executor, answered: NonNullable<Environment['answered']>): void {
  const execute = engine.execute.bind(engine)
  engine.execute = (command) => {
    const answer = execute(command)
    answer.then(
      (value) => answered(command.operation, value),
      () => {},
    )
    return answer
  }
}

const unmarkedRemedy =
  'remove what is in its place; until then, others notice the death of this process only when its leases lapse'

function assertUrl(url: unknown): void {
  if (typeof url === 'string' && url !== '') return
  throw new InvalidError({
    what: `open: ${url === undefined ? 'the store is missing' : `${shown(url)} is not a store`}`,
    next: 'give a path, sqlite:path, sqlite::memory: or postgres://…',
  })
}

/** Recovery failures pass through here on their way to the log, so that each is counted no matter who ran into it. */
function watched(given: Logger, failures: RecoveryFailures): CheckedLogger {
  const logger = sturdy(given)
  const warn: CheckedLogger['warn'] = (facts, name) => {
    logger.warn(facts, name)
    if (name === 'recovery.failed') failures.note(facts)
  }
  return { ...logger, warn }
}

type Beginning = { url: string; settings: Settings } & Pick<
  Session,
  'engine' | 'environment' | 'logger' | 'failures' | 'agent'
>

async function begin({ url, ...parts }: Beginning): Promise<Holdfast> {
  const { engine, environment, settings, logger, agent } = parts
  const board = new Board()
  const keeper = new Keeper(environment, board, {
    wedgedAfterMs: settings.wedgedAfterMs,
    isStoreThere: () => engine.isThere?.() ?? true,
  })
  engine.onLost?.((how) => {
    const { location } = engine.status
    logger.error({ location, how, leases: keeper.refs().length }, 'store.lost')
    keeper.loseAll(`the store ${location} was ${how}`)
  })
  const instance = settings.background ? environment.id() : null
  const session = new Session({ ...parts, instance, keeper })
  const atOpen = settings.recovery.onOpen
    ? await session.healIfPossible('open', () => session.healAtOpen())
    : null
  if (instance === null) return new Holdfast(session, atOpen)
  await session.call('instance.start', { id: instance, ...environment.host.identity })
  const unmarked = session.storeIsLocal ? null : environment.host.ownMark.enter(environment.host.identity)
  if (unmarked !== null) logger.warn({ what: unmarked, remedy: unmarkedRemedy }, 'store.warning')
  try {
    await keeper.startCaretaker(() =>
      startCaretaker({
        url,
        engine,
        environment,
        lost: (lease) => session.lost(lease),
        board,
        logger,
        durability: settings.durability,
        busyTimeoutMs: settings.busyTimeoutMs,
        options: {
          namespace: settings.namespace,
          caller: { agent, instance },
          instance,
          recovery: settings.recovery,
          retention: settings.retention,
          wedgedAfterMs: settings.wedgedAfterMs,
          storeIsLocal: session.storeIsLocal,
          hasMoreToHeal: atOpen?.more ?? false,
        },
        rejoined: (fresh) => {
          session.instance = fresh
        },
      }),
    )
  } catch (error) {
    // Without a caretaker nobody would renew its claims, so the instance leaves again. If that fails too, it holds
    // nothing yet.
    await end(session).catch(() => {})
    throw error
  }
  return new Holdfast(session, atOpen)
}

/**
 * Gives back what is still held and records the end of this instance, so that other processes no longer have to judge
 * it.
 */
async function end(session: Session): Promise<void> {
  const { instance, environment } = session
  if (instance === null) return
  await inPieces(() => session.call('instance.end', { id: instance, reason: 'its process closed the store' }))
  // Only once the store has recorded the end: otherwise the death of this process still has to be proven.
  if (!session.storeIsLocal) environment.host.ownMark.leave(environment.host.identity)
}

/** Which events to read, and from where on. */
export interface EventOptions extends EventFilter {
  /**
   * Only events after this sequence number; default 0, from the oldest that is kept. Where retention has removed some of
   * them, NOT_FOUND names the last that is gone (`facts.checkpoint`).
   */
  readonly since?: number | undefined
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined
}

/** A handle to one store. Create it with `open()`, and `close()` it when you are done. */
export class Holdfast {
  readonly #session: Session
  readonly #workers = new Set<Worker<never>>()
  readonly #redelivery: Redelivery
  #closing: Promise<void> | null = null

  /** Named locks and path reservations. */
  readonly locks: Locks
  /** Progress of runs: counts that only the holder of a run's lock can raise. */
  readonly runs: Runs
  /** Versioned documents: `hf.state(key)` and `hf.state.list({ prefix })`. */
  readonly state: States
  /** Tasks that people and agents share, claimed under leases. */
  readonly tasks: Tasks
  /** Agents, and the processes behind them. */
  readonly agents: Agents
  /** Messages that must be acknowledged. */
  readonly messages: Messages
  /** Status overview, explanations, diagnosis, and the start page for agents. */
  readonly fleet: Fleet

  constructor(session: Session, atOpen: RecoveryReport | null) {
    this.#session = session
    this.runs = new Runs(session)
    this.locks = new Locks(session, this.runs, atOpen)
    this.state = statesOf(session)
    this.tasks = new Tasks(session)
    this.agents = new Agents(session)
    this.fleet = new Fleet(session)
    this.#redelivery = new Redelivery(session, session.settings.adapters)
    this.messages = new Messages(session, this.#redelivery)
    if (session.instance !== null && session.settings.redelivery) this.#redelivery.start()
  }

  /** The agent this handle acts as. */
  get agent(): string {
    return this.#session.agent
  }

  /** What kind of store this is, and how durable. */
  get status(): StoreStatus {
    return this.#session.engine.status
  }

  /**
   * A queue by name. Creates nothing yet: that happens on first use. `Input` must be what JSON returns unchanged: a Date
   * is stored as a string, and a `schema` can turn it back into a Date.
   */
  queue<Input extends Storable<Input> = unknown, Output = Input>(
    name: string,
    options: QueueOptions<Input, Output> = {},
  ): Queue<Input, Output> {
    return new Queue<Input, Output>(this.#session, name, options)
  }

  /**
   * All queues by name, with their workflows, limits and whether they are paused. For counts, call `fleet.status()`.
   */
  async queues(): Promise<QueueView[]> {
    return (await this.#session.call('queue.listQueues', {})).queues
  }

  /**
   * Runs a handler for every item of a queue until `stop()`. You can await the worker (`idle()`, `stop()`) and listen
   * to it (`on('completed' | 'failed' | 'lost' | 'error', …)`).
   */
  work<Input extends Storable<Input> = unknown, Output = Input>(
    queue: string | Queue<Input, Output>,
    handler: Handler<Output>,
    options: WorkOptions = {},
  ): Worker<Output> {
    if (this.#session.isClosed) throw closedError(this.status.location)
    assertWork(queue, handler)
    assertRenewable(optionsOf('work', options).leaseMs)
    const of = queue instanceof Queue ? queue : this.queue<Input, Output>(queue)
    let leaveSignals = () => {}
    const worker: Worker<Output> = new Worker<Output>(this.#session, of, handler, options, () => {
      leaveSignals()
      this.#workers.delete(worker as unknown as Worker<never>)
    })
    this.#workers.add(worker as unknown as Worker<never>)
    if (options.stopOnSignals ?? true) leaveSignals = this.#stopOnSignals(of.name, worker)
    return worker
  }

  #stopOnSignals(queue: string, worker: Pick<Worker<never>, 'running' | 'stop'>): () => void {
    const { environment, logger } = this.#session
    return stopOnSignals({
      environment,
      stop: ({ drainMs, signal }) => {
        logger.info?.({ queue, signal, running: worker.running, drainMs }, 'worker.stopping')
        return worker.stop({ drainMs })
      },
      close: () => this.close(),
    })
  }

  /**
   * Executes any operation by name, as the CLI, HTTP and MCP do; for everyday work, use the typed methods. `instance`
   * is a process that joined with `instance.join`: a claim then belongs to that process, and nobody renews it.
   */
  execute<Name extends OperationName>(
    operation: Name,
    input: AskedOf<Name>,
    options: {
      idempotencyKey?: string | undefined
      agent?: string | undefined
      instance?: string | undefined
    } = {},
  ): Promise<ResultOf<Name>> {
    return orReject(() => {
      const row = operations.get(operation)
      if (row) assertNoFact(row, input)
      return this.#session.call(operation, input as InputOf<Name>, optionsOf('execute', options))
    })
  }

  /**
   * Repeats a claim whenever the queue may have work, until the answer is enough or the time is up. For interfaces.
   */
  waitForWork<Answer>(wait: ClaimWait<Answer>): Promise<Answer> {
    return waitForWork(this.#session, wait)
  }

  /** Recovery for everything, not only one queue. */
  readonly recovery = {
    /**
     * Gives back what has lapsed and what dead processes held. `maxAgeMs`: only leases that lapsed longer ago than
     * this; what dead processes held is reclaimed at once. `allNamespaces`: the whole store, not only this handle's
     * namespace.
     */
    detectAndRecoverStale: async (
      options: {
        dryRun?: boolean | undefined
        maxAgeMs?: number | undefined
        allNamespaces?: boolean | undefined
      } = {},
    ): Promise<StoreRecoveryReport> =>
      this.#session.recover(
        knownOptionsOf('recovery.detectAndRecoverStale', options, ['dryRun', 'maxAgeMs', 'allNamespaces']),
      ),
    /** What a recovery would do now, and what past recoveries did. Changes nothing. */
    getRecoveryStats: (): Promise<RecoveryStats> => this.#session.recoveryStats({}),
    /** Everything that is held, soonest expiry first, and what looks wrong with it. Changes nothing. */
    detectStaleLocks: (options: StaleLocksOptions = {}): Promise<StaleLocks> =>
      reportStaleLocks(this.#session, options),
  }

  /**
   * All events in order, with none left out, or those that match the options. Waits for more until the signal fires or
   * the store closes. A filter does not save reads: events that do not match are read and dropped. For the events of
   * one item so far, call `queue.events(ref)`.
   */
  async *events(options: EventOptions = {}): AsyncGenerator<EventView> {
    const { since = 0, signal, ...wanted } = knownOptionsOf('events', options, eventOptionNames)
    assertSignal('events', signal)
    assertFilter(wanted)
    let seq = since
    while (!signal?.aborted && !this.#closing) {
      const woken = new AbortController()
      const unwake = this.#session.onRing(feed, () => woken.abort())
      const stay = this.#session.onClosing(() => woken.abort())
      try {
        const page = await this.#session.call('events.list', { since: seq, limit: 500 })
        for (const event of page.events) {
          seq = event.seq
          if (!isWanted(event, wanted)) continue
          yield event
          if (signal?.aborted) return
        }
        if (page.events.length > 0) continue
        const until = signal ? AbortSignal.any([signal, woken.signal]) : woken.signal
        await pause(this.#session.environment, eventPollMs, until)
      } finally {
        unwake()
        stay()
      }
    }
  }

  /** Stops the workers, gives back what this process holds, and closes the store. A second call waits for the first. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#session.beginToClose()
    const { engine, environment } = this.#session
    const deadline = environment.monotonic() + drainDefaultMs + 2 * lastAnswersMs
    const leaving = this.#leave()
    let isInTime = true
    try {
      isInTime = await settlesWithin(environment, drainDefaultMs + 2 * lastAnswersMs, leaving)
    } catch (error) {
      // If the store itself is lost, so is everything held in it, and there is nothing left to report.
      if (!engine.isLost) throw error
    } finally {
      await engine.close(Math.max(0, deadline - environment.monotonic()))
    }
    if (!isInTime) throw notLeft(this.status.location)
  }

  async #leave(): Promise<void> {
    try {
      await Promise.all([this.locks.close(), ...[...this.#workers].map((worker) => worker.stop())])
      // Not earlier: a handler that is draining may need a lock to finish.
      this.#session.refusesClaims = true
      await this.#redelivery.close()
      await this.#session.whenAnswered()
    } finally {
      this.#session.refusesClaims = true
      // Even after a failure: a thread left running would go on renewing leases nobody works under any more. And before
      // the instance ends, because the thread would take that end for a mistake and join again.
      await this.#session.keeper.close()
    }
    const noted = this.#session.failures.flush()
    await end(this.#session)
    await noted
  }

  /** The same as `close()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function notLeft(location: string): HoldfastError {
  return new HoldfastError('STORE_UNAVAILABLE', {
    what: `${location} did not answer before it was closed`,
    next: 'what this process still held is freed when its leases lapse, or when others notice that it has ended',
    facts: { location },
  })
}

/** Without a handler, every job would be claimed and fail. */
function assertWork(queue: unknown, handler: unknown): void {
  if (!(queue instanceof Queue)) assertName('queue', queue)
  if (typeof handler === 'function') return
  throw new InvalidError({
    what: `work on queue ${queue instanceof Queue ? queue.name : queue} was given no handler`,
    next: 'give a function as its second argument: async (item, { signal }) => { … }',
  })
}

const eventPollMs = 500
const eventOptionNames = ['since', 'subject', 'id', 'kinds', 'queue', 'signal'] as const
