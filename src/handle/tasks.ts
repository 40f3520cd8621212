/** `hf.tasks`: the operations on tasks as methods. */
import * as z from 'zod'
import { maxLeaseMs } from '../domain/lease.ts'
import { conflictWaitMs } from '../domain/state.ts'
import { type TaskStatus, taskQueue } from '../domain/task.ts'
import { pause } from '../environment.ts'
import { isVersionMismatchError } from '../errors.ts'
import type { LockStatus, StaleLocks } from '../operations/lease/watch.ts'
import { parseInput } from '../operations/operation.ts'
import type { AskedOf, ResultOf } from '../operations/table.ts'
import type { BatchClaimOutcome, NextTaskOutcome, TaskClaimOutcome } from '../operations/task/claim.ts'
import type { LockCleanup } from '../operations/task/cleanup.ts'
import type { TaskHints } from '../operations/task/hint.ts'
import type { TaskView } from '../operations/task/view.ts'
import { deathsAmong } from '../runtime/caretaker/heal.ts'
import type { Lease } from '../runtime/lease/keeper.ts'
import { type LeaseLeft, leftByRelease } from '../runtime/lease/lease-ending.ts'
import { type CleanupOptions, repeatCleanup } from '../runtime/lease/lock-cleanup.ts'
import { type LeaseRenewal, type RenewalOptions, runRenewal } from '../runtime/lease/renewal.ts'
import { judgeHolders, reportStaleLocks, type StaleLocksOptions } from '../runtime/lease/stale-locks.ts'
import { askInPieces, assertSignal, given, optionsOf, orReject, sumOf } from '../runtime/session/input.ts'
import { type CallOptions, type OptionsOf, requestOf, type Session } from '../runtime/session/session.ts'
import { waitForWork, waitIsOver } from '../runtime/waiting/claim-wait.ts'
import {
  assertWait,
  type ClaimOptions,
  type MutationOptions,
  type Own,
  type TokenOptions,
  type WaitOptions,
} from './call-options.ts'

/** A task as callers see it. */
export type Task = TaskView

/** The contents of a task. */
export interface TaskFields {
  /** What is to be done. */
  readonly body?: string | undefined
  /** Labels to filter by. */
  readonly labels?: readonly string[] | undefined
  /** Files and folders it touches. */
  readonly paths?: readonly string[] | undefined
  /** Owner of the task, regardless of who works on it. */
  readonly owner?: string | null | undefined
  /** The machine it belongs on. */
  readonly host?: string | null | undefined
  /** 0 (first) to 10 (last); default 5. */
  readonly priority?: number | undefined
  /** Any JSON of your own. */
  readonly metadata?: unknown
  /** Tasks that must be done first. */
  readonly dependsOn?: readonly string[] | undefined
}
/** A new task. `key` is your own name for it, unique while the task is open. */
export interface AddTaskOptions extends TaskFields, MutationOptions {
  /** Your own name for it, such as T-12; unique while it is open. */
  readonly key?: string | undefined
}
/** What to change; fields you leave out stay as they are. */
export interface TaskChanges extends TaskFields {
  /** A one-line title. */
  readonly title?: string | undefined
  /** A state that is not held; In Progress is reached by a claim. */
  readonly status?: Exclude<TaskStatus, 'In Progress'> | undefined
  /** Progress of the work; only its holder can set it. */
  readonly progress?: unknown
  /** Kept with the task, even when its holder is lost. */
  readonly note?: string | undefined
}
/** A change, and the conditions under which it is made. */
export interface UpdateTaskOptions extends TaskChanges, TokenOptions {
  /** Refuse unless the item is at this version. */
  readonly expectedVersion?: number | undefined
  /** Do it even if another agent holds it; needs a reason. */
  readonly force?: boolean | undefined
  /** Why; kept in the audit trail. */
  readonly reason?: string | undefined
}
/** How a task is removed, and why. */
export interface RemoveTaskOptions extends MutationOptions {
  /** Why; kept in the audit trail. */
  readonly reason: string
  /** Do it even if somebody holds it; the holder loses it. */
  readonly force?: boolean | undefined
  /** What to do with tasks that depend on it: release them. */
  readonly dependents?: 'release' | undefined
  /** Refuse unless the item is at this version. */
  readonly expectedVersion?: number | undefined
}
/**
 * Which tasks are meant: those with all of these labels, this owner and this host (null = none), and at least this
 * urgent.
 */
