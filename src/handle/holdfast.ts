/** The handle to a store. Everything else is reached from it. */
import { assertName } from '../domain/name.ts'
import { settlesWithin } from '../environment.ts'
import { closedError, HoldfastError, InvalidError } from '../errors.ts'
import type { EventView } from '../operations/event/event.ts'
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
import type { StoreStatus } from '../port/engine.ts'
import { reportStaleLocks, type StaleLocksOptions } from '../runtime/lease/stale-locks.ts'
import { Redelivery } from '../runtime/redelivery/redelivery.ts'
import { knownOptionsOf, optionsOf, orReject } from '../runtime/session/input.ts'
import { endInstance } from '../runtime/session/instance-end.ts'
import type { RecoverOptions, StoreRecoveryReport } from '../runtime/session/recovery.ts'
import type { Session } from '../runtime/session/session.ts'
import { type ClaimWait, waitForWork } from '../runtime/waiting/claim-wait.ts'
import { Agents } from './agents.ts'
import type { ClaimOptions, MutationOptions } from './call-options.ts'
import { type EventOptions, followEvents } from './event-feed.ts'
import { Fleet } from './fleet.ts'
import { Locks } from './locks/locks.ts'
import { Messages } from './messages.ts'
import type { Storable } from './payload.ts'
import { Queue } from './queue/queue.ts'
import type { QueueOptions } from './queue/queue-options.ts'
import { Runs } from './runs.ts'
import { type States, statesOf } from './state.ts'
import { Tasks } from './tasks/tasks.ts'
import { stopOnSignals } from './worker/stop-signals.ts'
import type { Handler, WorkOptions } from './worker/work-options.ts'
import { drainDefaultMs, lastAnswersMs, Worker } from './worker/worker.ts'

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
   * Executes any operation by name, as the CLI does; for everyday work, use the typed methods. `instance`
   * is a process that joined with `instance.join`: a claim then belongs to that process, and nobody renews it.
   */
  execute<Name extends OperationName>(
    operation: Name,
    input: AskedOf<Name>,
    options: MutationOptions & Pick<ClaimOptions, 'instance'> = {},
  ): Promise<ResultOf<Name>> {
    return orReject(() => {
      const row = operations.get(operation)
      if (row) assertNoFact(row, input)
      return this.#session.call(operation, input as InputOf<Name>, optionsOf('execute', options))
    })
  }

  /**
   * Repeats a claim whenever the queue may have work, until the answer is enough or the time is up. The command line uses this.
   */
  waitForWork<Answer>(wait: ClaimWait<Answer>): Promise<Answer> {
    return waitForWork(this.#session, wait)
  }

  /** Recovery for everything, not only one queue. */
  readonly recovery = {
    /** Gives back what has lapsed and what dead processes held. */
    detectAndRecoverStale: async (options: RecoverOptions = {}): Promise<StoreRecoveryReport> =>
      this.#session.recovery.recover(
        knownOptionsOf('recovery.detectAndRecoverStale', options, ['dryRun', 'maxAgeMs', 'allNamespaces']),
      ),
    /** What a recovery would do now, and what past recoveries did. Changes nothing. */
    getRecoveryStats: (): Promise<RecoveryStats> => this.#session.recovery.stats({}),
    /** Everything that is held, soonest expiry first, and what looks wrong with it. Changes nothing. */
    detectStaleLocks: (options: StaleLocksOptions = {}): Promise<StaleLocks> =>
      reportStaleLocks(this.#session, options),
  }

  /**
   * All events in order, with none left out, or those that match the options. Waits for more until the signal fires or
   * the store closes. A filter does not save reads: events that do not match are read and dropped. For the events of
   * one item so far, call `queue.events(ref)`.
   */
  events(options: EventOptions = {}): AsyncGenerator<EventView> {
    return followEvents(this.#session, options)
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
    await endInstance(this.#session)
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
