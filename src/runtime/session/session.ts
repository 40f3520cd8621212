/**
 * What all handles of one opened store share: our identity, the executor, and what was granted to us. Above 300 lines
 * because every call passes through it: sending, repeating and ending share what is under way.
 */

import { type Bell, bellNumber } from '../../domain/bell.ts'
import { taskQueue } from '../../domain/task.ts'
import { Listeners } from '../../engines/listeners.ts'
import type { OpenedEngine } from '../../engines/open.ts'
import type { Environment } from '../../environment.ts'
import { closedError, type HoldfastErrorOf, isHoldfastError } from '../../errors.ts'
import type { CheckedLogger } from '../../logger.ts'
import { checkCommand } from '../../operations/decide.ts'
import { type LeaseRef, lockRef } from '../../operations/lease/lease.ts'
import { entropyFor, type InputOf, type OperationName, type ResultOf } from '../../operations/table.ts'
import { searchedTo } from '../../operations/task/seek.ts'
import type { LockView } from '../../operations/view.ts'
import type { Settings } from '../../options.ts'
import type { Caller, Command } from '../../port/command.ts'
import type { RecoveryFailures } from '../caretaker/recovery-failures.ts'
import { type GrantedItem, Grants } from '../lease/grants.ts'
import type { Lease } from '../lease/held-lease.ts'
import type { Keeper } from '../lease/keeper.ts'
import { type LeaseEnding, LeaseEndings, type LeaseLeft } from '../lease/lease-ending.ts'
import { inTime } from '../waiting/deadline.ts'
import { claimFound, isTaskThere, type TaskSearch, wantedOf } from '../waiting/task-search.ts'
import { withCallerStack } from './caller-stack.ts'
import { orReject } from './input.ts'
import { Introductions } from './introductions.ts'
import { LockUsers } from './lock-users.ts'
import { Recovery } from './recovery.ts'
import { type CallOptions, type OptionsOf, type Request, requestOf } from './request.ts'

export class Session {
  readonly engine: OpenedEngine
  readonly environment: Environment
  readonly settings: Settings
  readonly agent: string
  /** The instance that owns our bound leases. Changes only when this process was taken for dead and rejoins. */
  instance: string | null
  readonly keeper: Keeper
  readonly endings: LeaseEndings
  readonly grants: Grants
  readonly logger: CheckedLogger
  /** Recovery failures that this process has seen. */
  readonly failures: RecoveryFailures
  readonly recovery: Recovery
  readonly lockUsers = new LockUsers()
  /** Tells the workers of a queue that this process is adding work to it: a claim sent at once shares the transaction. */
  readonly expectedWork = new Listeners<string>()
  readonly #underWay = new Set<{ readonly input: unknown; readonly answered: Promise<unknown> }>()
  readonly #introductions = new Introductions((agent) => this.call('messages.introduce', {}, { agent }))
  readonly #whenClosing = new Set<() => void>()
  #isClosed = false
  /** Set once the workers have stopped: anything claimed after that would stay held. */
  refusesClaims = false

  constructor(
    parts: Pick<
      Session,
      'engine' | 'environment' | 'settings' | 'agent' | 'instance' | 'keeper' | 'logger' | 'failures'
    >,
  ) {
    this.engine = parts.engine
    this.environment = parts.environment
    this.settings = parts.settings
    this.agent = parts.agent
    this.instance = parts.instance
    this.keeper = parts.keeper
    this.endings = new LeaseEndings(parts)
    this.grants = new Grants(parts)
    this.logger = parts.logger
    this.failures = parts.failures
    this.failures.writeWith((input) => this.call('recovery.noteFailure', input))
    const byHand = { renew: false }
    this.recovery = new Recovery({
      ...parts,
      storeIsLocal: this.storeIsLocal,
      execute: (operation, input) => this.call(operation, input),
      executeIn: (namespace, operation, input) =>
        this.#ask(this.#command({ operation, input, options: byHand }, namespace), byHand),
    })
  }