export interface TaskFilter {
  /** Only tasks with all of these labels. */
  readonly labels?: readonly string[] | undefined
  /** Owner; null = none. */
  readonly owner?: string | null | undefined
  /** Only tasks that you own or that nobody owns. */
  readonly mine?: boolean | undefined
  /** The machine they belong on; null = none. */
  readonly host?: string | null | undefined
  /** At least this urgent: lower numbers come first. */
  readonly maxPriority?: number | undefined
}
/** Which tasks to list, and how many per page. */
export interface ListTasksOptions extends TaskFilter {
  /** Only these. */
  readonly status?: TaskStatus | readonly TaskStatus[] | undefined
  /** Held by this agent. */
  readonly assignee?: string | undefined
  /** How many at most, up to 1000. */
  readonly limit?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}
/**
 * How a task is claimed. `fromReview` also takes it back out of review, `force` also takes it from the agent it is
 * offered to.
 */
export interface ClaimTaskOptions extends ClaimOptions {
  /** Also take it back out of review. */
  readonly fromReview?: boolean | undefined
  /** Take it even if it is offered to another agent. For operators. */
  readonly force?: boolean | undefined
}
/** Which task to claim, and how many this agent and this host may hold. */
export interface ClaimNextOptions extends TaskFilter, Omit<ClaimOptions, 'token'> {
  /** Include tasks that belong on other machines. */
  readonly anyHost?: boolean | undefined
  /** Most tasks this agent may hold. */
  readonly maxPerAgent?: number | undefined
  /** Most tasks that may be held on this host, by its processes or by hand. */
  readonly maxPerHost?: number | undefined
}

type Held<Outcome, Kept> = Outcome extends { outcome: 'claimed' }
  ? Outcome & { readonly lease: Kept }
  : Outcome
/** The outcome of claiming a task by name. */
export type TaskClaim<Kept extends Lease | null = Lease | null> = Held<TaskClaimOutcome, Kept>
/** The outcome of claiming the next task. */
export type NextTask<Kept extends Lease | null = Lease | null> = Held<NextTaskOutcome, Kept>
/** The outcome of claiming several tasks: all of them, or none with the reasons. */
export type BatchClaim<Kept extends Lease | null = Lease | null> =
  | { readonly outcome: 'claimed'; readonly tasks: { readonly task: Task; readonly lease: Kept }[] }
  | Exclude<BatchClaimOutcome, { outcome: 'claimed' }>

const updateAttempts = 5
const renewalOptions = {
  name: 'tasks.runLeaseRenewal',
  input: z.strictObject({
    leaseMs: z.int().min(0).max(maxLeaseMs).optional(),
    everyMs: z.number().optional(),
    onLost: z
      .custom<object>((value) => typeof value === 'function', { error: 'must be a function' })
      .optional(),
  }),
}
const retryOptions = {
  name: 'tasks.updateWithRetry',
  input: z.strictObject({
    change: z.custom<object>((value) => typeof value === 'function', { error: 'must be a function' }),
    maxAttempts: z.int().min(1).max(10_000),
  }),
}

/** Tasks: shared work that agents claim under leases. */
export class Tasks {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** Adds a task. DUPLICATE while its key belongs to an open task. */
  addTask(title: string, options: AddTaskOptions = {}): Promise<Task> {
    return this.#session.ask('tasks.addTask', { title }, options)
  }

  /** A task by id or key; null when there is none. */
  getTask(ref: string): Promise<Task | null> {
    return this.#session.call('tasks.getTask', { ref })
  }

  /** Tasks in claim order, then finished ones, one page at a time. Pass `next` as `after` to get the next page. */
  listTasks(options: ListTasksOptions = {}): Promise<{ tasks: Task[]; next: string | null }> {
    return this.#session.ask('tasks.listTasks', {}, options)
  }

