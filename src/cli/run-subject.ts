/** What `run` holds for its command: a lock, an item or a task; how the command learns of it and how it is returned. */
import { taskQueue } from '../domain/task.ts'
import { pause } from '../environment.ts'
import { InvalidError, isHoldfastError } from '../errors.ts'
import type { Holdfast } from '../handle/holdfast.ts'
import type { TaskClaim } from '../handle/tasks/task-answers.ts'
import { systemEnvironment } from '../host/system.ts'
import type { ResultOf } from '../operations/table.ts'
import type { Lease } from '../runtime/lease/held-lease.ts'
import { waitIsOver } from '../runtime/waiting/claim-wait.ts'
import type { Ending } from './child.ts'
import type { NotClaimed } from './verbs/item-text.ts'

/** What happened to what was held. `moved`: to a state of its workflow that `run` does not know. */
export type RunOutcome = 'done' | 'failed' | 'review' | 'moved' | 'released' | 'lost'

export interface RunSubject {
  readonly kind: 'lock' | 'item' | 'task'
  readonly id: string
  readonly token: number
  readonly lease: Lease
  readonly env: Readonly<Record<string, string>>
  /** The command ended by itself, successfully or not. */
  finish(ending: Ending): Promise<RunOutcome>
  /** The command was stopped or never started, which does not count as a failure. */
  giveBack(reason: string): Promise<RunOutcome>
}

export interface RunRequest {
  readonly lock?: string
  readonly queue?: string
  readonly task?: string
  /** Claims the next suitable task. */
  readonly nextTask?: boolean
  readonly slots?: number
  readonly reason?: string
  readonly leaseMs?: number
  readonly waitMs: number
  readonly signal: AbortSignal
  /** A task whose command succeeds goes to review instead of done. */
  readonly review?: boolean
}

/** In bytes. On Linux, one environment string holds at most 128 KiB. */
const maxPayload = 100 * 1024

export async function take(hf: Holdfast, request: RunRequest): Promise<RunSubject | NotClaimed> {
  if (request.lock !== undefined) return takeLock(hf, request.lock, request)
  if (request.queue !== undefined) return takeItem(hf, request.queue, request)
  return takeTask(hf, request)
}

async function takeLock(hf: Holdfast, name: string, request: RunRequest): Promise<RunSubject | NotClaimed> {
  const { slots, reason, leaseMs, waitMs, signal } = request
  const acquired = await hf.locks.acquireLock(name, {
    slots,
    reason,
    leaseMs,
    waitMs,
    signal,
  })
  if (acquired.outcome !== 'acquired') return acquired
  const { token } = acquired.lock.lease
  const giveBack = async () => ((await hf.locks.releaseLock(name, { token })) ? 'released' : 'lost')
  return {
    kind: 'lock',
    id: name,
    token,
    lease: acquired.lease as Lease,
    env: {},
    finish: giveBack,
    giveBack,
  }
}

async function takeItem(hf: Holdfast, name: string, request: RunRequest): Promise<RunSubject | NotClaimed> {
  const { leaseMs, waitMs, signal } = request
  const queue = hf.queue(name)
  const isKnown = await assertOneStep(hf, name)
  const claim = await queue.next({ leaseMs, waitMs, signal })
  if (claim.outcome !== 'claimed') return claim
  const { id, key, token, payload } = claim.item
  const text = JSON.stringify(payload ?? null)
  const giveBack = async (reason: string) => {
    const isReleased = await queue.release(id, { token, reason })
    if (claim.lock) await queue.releaseProcessingLock()
    return isReleased ? 'released' : 'lost'
  }
  if (!isKnown) await assertOneStep(hf, name, () => giveBack('the command was not run'))
  return {
    kind: 'item',
    id,
    token,
    lease: claim.lease as Lease,
    env: {
      HOLDFAST_QUEUE: name,
      ...(key === null ? {} : { HOLDFAST_KEY: key }),
      ...(Buffer.byteLength(text) <= maxPayload ? { HOLDFAST_PAYLOAD: text } : {}),
    },
    async finish(ending) {
      if (ending.code === 0) await queue.complete(id, { token })
      else await queue.fail(id, endingText(ending), { token })
      if (claim.lock) await queue.releaseProcessingLock()
      return ending.code === 0 ? 'done' : 'failed'
    },
    giveBack,
  }
}