  /** Set when the handle begins to close. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  beginToClose(): void {
    this.#isClosed = true
    for (const listener of this.#whenClosing) listener()
  }

  /**
   * Tells waiters that nothing more will come. Not an AbortSignal: a long-lived one keeps every signal derived from it
   * alive.
   */
  onClosing(listener: () => void): () => void {
    if (this.#isClosed) listener()
    this.#whenClosing.add(listener)
    return () => this.#whenClosing.delete(listener)
  }

  /** Calls back when this may have changed, no matter who changed it. Only a hint: listen first, then look. */
  onRing(bell: Bell, listener: () => void): () => void {
    return this.engine.onRing(bellNumber(this.settings.namespace, bell), listener)
  }

  /** Two processes that see the same file are on the same machine. */
  get storeIsLocal(): boolean {
    return this.engine.status.engine === 'sqlite'
  }

  call<Name extends OperationName>(
    operation: Name,
    input: InputOf<Name>,
    options: CallOptions = {},
  ): Promise<ResultOf<Name>> {
    return this.#ask(this.#command({ operation, input, options }), options)
  }

  /** Like `call`, for a method: `named` is what the method supplies; the rest of its input comes from its options. */
  ask<Name extends OperationName, Named extends Partial<InputOf<Name>>>(
    operation: Name,
    named: Named,
    options: OptionsOf<Name, keyof Named>,
    patienceMs?: number,
  ): Promise<ResultOf<Name>> {
    return orReject(() => {
      const { input, options: by } = requestOf(operation, named, options)
      return this.call(operation, input, patienceMs === undefined ? by : { ...by, patienceMs })
    })
  }

  /**
   * A holder's request to release, complete or fail what it holds. Every retry sends the same command. A request that
   * cannot be sent at all changes nothing.
   */
  end<Name extends OperationName>(
    request: Request<Name>,
    ending: LeaseEnding<ResultOf<Name>>,
  ): Promise<ResultOf<Name>> {
    const command = checkCommand(this.#command(request))
    return this.endings.end(ending, () => this.#ask(command, request.options))
  }

  /** Like `end`, for a grant that is remembered here by name. */
  endGrant<Name extends OperationName>(
    request: Request<Name>,
    { kind, name, token }: { kind: 'item' | 'lock'; name: string; token: number | undefined },
    leaves: (answer: ResultOf<Name>) => LeaseLeft,
  ): Promise<ResultOf<Name>> {
    const { options } = request
    const lease = this.grants.find(kind, name, token, options) ?? { kind, id: name, token: token ?? 0 }
    const forget = () => void this.grants.forget(kind, name, token, options)
    return this.end(request, { lease, isLast: true, leaves, forget })
  }

  /**
   * Waits until this process has finished giving back a lease. A claim sent earlier would be told that this process
   * itself still holds it. Null when there is nothing to wait for.
   */
  whenGivenBack(
    matches: (lease: LeaseRef) => boolean,
    patienceMs = this.settings.patienceMs,
  ): Promise<unknown> | null {
    const settled = this.endings.settled(matches)
    return settled && inTime(this, settled, this.environment.monotonic() + patienceMs)
  }

  #command(request: Request<OperationName>, namespace = this.settings.namespace): Command {
    const { operation, input, options } = request
    return {
      operation,
      input,
      namespace,
      caller: this.#caller(options),
      entropy: entropyFor(operation, input, this.environment),
      idempotencyKey: options.idempotencyKey,
      patienceMs: options.patienceMs,
    }
  }

  #ask<Result>(command: Command, options: CallOptions): Promise<Result> {
    const { input } = command
    const answered = this.engine.execute(command) as Promise<Result>
    const asked = { input, answered }
    this.#underWay.add(asked)
    const resolved = (answer: Result) => {
      this.#underWay.delete(asked)
      return answer
    }
    const rejected = (error: unknown): Promise<Result> => {
      this.#underWay.delete(asked)
      if (this.#isOurEnd(error)) return this.#callAgain(error, command, options)
      if (searchedTo(error) !== null && command.caller.searched === undefined)
        return this.#searchOn(command, options)
      throw withCallerStack(error, rejected)
    }
    return answered.then(resolved, rejected)
  }

  /** Always the same command, plus how far the search got: it counts as one request, also for its idempotency key. */
  #searchOn<Result>(command: Command, options: CallOptions): Promise<Result> {
    return claimFound(this.#taskSearch(command.input, options), (searched) =>
      this.#ask({ ...command, caller: { ...command.caller, searched } }, options),
    )
  }

  /** Whether `tasks.claimNext` with this input would find something. Read-only. */
  isTaskThere(input: unknown, options: CallOptions): Promise<boolean> {
    return isTaskThere(this.#taskSearch(input, options))
  }

  #taskSearch(input: unknown, { idempotencyKey, ...options }: CallOptions): TaskSearch {
    return {
      onRing: (listener) => this.onRing({ kind: 'queue', name: taskQueue }, listener),
      seek: (at, isWhole) => this.call('tasks.seek', { ...wantedOf(input), at, isWhole }, options),
    }
  }

  #isOurEnd(error: unknown): error is HoldfastErrorOf<'BUSY'> {
    if (!isHoldfastError(error) || error.code !== 'BUSY') return false
    return error.facts.endedInstance !== undefined && this.instance !== null
  }