  /**
   * Changes a task. VERSION_MISMATCH when it is no longer at `expectedVersion`; without `expectedVersion`, the change
   * is unconditional. HELD while another agent holds the task, unless you force it and give a reason.
   */
  updateTask(ref: string, changes: UpdateTaskOptions): Promise<Task> {
    return this.#guarded('tasks.updateTask', ref, changes)
  }

  /**
   * Removes a task that nobody needs any more; its events stay. False when there is none. HELD while somebody works on
   * it, unless forced. ILLEGAL_MOVE while other tasks depend on it, unless you release them.
   */
  removeTask(ref: string, options: RemoveTaskOptions): Promise<boolean> {
    return this.#session.ask('tasks.removeTask', { ref }, options)
  }

  /**
   * Reads the task, calls `change` for the changes, and saves them; after a conflict, starts over. `maxAttempts`
   * (default 5) includes the first attempt; after the last, VERSION_MISMATCH. `change` may run several times, so it
   * must have no side effects. If it returns null, the task stays as it is.
   */
  async updateWithRetry(
    ref: string,
    change: (task: Task) => TaskChanges | null | Promise<TaskChanges | null>,
    options: TokenOptions & { readonly maxAttempts?: number | undefined } = {},
  ): Promise<Task> {
    const { maxAttempts = updateAttempts, ...rest } = optionsOf('tasks.updateWithRetry', options)
    parseInput(retryOptions, { change, maxAttempts })
    for (let attempt = 1; ; attempt++) {
      const task = await this.#required(ref)
      const changes = await change(task)
      if (changes === null) return task
      try {
        return await this.updateTask(task.id, { ...rest, ...changes, expectedVersion: task.version })
      } catch (error) {
        if (!isVersionMismatchError(error) || attempt >= maxAttempts) throw error
        const { environment } = this.#session
        const waitMs = conflictWaitMs(attempt, environment.random())
        if (waitMs > 0) await pause(environment, waitMs)
      }
    }
  }

  /** Whether the task has changed since the version you read. */
  checkUpdateConflict(
    ref: string,
    expectedVersion: number,
  ): Promise<{ hasConflict: boolean; currentVersion: number }> {
    return this.#session.call('tasks.checkUpdateConflict', { ref, expectedVersion })
  }

  /**
   * Claims a task by id or key. For this handle's own agent, the lease is renewed until the task is finished or
   * released. For another agent, it is a manual lease of 30 min.
   */
  claimTaskForAgent(ref: string, options?: Own<ClaimTaskOptions>): Promise<TaskClaim<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  claimTaskForAgent(ref: string, options: ClaimTaskOptions): Promise<TaskClaim>
  claimTaskForAgent(ref: string, options: ClaimTaskOptions = {}): Promise<TaskClaim> {
    const asked = () => optionsOf('tasks.claimTaskForAgent', options)
    return orReject(() => this.#session.withRoom(1, asked(), () => this.#claimTask(ref, options)))
  }

  async #claimTask(ref: string, options: ClaimTaskOptions): Promise<TaskClaim> {
    const { sent, id, token } = await this.#held(ref, options)
    const givenBack = this.#session.whenGivenBack((lease) => lease.id === id)
    if (givenBack !== null) await givenBack
    const requestedAt = this.#session.environment.monotonic()
    const claim = await this.#session.ask('tasks.claimTaskForAgent', { ref: sent, token }, options)
    return this.#keep(claim, requestedAt, options) as TaskClaim
  }

