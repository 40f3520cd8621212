/** Claims tasks, and remembers and renews what was granted. */
import { taskQueue } from '../../domain/task.ts'
import type { OperationName } from '../../operations/table.ts'
import type { NextTaskOutcome, TaskClaimOutcome } from '../../operations/task/claim-outcome.ts'
import type { Lease } from '../../runtime/lease/held-lease.ts'
import { given, optionsOf } from '../../runtime/session/input.ts'
import type { CallOptions } from '../../runtime/session/request.ts'
import type { Session } from '../../runtime/session/session.ts'
import { waitForWork, waitIsOver } from '../../runtime/waiting/claim-wait.ts'
import { type ClaimOptions, type WaitOptions, waitIn } from '../call-options.ts'
import type { HeldItems } from '../held-items.ts'
import type { BatchClaim, NextTask, Task, TaskClaim } from './task-answers.ts'
import type { ClaimNextOptions, ClaimTaskOptions } from './task-options.ts'

/** Operations on tasks. */
export type TaskOperation = Extract<OperationName, `tasks.${string}`>

export class TaskClaims {
  readonly #session: Session
  readonly #held: HeldItems<TaskOperation, Task>

  constructor(session: Session, held: HeldItems<TaskOperation, Task>) {
    this.#session = session
    this.#held = held
  }

  byName(ref: string, options: ClaimTaskOptions): Promise<TaskClaim> {
    const asked = optionsOf('tasks.claimTaskForAgent', options)
    return this.#session.withRoom(1, asked, async () => {
      const { sent, id, token } = await this.#held.find(ref, asked)
      const givenBack = this.#session.whenGivenBack((lease) => lease.id === id)
      if (givenBack !== null) await givenBack
      const requestedAt = this.#session.environment.monotonic()
      const claim = await this.#session.ask('tasks.claimTaskForAgent', { ref: sent, token }, asked)
      return this.#keep(claim, requestedAt, asked) as TaskClaim
    })
  }

  next(asked: ClaimNextOptions & WaitOptions): Promise<NextTask> {
    const { waitMs, signal, options } = waitIn('tasks.claimNext', asked)
    const claim = (patienceMs?: number) =>
      this.#session.withRoom(1, options, () => this.#next(options, patienceMs))
    if (waitMs === 0) return claim()
    const isEnough = ({ outcome }: NextTask) => outcome === 'claimed'
    const giveBack = async (late: NextTask) => {
      if (late.outcome !== 'claimed') return
      const { id, token } = late.task
      const says = { ...given({ agent }), token, note: waitIsOver }
      await this.#held.release('tasks.releaseTask', id, says)
    }
    const { agent } = options
    const wait = { queue: taskQueue, wanted: options, waitMs, signal, agent, claim, isEnough, giveBack }
    return waitForWork(this.#session, wait)
  }

  async #next(options: ClaimNextOptions, patienceMs?: number): Promise<NextTask> {
    const requestedAt = this.#session.environment.monotonic()
    const claim = await this.#session.ask('tasks.claimNext', {}, options, patienceMs)
    return this.#keep(claim, requestedAt, options) as NextTask
  }

  async all(refs: readonly string[], options: ClaimOptions): Promise<BatchClaim> {
    optionsOf('tasks.batchClaim', options)
    return this.#session.withRoom(Array.isArray(refs) ? refs.length : 0, options, async () => {
      const requestedAt = this.#session.environment.monotonic()
      const answer = await this.#session.ask('tasks.batchClaim', { refs }, options)
      if (answer.outcome !== 'claimed') return answer
      const tasks = answer.tasks.map((task) => ({ task, lease: this.#granted(task, requestedAt, options) }))
      return { outcome: 'claimed', tasks }
    })
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
}
