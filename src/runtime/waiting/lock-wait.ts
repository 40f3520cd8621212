/** Waits for a lock: joins its line, stays alive there while it waits, and asks for the lock when its turn comes. */
import { onAbort } from '../../abort.ts'
import { waiterLeaseMs } from '../../domain/lock-line.ts'
import { pause } from '../../environment.ts'
import { closedError, isHoldfastError } from '../../errors.ts'
import type { LeaseRef } from '../../operations/lease/lease.ts'
import { waiterRef } from '../../operations/lock/line.ts'
import type { NamedAcquireOutcome } from '../../operations/lock/lock.ts'
import type { CallOptions } from '../session/request.ts'
import type { Session } from '../session/session.ts'
import { inTime, Unanswered, untilDeadline } from './deadline.ts'
import type { LineWatches } from './line-watch.ts'

export interface LockWait {
  readonly lines: LineWatches
  readonly input: Readonly<Record<string, unknown>> & { readonly name: string }
  readonly options: CallOptions
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** Fires when the handle closes. */
  readonly closing: AbortSignal
  /** Whether a lease is on this lock. */
  isThis(lease: LeaseRef): boolean
}

export interface LockAnswer {
  readonly answer: Exclude<NamedAcquireOutcome, { outcome: 'waiting' }>
  /** Monotonic time just before the request that was answered. */
  readonly requestedAt: number
}

type Waiting = Extract<NamedAcquireOutcome, { outcome: 'waiting' }>

/** A waiter in line, renewed by the caretaker if there is one. */
interface InLine extends Waiting {
  readonly strike: (() => void) | null
}

export async function waitForLock(session: Session, wait: LockWait): Promise<LockAnswer> {
  const { environment } = session
  const deadline = environment.monotonic() + wait.waitMs
  /** Tokens of its own agent under which it has tried to enter. */
  const tried = new Set<number>()
  let inLine: InLine | null = null
  let isSilent = false
  let over = deadline
  const giveUp = () => {
    over = Math.min(deadline, environment.monotonic())
  }
  const unheard = onAbort(wait.signal, giveUp)
  try {
    for (;;) {
      const requestedAt = environment.monotonic()
      const acquired = acquire(session, wait, inLine, deadline)
      const onLate = (late: NamedAcquireOutcome) => giveBack(session, wait, late)
      const answer = await inTime(session, acquired, deadline, onLate, wait.signal)
      if (answer.outcome !== 'waiting') {
        inLine?.strike?.()
        inLine = null
        return { answer, requestedAt }
      }
      inLine = keep(session, wait, answer, inLine, requestedAt)
      const isOver = environment.monotonic() >= deadline
      if (isOver || !(await turnComes(session, wait, { inLine, tried }, deadline))) {
        const { holder, since, expiresAt } = inLine
        return { answer: { outcome: 'held', holder, since, expiresAt }, requestedAt }
      }
    }
  } catch (error) {
    isSilent = error instanceof Unanswered
    throw error
  } finally {
    unheard()
    if (inLine) {
      inLine.strike?.()
      const left = leaveInTime(session, wait, inLine, over)
      // A store that did not answer in time is not waited for a second time.
      if (!isSilent) await left
    }
  }
}

/** A waiter that lost its position was given a new one. */
function keep(
  session: Session,
  { input }: LockWait,
  waiting: Waiting,
  former: InLine | null,
  requestedAt: number,
): InLine {
  if (former?.waiter === waiting.waiter) return { ...waiting, strike: former.strike }
  former?.strike?.()
  const id = waiterRef(input.name, waiting.waiter)
  const taken = { kind: 'waiter', id, token: waiting.ticket, leaseMs: waiterLeaseMs, requestedAt } as const
  return { ...waiting, strike: session.keeper.keepWaiter(taken) }
}

async function acquire(
  session: Session,
  wait: LockWait,
  inLine: InLine | null,
  deadline: number,
): Promise<NamedAcquireOutcome> {
  const givenBack = session.endings.settled(wait.isThis)
  if (givenBack !== null) await givenBack
  assertWanted(session, wait)
  const input = { ...wait.input, wait: true, ...(inLine ? { waiter: inLine.waiter } : {}) }
  return await session.call('locks.acquireLock', input, {
    ...wait.options,
    ...untilDeadline(session, deadline),
  })
}

/** False when time is up; rejects if the caller gave up or the handle closes. */
async function turnComes(
  session: Session,
  wait: LockWait,
  { inLine, tried }: { readonly inLine: InLine; readonly tried: Set<number> },
  deadline: number,
): Promise<boolean> {
  const { environment } = session
  const { name, slots = 1, reentrant = false, token } = wait.input
  const own = wait.options.agent ?? session.agent
  const woken = new AbortController()
  const wake = () => woken.abort()
  let isCalled = false
  let failure: unknown
  const { leave, watch } = wait.lines.stand(
    { name, slots: slots as number },
    {
      waiter: inLine.waiter,
      ticket: inLine.ticket,
      deadline,
      isUnkept: inLine.strike === null,
      mayEnter(holder) {
        const isOwn = reentrant && holder.agent === own && (token ?? holder.token) === holder.token
        if (!isOwn || tried.has(holder.token)) return false
        tried.add(holder.token)
        return true
      },
      call(reason) {
        failure = reason
        isCalled = true
        wake()
      },
    },
  )
  const unheard = [onAbort(wait.closing, wake), onAbort(wait.signal, wake)]
  try {
    await pause(environment, Math.max(0, deadline - environment.monotonic()), woken.signal)
    // If the store has been silent for too long, we do not know who holds the lock.
    if (!woken.signal.aborted) await inTime(session, watch.look.answered, watch.look.askedAt)
  } finally {
    leave()
    for (const each of unheard) each()
  }
  assertWanted(session, wait)
  const isAway = isHoldfastError(failure) && failure.code === 'STORE_UNAVAILABLE'
  // No time is left to ask again.
  if (isAway && environment.monotonic() >= deadline) throw new Unanswered(session.engine.status.location)
  return isCalled
}

function assertWanted(session: Session, { signal, closing }: LockWait): void {
  signal?.throwIfAborted()
  if (closing.aborted) throw closedError(session.engine.status.location)
}

async function leave(session: Session, wait: LockWait, { waiter }: Waiting): Promise<void> {
  await session.call('locks.leaveLine', { name: wait.input.name, waiter }, wait.options)
}

/**
 * While the store is unavailable the waiter stays in line and lapses, because nobody renews it. `over`: when the wait
 * ended, by its deadline or its signal.
 */
async function leaveInTime(session: Session, wait: LockWait, inLine: Waiting, over: number): Promise<void> {
  const by = Math.min(over, session.environment.monotonic())
  try {
    await inTime(session, leave(session, wait, inLine), by)
  } catch (error) {
    if (!isHoldfastError(error) || error.code !== 'STORE_UNAVAILABLE') throw error
  }
}

/** Gives back what was granted after the wait was over. */
async function giveBack(session: Session, wait: LockWait, answer: NamedAcquireOutcome): Promise<void> {
  if (answer.outcome === 'held') return
  if (answer.outcome === 'waiting') return leave(session, wait, answer)
  const { name, lease } = answer.lock
  await session.call('locks.releaseLock', { name, token: lease.token }, wait.options)
}