  /**
   * Claims the next task that fits, by priority and then by age. Every dependency must be done. Tasks that belong on
   * another machine are skipped, unless you name that `host` or set `anyHost`. With `waitMs`, waits while there is no
   * such task, tasks are paused, or as many are held as allowed.
   */
  claimNext(options?: Own<ClaimNextOptions> & WaitOptions): Promise<NextTask<Lease>>
  /** The same with a manual lease: `lease` is null when nobody renews it. */
  claimNext(options: ClaimNextOptions & WaitOptions): Promise<NextTask>
  claimNext(options: ClaimNextOptions & WaitOptions = {}): Promise<NextTask> {
    return orReject(() => this.#claimNextWaiting(optionsOf('tasks.claimNext', options)))
  }

  #claimNextWaiting({ waitMs = 0, signal, ...options }: ClaimNextOptions & WaitOptions): Promise<NextTask> {
    assertSignal('tasks.claimNext', signal)
    assertWait('tasks.claimNext', waitMs, options.idempotencyKey)
    signal?.throwIfAborted()
    const claim = (patienceMs?: number) =>
      this.#session.withRoom(1, options, () => this.#claimNext(options, patienceMs))
    if (waitMs === 0) return claim()
    const isEnough = ({ outcome }: NextTask) => outcome === 'claimed'
    const giveBack = async (late: NextTask) => {
      if (late.outcome !== 'claimed') return
      const { id, token } = late.task
      await this.releaseTask(id, { ...given({ agent }), token, note: waitIsOver })
    }
    const { agent } = options
    const wait = { queue: taskQueue, wanted: options, waitMs, signal, agent, claim, isEnough, giveBack }
    return waitForWork(this.#session, wait)
  }

  async #claimNext(options: ClaimNextOptions, patienceMs?: number): Promise<NextTask> {
    const requestedAt = this.#session.environment.monotonic()
    const claim = await this.#session.ask('tasks.claimNext', {}, options, patienceMs)
    return this.#keep(claim, requestedAt, options) as NextTask
  }

  /** Claims all of these tasks or none of them. */
  batchClaim(refs: readonly string[], options?: Own<Omit<ClaimOptions, 'token'>>): Promise<BatchClaim<Lease>>
  /** The same with manual leases: `lease` is null when nobody renews it. */
  batchClaim(refs: readonly string[], options: Omit<ClaimOptions, 'token'>): Promise<BatchClaim>
  async batchClaim(refs: readonly string[], options: Omit<ClaimOptions, 'token'> = {}): Promise<BatchClaim> {
    optionsOf('tasks.batchClaim', options)
    const count = Array.isArray(refs) ? refs.length : 0
    return this.#session.withRoom(count, options, () => this.#claimAll(refs, options))
  }

  async #claimAll(refs: readonly string[], options: ClaimOptions): Promise<BatchClaim> {
    const requestedAt = this.#session.environment.monotonic()
    const answer = await this.#session.ask('tasks.batchClaim', { refs }, options)
    if (answer.outcome !== 'claimed') return answer
    const tasks = answer.tasks.map((task) => ({ task, lease: this.#granted(task, requestedAt, options) }))
    return { outcome: 'claimed', tasks }
  }

  /** Renews a lease by hand, for its full length from now. LEASE_LOST once somebody else has the task. */
  renewLease(ref: string, options: TokenOptions & { leaseMs?: number | undefined } = {}): Promise<Task> {
    return this.#guarded('tasks.renewLease', ref, options)
  }

  /**
   * Renews a lease in the background until you stop it or the lease is lost, by default every third of its length. On
   * loss, its signal fires and `onLost` is called. Only for manual leases: this handle renews its own agent's claims
   * anyway.
   */
  async runLeaseRenewal(ref: string, options: RenewalOptions & TokenOptions = {}): Promise<LeaseRenewal> {
    const { everyMs, signal, onLost, leaseMs, ...rest } = optionsOf('tasks.runLeaseRenewal', options)
    assertSignal('tasks.runLeaseRenewal', signal)
    parseInput(renewalOptions, given({ leaseMs, everyMs, onLost }))
    const requestedAt = this.#session.environment.monotonic()
    const task = await this.#required(ref)
    // Ask the store to renew it, so that the refusal reads the same as everywhere else.
    const lease = task.lease ?? (await this.renewLease(task.id, rest)).lease
    const { token } = await this.#held(task.id, rest)
    return runRenewal({
      session: this.#session,
      lease: { kind: 'item', id: task.id, token: token ?? task.token },
      subject: `task ${task.key ?? task.id}`,
      leaseMs: leaseMs ?? lease?.leaseMs ?? 0,
      endsAt: requestedAt + (lease?.remainingMs ?? 0),
      everyMs,
      signal,
      onLost,
      renew: (length) =>
        this.#guarded('tasks.renewLease', task.id, {
          ...rest,
          ...(token === undefined ? {} : { token }),
          leaseMs: length,
        }),
    })
  }

