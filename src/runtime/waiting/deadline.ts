/**
 * A wait ends on time, whatever the store does: what it asked last is left unanswered, and what that grants later is
 * given back.
 */
import { pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Session } from '../session/session.ts'

/** A store that can be reached answers within this, also from another region. Asked at the last moment, it gets so long. */
const answerMs = 2_000

/** Thrown inside a wait only: the store did not answer before the wait was over. */
export class Unanswered extends HoldfastError {
  constructor(location: string) {
    super('STORE_UNAVAILABLE', {
      what: `${location} did not answer before the wait was over`,
      next: 'call again; whatever this wait is granted later is released',
      facts: { location, inDoubt: false },
    })
  }
}

/** A call that is part of a wait has the patience of the wait, however long or short. */
export function untilDeadline(
  { environment }: Pick<Session, 'environment'>,
  deadline: number,
): { readonly patienceMs: number } {
  return { patienceMs: leftUntil(deadline, environment.monotonic()) }
}

function leftUntil(deadline: number, now: number): number {
  return Math.max(0, Math.max(deadline, Math.min(now, deadline) + answerMs) - now)
}

/**
 * The answer, if it comes before the deadline; asked close to it, a moment later. Throws `Unanswered` then, and hands
 * an answer that still comes to `onLate`.
 */
export async function inTime<Answer>(
  { environment, engine }: Pick<Session, 'environment' | 'engine'>,
  asked: Promise<Answer>,
  deadline: number,
  onLate: (answer: Answer) => Promise<unknown> | undefined = () => undefined,
): Promise<Answer> {
  const leftMs = leftUntil(deadline, environment.monotonic())
  const answered = new AbortController()
  const late = pause(environment, leftMs, answered.signal).then(() => null)
  try {
    const first = await Promise.race([asked.then((answer) => ({ answer })), late])
    if (first !== null) return first.answer
  } finally {
    answered.abort()
  }
  // Nobody is left to be told of a failure; what cannot be given back lapses, for nobody renews it.
  void asked.then(onLate).catch(() => {})
  throw new Unanswered(engine.status.location)
}