/**
 * A command either succeeds or fails, with nothing in between. In a workflow with more steps, exit code 0 would
 * complete nothing, and the command would run again and again. Returns false if the queue does not exist yet: it may be
 * created while we wait.
 */
async function assertOneStep(
  hf: Holdfast,
  name: string,
  giveBack: () => Promise<unknown> = async () => {},
): Promise<boolean> {
  const isOneStep = await hf.execute('queue.checkOneStep', { queue: name })
  if (isOneStep !== false) return isOneStep === true
  await giveBack()
  throw new InvalidError({
    what: `an item of queue ${name} needs more than one command: its workflow allows completion only from a later state`,
    next: 'claim it with `holdfast queue next` and move it along with `holdfast queue move`',
    facts: { queue: name },
  })
}

async function takeTask(hf: Holdfast, request: RunRequest): Promise<RunSubject | NotClaimed> {
  const { task: ref, leaseMs, waitMs, signal, review } = request
  const claim =
    ref === undefined
      ? await hf.tasks.claimNext({ leaseMs, waitMs, signal })
      : await claimTask(hf, ref, request)
  if (claim.outcome !== 'claimed') return claim
  const { id, key, token, title } = claim.task
  return {
    kind: 'task',
    id,
    token,
    lease: claim.lease as Lease,
    env: { HOLDFAST_QUEUE: taskQueue, HOLDFAST_TITLE: title, ...(key === null ? {} : { HOLDFAST_KEY: key }) },
    async finish(ending) {
      if (ending.code !== 0)
        return (await hf.tasks.releaseTask(id, { token, note: endingText(ending) })) ? 'failed' : 'lost'
      if (review) {
        await hf.tasks.reviewTask(id, { token })
        return 'review'
      }
      await hf.tasks.completeTask(id, { token })
      return 'done'
    },
    async giveBack(reason) {
      return (await hf.tasks.releaseTask(id, { token, note: reason })) ? 'released' : 'lost'
    },
  }
}

/** Waits while others hold the task or work on its blockers. */
function claimTask(hf: Holdfast, ref: string, { leaseMs, waitMs, signal }: RunRequest): Promise<TaskClaim> {
  const claim = () => hf.tasks.claimTaskForAgent(ref, { leaseMs })
  if (waitMs === 0) return claim()
  const isEnough = ({ outcome }: TaskClaim) =>
    !['held', 'offered', 'blocked', 'paused', 'full'].includes(outcome)
  const giveBack = async (late: TaskClaim) => {
    if (late.outcome === 'claimed')
      await hf.tasks.releaseTask(late.task.id, { token: late.task.token, note: waitIsOver })
  }
  return hf.waitForWork({ queue: taskQueue, waitMs, signal, claim, isEnough, giveBack })
}

function endingText({ code, signal }: Ending): string {
  return signal === null ? `the command exited with code ${code}` : `the command was killed by ${signal}`
}

/** Short enough to be in time even in the last second of a lease that could not be renewed. */
const askingMs = 1_000

/**
 * What the command itself did, under our token, with what was held for it. Null if it did nothing, or if the store does
 * not answer at once: then the command must be stopped.
 */
export async function ownEnding(hf: Holdfast, { lease }: RunSubject): Promise<RunOutcome | null> {
  const { kind, id, token } = lease
  const asked = hf.execute('lease.ending', { kind, id, token })
  const patience = new AbortController()
  const end = await Promise.race([
    asked.catch(() => null),
    pause(systemEnvironment, askingMs, patience.signal).then(() => null),
  ])
  patience.abort()
  return end && outcomeOf(end)
}

function outcomeOf({ kind, state }: NonNullable<ResultOf<'lease.ending'>>): RunOutcome {
  if (kind === 'item.failed') return 'failed'
  if (kind === 'item.released' || kind === 'lock.released') return 'released'
  if (kind !== 'item.moved') return 'done'
  return state === 'review' || state === 'done' ? state : 'moved'
}

/** Turns a write that came too late into an outcome: it is expected here. */
export async function unlessLost(finishing: Promise<RunOutcome>): Promise<RunOutcome> {
  try {
    return await finishing
  } catch (error) {
    if (isHoldfastError(error) && (error.code === 'LEASE_LOST' || error.code === 'HELD')) return 'lost'
    throw error
  }
}