  /** Gives a task back. False when nobody held it any more; HELD, naming the holder, when somebody else does. */
  async releaseTask(
    ref: string,
    options: TokenOptions & {
      status?: 'Todo' | 'Review' | 'Done' | undefined
      note?: string | undefined
    } = {},
  ): Promise<boolean> {
    return await this.#end('tasks.releaseTask', ref, options, leftByRelease)
  }

  /** Sends a task to review and gives up its lease. */
  reviewTask(
    ref: string,
    options: TokenOptions & { note?: string | undefined; expectedVersion?: number | undefined } = {},
  ): Promise<Task> {
    return this.#end('tasks.reviewTask', ref, options, leftBy)
  }

  /** Completes a task that you hold or that is in review. Repeating it is harmless. */
  completeTask(
    ref: string,
    options: TokenOptions & {
      result?: unknown
      note?: string | undefined
      expectedVersion?: number | undefined
    } = {},
  ): Promise<Task> {
    return this.#end('tasks.completeTask', ref, options, leftBy)
  }

  /**
   * Gives back every task the agent holds, with a note, and returns their ids. With `to`, they are offered to that
   * agent: nobody else may claim them for `offerMs` (default 10 min), then everybody may.
   */
  async handoff(options: MutationOptions & AskedOf<'tasks.handoff'> = {}): Promise<{ taskIds: string[] }> {
    const pieces = await askInPieces('tasks.handoff', options, async (asked) => {
      const piece = await this.#session.ask('tasks.handoff', {}, asked)
      for (const { id, token } of piece.tasks) this.#session.grants.ended('item', id, token, options)
      return piece
    })
    return { taskIds: pieces.flatMap(({ tasks }) => tasks.map(({ id }) => id)) }
  }

  /** All held tasks, soonest expiry first, and what looks wrong with them. Changes nothing. */
  detectStaleLocks(options: StaleLocksOptions = {}): Promise<StaleLocks> {
    return reportStaleLocks(this.#session, options, { queue: taskQueue })
  }

  /** The lock on one task; null when nobody has it. */
  async getLockStatus(ref: string): Promise<LockStatus | null> {
    const deaths = deathsAmong(await judgeHolders(this.#session))
    return this.#session.call('tasks.getLockStatus', { ref, deaths })
  }

  /** Returns every task whose lock has expired to Todo. Recovery does the same by itself. */
  cleanupExpiredLocks(): Promise<LockCleanup> {
    return this.cleanupExpiredLocksWithReport()
  }

  /**
   * Like `cleanupExpiredLocks`, but only for locks that expired longer ago than `maxAgeMs`. Valid locks are never
   * touched.
   */
  async cleanupExpiredLocksWithReport(
    options: AskedOf<'tasks.cleanupExpiredLocks'> = {},
  ): Promise<LockCleanup> {
    return this.#cleanup('tasks.cleanupExpiredLocks', options, (asked) =>
      this.#session.ask('tasks.cleanupExpiredLocks', {}, asked),
    )
  }

  /**
   * Frees the tasks of holders that are proven dead, and tasks whose lock has expired and whose holder is not known to
   * be alive.
   */
  async cleanupDeadAgentLocks(options: { dryRun?: boolean | undefined } = {}): Promise<LockCleanup> {
    const judged = await judgeHolders(this.#session)
    const alive = judged.filter(({ liveness }) => liveness === 'alive').map(({ instance }) => instance)
    const facts = { alive, deaths: deathsAmong(judged) }
    return this.#cleanup('tasks.cleanupDeadAgentLocks', options, (asked) =>
      this.#session.ask('tasks.cleanupDeadAgentLocks', facts, asked),
    )
  }

  /** Repeats the cleanup, every 5 min by default, until you stop it or the store closes. Recovery runs without it. */
  startLockCleanupBackground(options: CleanupOptions = {}): { stop(): void } {
    return repeatCleanup(this.#session, optionsOf('tasks.startLockCleanupBackground', options), async () => {
      await this.detectStaleLocks()
      await this.cleanupDeadAgentLocks()
      await this.cleanupExpiredLocks()
    })
  }

  /**
   * Which tasks overlap, which can run side by side, and the longest chain, by key (or id). Advisory: blocks nothing.
   */
  hints(): Promise<TaskHints> {
    return this.#session.call('tasks.hints', {})
  }

  async #cleanup<Options extends object>(
    operation: string,
    options: Options,
    ask: (options: Options) => Promise<LockCleanup>,
  ): Promise<LockCleanup> {
    const pieces = await askInPieces(operation, options, ask)
    const cleaned = sumOf(pieces, (piece) => piece.cleaned)
    this.#session.logger.info?.({ operation, cleaned }, 'cleanup.done')
    const taskIds = pieces.flatMap((piece) => piece.taskIds)
    return { cleaned, taskIds, locks: pieces.flatMap(({ locks }) => locks), more: false }
  }

