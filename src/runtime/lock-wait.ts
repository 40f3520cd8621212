/**
 * Waiting for a lock: a place in line, kept alive while we wait, and a look whenever somebody released something.
 * Wake-ups are a hint; looking again is the truth. Looks are frequent near the head of a line that moves and rare in
 * one that stands still, so that a hand-over takes milliseconds and a long wait costs next to nothing.
 */
import { pause } from '../environment.ts'
import { closedError, isHoldfastError } from '../errors.ts'
import type { LeaseRef } from '../operations/lease.ts'
import type { NamedAcquireOutcome } from '../operations/lock.ts'
import type { CallOptions, Session } from '../session.ts'
import { inTime, Unanswered, untilDeadline } from './in-time.ts'

export interface LockWait {
  readonly input: Readonly<Record<string, unknown>>
  readonly options: CallOptions
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** Fires when the handle closes. */
  readonly closing: AbortSignal
  /** Whether a lease is of this lock. */
  isThis(lease: LeaseRef): boolean
}

export interface LockAnswer {
  readonly answer: Exclude<NamedAcquireOutcome, { outcome: 'waiting' }>
  /** Monotonic time just before the request that was answered. */
  readonly requestedAt: number
}

type Waiting = Extract<NamedAcquireOutcome, { outcome: 'waiting' }>

/** Lapses are told by nobody, so everybody looks at least so often. */
const lookEveryMs = 500
const firstLookMs = 3

export async function waitForLock(session: Session, wait: LockWait): Promise<LockAnswer> {
  const { environment } = session
  const deadline = environment.monotonic() + wait.waitMs
  let waiting: Waiting | null = null
  let isSilent = false
  try {
    for (;;) {
      const requestedAt = environment.monotonic()
      const acquired = acquire(session, wait, waiting, deadline)
      const answer = await inTime(session, acquired, deadline, (late) => giveBack(session, wait, late))
      if (answer.outcome !== 'waiting') {
        waiting = null
        return { answer, requestedAt }
      }
      waiting = answer
      const isOver = environment.monotonic() >= deadline
      if (isOver || !(await turnComes(session, wait, waiting, deadline))) {
        const { holder, since, expiresAt } = waiting
        return { answer: { outcome: 'held', holder, since, expiresAt }, requestedAt }
      }
    }
  } catch (error) {
    isSilent = error instanceof Unanswered
    throw error
  } finally {
    if (waiting) {
      const left = leaveInTime(session, wait, waiting, deadline)
      // A store that did not answer in time is not waited for once more.
      if (!isSilent) await left
    }
  }
}

async function acquire(
  session: Session,
  wait: LockWait,
  place: Waiting | null,
  deadline: number,
): Promise<NamedAcquireOutcome> {
  const givenBack = session.endings.settled(wait.isThis)
  if (givenBack !== null) await givenBack
  assertWanted(session, wait)
  const input = { ...wait.input, wait: true, ...(place ? { waiter: place.waiter } : {}) }
  return await session.call('locks.acquireLock', input, {
    ...wait.options,
    ...untilDeadline(session, deadline),
  })
}

/** False when the time is over; rejects when the caller gave up or the handle closes. */
async function turnComes(
  session: Session,
  wait: LockWait,
  place: Waiting,
  deadline: number,
): Promise<boolean> {
  const { environment, engine } = session
  let ahead = place.ahead
  let pauseMs = firstLookMs * (ahead + 1)
  const given = AbortSignal.any([wait.closing, ...(wait.signal === undefined ? [] : [wait.signal])])
  for (;;) {
    const lookedAt = environment.monotonic()
    const woken = new AbortController()
    // Listening before looking: a release in between is heard.
    const unwake = engine.onWake(() => woken.abort())
    try {
      const look = await inTime(session, lookAt(session, wait, place, deadline), deadline)
      assertWanted(session, wait)
      if (look.turn || look.due) return true
      const leftMs = deadline - environment.monotonic()
      if (leftMs <= 0) return false
      // The line has moved: the turn may be near.
      if (look.ahead !== ahead) pauseMs = firstLookMs * (look.ahead + 1)
      ahead = look.ahead
      const jitter = 0.75 + 0.5 * environment.random()
      const until = AbortSignal.any([woken.signal, given])
      await pause(environment, Math.min(pauseMs * jitter, lookEveryMs, leftMs), until)
      pauseMs *= 2
      // Whoever is far behind need not look at every release: its turn takes so many hand-overs at least.
      const restMs = lookedAt + firstLookMs * ahead - environment.monotonic()
      if (restMs > 0) await pause(environment, restMs, given)
    } finally {
      unwake()
    }
    assertWanted(session, wait)
  }
}

function lookAt(session: Session, wait: LockWait, { waiter }: Waiting, deadline: number) {
  const input = { ...wait.input, wait: true, waiter }
  const options = { ...wait.options, ...untilDeadline(session, deadline) }
  return session.call<{ turn: boolean; due: boolean; ahead: number }>('locks.isTurn', input, options)
}

function assertWanted(session: Session, { signal, closing }: LockWait): void {
  signal?.throwIfAborted()
  if (closing.aborted) throw closedError(session.engine.status.location)
}

async function leave(session: Session, wait: LockWait, { waiter }: Waiting): Promise<void> {
  await session.call('locks.leaveLine', { name: wait.input.name, waiter }, wait.options)
}

/** While the store is away a place stays behind, and lapses: nobody shows that its waiter lives. */
async function leaveInTime(
  session: Session,
  wait: LockWait,
  place: Waiting,
  deadline: number,
): Promise<void> {
  const by = Math.min(deadline, session.environment.monotonic())
  try {
    await inTime(session, leave(session, wait, place), by)
  } catch (error) {
    if (!isHoldfastError(error) || error.code !== 'STORE_UNAVAILABLE') throw error
  }
}

/** What came when the wait was over. */
async function giveBack(session: Session, wait: LockWait, answer: NamedAcquireOutcome): Promise<void> {
  if (answer.outcome === 'held') return
  if (answer.outcome === 'waiting') return leave(session, wait, answer)
  const { name, lease } = answer.lock
  await session.call('locks.releaseLock', { name, token: lease.token }, wait.options)
}
