/**
 * `hf.tasks`: the operations on tasks as methods. Long because a program sees one class with one method per call.
 */
import * as z from 'zod'
import { maxLeaseMs } from '../../domain/lease.ts'
import { conflictWaitMs } from '../../domain/state.ts'
import { taskQueue } from '../../domain/task.ts'
import { pause } from '../../environment.ts'
import { isVersionMismatchError } from '../../errors.ts'
import type { LockStatus, StaleLocks } from '../../operations/lease/watch.ts'
import { parseInput } from '../../operations/operation.ts'
import type { AskedOf } from '../../operations/table.ts'
import type { LockCleanup } from '../../operations/task/cleanup.ts'
import type { TaskHints } from '../../operations/task/hint.ts'
import { deathsAmong } from '../../runtime/caretaker/heal.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import { type CleanupOptions, repeatCleanup } from '../../runtime/lease/lock-cleanup.ts'
import { type LeaseRenewal, type RenewalOptions, runRenewal } from '../../runtime/lease/renewal.ts'
import { judgeHolders, reportStaleLocks, type StaleLocksOptions } from '../../runtime/lease/stale-locks.ts'
import { askInPieces, given, optionsOf, orReject, sumOf } from '../../runtime/session/input.ts'
import { callable, signal } from '../../runtime/session/option-fields.ts'
import { requestOf } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'
import type { ClaimOptions, OptionsFor, Own, TokenOptions, WaitOptions } from '../call-options.ts'
import { HeldItems } from '../held-items.ts'
import type { StateUpdateOptions } from '../state.ts'
import type { BatchClaim, NextTask, Task, TaskClaim } from './task-answers.ts'
import { TaskClaims, type TaskOperation } from './task-claims.ts'
import type {
  AddTaskOptions,
  ClaimNextOptions,
  ClaimTaskOptions,
  ListTasksOptions,
  RemoveTaskOptions,
  TaskChanges,
  UpdateTaskOptions,
} from './task-options.ts'

const updateAttempts = 5
const renewalOptions = {
  name: 'tasks.runLeaseRenewal',
  input: z.strictObject({
    leaseMs: z.int().min(0).max(maxLeaseMs).optional(),
    everyMs: z.number().optional(),
    onLost: callable.optional(),
    signal,
  }),
}
const retryOptions = {
  name: 'tasks.updateWithRetry',
  input: z.strictObject({
    change: callable,
    maxAttempts: z.int().min(1).max(10_000),
    // Checked by the update. No idempotency key: it covers one request, and each attempt is another.
    agent: z.unknown().optional(),
    token: z.unknown().optional(),
  }),
}

/** Tasks: shared work that agents claim under leases. */
export class Tasks {
  readonly #session: Session
  readonly #held: HeldItems<TaskOperation, Task>
  readonly #claims: TaskClaims

  constructor(session: Session) {
    this.#session = session
    this.#held = new HeldItems<TaskOperation, Task>({
      session,
      queue: taskQueue,
      get: (ref) => this.getTask(ref),
      of: (operation, named, options) =>
        requestOf<typeof operation, object>(operation, named, options as never),
      send: ({ operation, input, options }) => session.call(operation, input, options),
    })
    this.#claims = new TaskClaims(session, this.#held)
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
    return this.#held.change('tasks.updateTask', ref, {}, changes)
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
    options: Omit<TokenOptions, 'idempotencyKey'> & Pick<StateUpdateOptions, 'maxAttempts'> = {},
  ): Promise<Task> {
    const { maxAttempts = updateAttempts, ...rest } = optionsOf('tasks.updateWithRetry', options)
    parseInput(retryOptions, { ...given(rest), change, maxAttempts })
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
    return orReject(() => this.#claims.byName(ref, options))
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
    return orReject(() => this.#claims.next(options))
  }

  /** Claims all of these tasks or none of them. */
  batchClaim(refs: readonly string[], options?: Own<Omit<ClaimOptions, 'token'>>): Promise<BatchClaim<Lease>>
  /** The same with manual leases: `lease` is null when nobody renews it. */
  batchClaim(refs: readonly string[], options: Omit<ClaimOptions, 'token'>): Promise<BatchClaim>
  batchClaim(refs: readonly string[], options: Omit<ClaimOptions, 'token'> = {}): Promise<BatchClaim> {
    return this.#claims.all(refs, options)
  }

  /** Renews a lease by hand, for its full length from now. LEASE_LOST once somebody else has the task. */
  renewLease(ref: string, options: OptionsFor<'tasks.renewLease', 'ref'> = {}): Promise<Task> {
    return this.#held.change('tasks.renewLease', ref, {}, options)
  }

  /**
   * Renews a lease in the background until you stop it or the lease is lost, by default every third of its length. On
   * loss, its signal fires and `onLost` is called. Only for manual leases: this handle renews its own agent's claims
   * anyway.
   */
  async runLeaseRenewal(ref: string, options: RenewalOptions & TokenOptions = {}): Promise<LeaseRenewal> {
    const { everyMs, signal, onLost, leaseMs, ...rest } = optionsOf('tasks.runLeaseRenewal', options)
    parseInput(renewalOptions, { leaseMs, everyMs, onLost, signal })
    const requestedAt = this.#session.environment.monotonic()
    const task = await this.#required(ref)
    // Ask the store to renew it, so that the refusal reads the same as everywhere else.
    const lease = task.lease ?? (await this.renewLease(task.id, rest)).lease
    const { token } = await this.#held.find(task.id, rest)
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
        this.#held.change('tasks.renewLease', task.id, { leaseMs: length }, { ...rest, token }),
    })
  }

  /** Gives a task back. False when nobody held it; HELD, naming the holder, when somebody else does. */
  async releaseTask(ref: string, options: OptionsFor<'tasks.releaseTask', 'ref'> = {}): Promise<boolean> {
    return this.#held.release('tasks.releaseTask', ref, options)
  }

  /** Sends a task to review and gives up its lease. */
  reviewTask(ref: string, options: OptionsFor<'tasks.reviewTask', 'ref'> = {}): Promise<Task> {
    return this.#held.finish('tasks.reviewTask', ref, {}, options)
  }

  /** Completes a task that you hold or that is in review. Repeating it is harmless. */
  completeTask(ref: string, options: OptionsFor<'tasks.completeTask', 'ref'> = {}): Promise<Task> {
    return this.#held.finish('tasks.completeTask', ref, {}, options)
  }

  /**
   * Gives back every task the agent holds, with a note, and returns their ids. With `to`, they are offered to that
   * agent: nobody else may claim them for `offerMs` (default 10 min), then everybody may.
   */
  async handoff(options: OptionsFor<'tasks.handoff'> = {}): Promise<{ taskIds: string[] }> {
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
  async cleanupDeadAgentLocks(options: AskedOf<'tasks.cleanupDeadAgentLocks'> = {}): Promise<LockCleanup> {
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

  async #required(ref: string): Promise<Task> {
    const task = await this.getTask(ref)
    // Ask the store about it, so that the refusal reads the same as everywhere else.
    if (!task) await this.checkUpdateConflict(ref, 1)
    return task as Task
  }
}