  #keep(
    claim: TaskClaimOutcome | NextTaskOutcome,
    requestedAt: number,
    options: CallOptions,
  ): TaskClaim | NextTask {
    if (claim.outcome !== 'claimed') return claim
    return { ...claim, lease: this.#granted(claim.task, requestedAt, options) }
  }

  #granted({ id, key, token, lease }: Task, requestedAt: number, options: CallOptions): Lease | null {
    const ref = { kind: 'item', id, token, leaseMs: lease?.leaseMs ?? 0, requestedAt } as const
    return this.#session.granted(id, ref, options, { item: { queue: taskQueue, key } })
  }

  async #required(ref: string): Promise<Task> {
    const task = await this.getTask(ref)
    // Ask the store about it, so that the refusal reads the same as everywhere else.
    if (!task) await this.checkUpdateConflict(ref, 1)
    return task as Task
  }

  /**
   * A write by the holder, if there is one. Fills in its token, and forgets the grant once the task is no longer held.
   */
  async #guarded<Name extends 'tasks.updateTask' | 'tasks.renewLease'>(
    operation: Name,
    ref: string,
    options: OptionsOf<Name, 'ref'>,
  ): Promise<Task> {
    const by = optionsOf(operation, options) as TokenOptions
    const { sent, id, token } = await this.#held(ref, by)
    try {
      const request = requestOf<Name, object>(operation, { ref: sent, token }, options as never)
      const task: Task = await this.#session.call(operation, request.input, request.options)
      if (task.lease === null) this.#session.grants.ended('item', task.id, token, by)
      return task
    } catch (error) {
      this.#session.grants.refused(error, 'item', id, token, by)
      throw error
    }
  }

  /** A write by which the holder, if there is one, gives up the task. */
  async #end<Name extends 'tasks.releaseTask' | 'tasks.reviewTask' | 'tasks.completeTask'>(
    operation: Name,
    ref: string,
    options: OptionsOf<Name, 'ref'>,
    leaves: (answer: ResultOf<Name>) => LeaseLeft,
  ): Promise<ResultOf<Name>> {
    const { sent, id, token } = await this.#held(ref, optionsOf(operation, options) as TokenOptions)
    const request = requestOf<Name, object>(operation, { ref: sent, token }, options as never)
    return await this.#session.endGrant(request, { kind: 'item', name: id, token }, leaves)
  }

  /** Grants are remembered by id, so a key is looked up first unless the caller passes the token. */
  async #held(
    ref: string,
    options: TokenOptions,
  ): Promise<{ sent: string; id: string; token: number | undefined }> {
    const token = this.#session.grants.tokenFor('item', ref, options)
    // Named as the caller did, so it stays the same request when it is repeated after the grant was forgotten.
    if (token !== undefined)
      return { sent: ref, id: this.#session.grants.idOf(taskQueue, ref, token, options), token }
    const kept = this.#session.grants.keptUnder(taskQueue, ref, options)
    if (kept) return { sent: kept.id, id: kept.id, token: kept.token }
    const id = (await this.getTask(ref))?.id ?? ref
    return { sent: id, id, token: this.#session.grants.tokenFor('item', id, options) }
  }
}

function leftBy({ lease }: Task): LeaseLeft {
  return lease === null ? 'ended' : 'held'
}