  /** Somebody ended our instance by mistake. Nothing was granted, so the call is repeated under the new instance. */
  async #callAgain<Result>(
    refusal: HoldfastErrorOf<'BUSY'>,
    command: Command,
    options: CallOptions,
  ): Promise<Result> {
    if (options.instance !== undefined) throw refusal
    const rejoined = await this.keeper.rejoin()
    if (this.refusesClaims) throw closedError(this.engine.status.location)
    if (rejoined === null || rejoined === refusal.facts.endedInstance) throw refusal
    this.instance = rejoined
    return this.#ask({ ...command, caller: this.#caller(options) }, options)
  }

  /**
   * Called by the caretaker. A lease that this process is ending itself is not lost: the check that found it gone may
   * be answered before the command that ended it.
   */
  lost(lease: LeaseRef): void {
    // The request that ends it will be answered, or the lease lapses.
    if (this.keeper.isSuspended(lease)) return
    // Every request that ends a lease names its token. Items claimed together share one; an extra wait does no harm.
    const ending = [...this.#underWay].filter(({ input }) => Object(input).token === lease.token)
    const lose = () => this.keeper.lose(lease, 'it was cancelled, released or granted to another holder')
    if (ending.length === 0) lose()
    // In the next turn of the event loop, when the callers have seen their answers.
    else void Promise.allSettled(ending.map(({ answered }) => answered)).then(() => setImmediate(lose))
  }

  /**
   * Resolves once everything asked so far is answered and its callers have seen it, so the keeper knows their claims.
   */
  async whenAnswered(): Promise<void> {
    await this.endings.settled(() => true)
    await Promise.allSettled([...this.#underWay].map(({ answered }) => answered))
    await new Promise((done) => setImmediate(done))
  }

  #caller(options: CallOptions): Caller {
    const agent = options.agent ?? this.agent
    const { quotas, leaseMs } = this.settings
    // An empty host name means an unknown machine.
    const host = this.environment.host.identity.hostName || undefined
    if (options.instance !== undefined)
      return { agent, instance: options.instance, renews: false, quotas, host }
    if (this.isBound(options)) return { agent, instance: this.instance, leaseMs, quotas, host }
    return agent === this.agent
      ? { agent, instance: null, quotas, host }
      : { agent, instance: null, quotas, host, isForAnother: true }
  }

  /** An agent that reads its inbox can be written to. */
  async introduce(agent = this.agent): Promise<void> {
    if (!this.engine.status.isReadOnly) await this.#introductions.introduce(agent)
  }

  /** Whether a claim made now belongs to this process and is renewed by it. */
  isBound({ agent, renew, instance }: CallOptions): boolean {
    if (instance !== undefined || renew === false || this.instance === null) return false
    return agent === undefined || agent === this.agent
  }

  /**
   * Runs a claim while reserving room for its leases. If there is no room, the claim is refused before anything is
   * taken: nobody would renew the lease.
   */
  async withRoom<Result>(count: number, options: CallOptions, claim: () => Promise<Result>): Promise<Result> {
    if (this.refusesClaims) throw closedError(this.engine.status.location)
    if (!this.isBound(options)) return claim()
    const giveBack = this.keeper.takeRoom(count)
    try {
      return await claim()
    } finally {
      giveBack()
    }
  }

  /** Remembers a grant under its name, and has it renewed if it is bound. Null when nobody renews it. */
  granted(
    name: string,
    ref: LeaseRef & { leaseMs: number; requestedAt: number },
    options: CallOptions,
    { item = null, depth = 1 }: { item?: GrantedItem | null; depth?: number } = {},
  ): Lease | null {
    const { kind, id, token } = ref
    this.grants.remember(name, { kind, id, token, item, depth }, options)
    return this.isBound(options) ? this.keeper.hold(ref) : null
  }

  /** The same for a lock that was granted. */
  grantedLock(lock: LockView, requestedAt: number, options: CallOptions): Lease | null {
    const { token, leaseMs } = lock.lease
    const ref = { kind: 'lock', id: lockRef(lock), token, leaseMs: leaseMs ?? 0, requestedAt } as const
    return this.granted(lock.name, ref, options, { depth: lock.depth })
  }
}
