/**
 * A wait ends on time, whatever the store does: its last request is abandoned, and whatever that request is granted
 * later is given back.
 */
import { onAbort } from '../../abort.ts'
import { type Environment, pause } from '../../environment.ts'
import { HoldfastError } from '../../errors.ts'
import type { Engine } from '../../port/engine.ts'

/**
 * A reachable store answers within this, even from another region. A request made at the last moment gets this long.
 */
const answerMs = 2_000

/** Thrown only inside a wait: the store did not answer before the wait was over. */
export class Unanswered extends HoldfastError {
  constructor(location: string) {
    super('STORE_UNAVAILABLE', {
      what: `${location} did not answer before the wait was over`,
      next: 'call again; anything granted to this wait later is released',
      facts: { location, inDoubt: false },
    })
  }
}

/** A call that is part of a wait has the patience of the wait, however long or short. */
export function untilDeadline({ environment }: { readonly environment: Environment }, deadline: number) {
  return { patienceMs: leftUntil(deadline, environment.monotonic()) }
}

/** When a wait really ends: a process that was frozen long past its deadline still gives the store time to answer. */
export function endOf(deadline: number, now: number): number {
  return now > deadline + answerMs ? now : deadline
}

function leftUntil(deadline: number, now: number): number {
  return Math.max(0, Math.max(deadline, Math.min(now, deadline) + answerMs) - now)
}

/**
 * Returns the answer if it comes before the deadline, or before the signal fires; a request made close to it gets up to
 * 2 s past it. After that, throws `Unanswered` or the reason of the signal, and hands an answer that still comes to
 * `onLate`.
 */
export async function inTime<Answer>(
  { environment, engine }: { readonly environment: Environment; readonly engine: Pick<Engine, 'status'> },
  asked: Promise<Answer>,
  deadline: number,
  onLate: (answer: Answer) => Promise<unknown> | undefined = () => undefined,
  signal?: AbortSignal,
): Promise<Answer> {
  const leftMs = leftUntil(deadline, environment.monotonic())
  const answered = new AbortController()
  let hurry = () => {}
  const late = new Promise<null>((resolve) => {
    const giveUpIn = (ms: number) => pause(environment, ms, answered.signal).then(() => resolve(null))
    hurry = () => void giveUpIn(answerMs)
    void giveUpIn(leftMs)
  })
  const unheard = onAbort(signal, hurry)
  try {
    const first = await Promise.race([asked.then((answer) => ({ answer })), late])
    if (first !== null) return first.answer
  } finally {
    answered.abort()
    unheard()
  }
  // Nobody is left to hear of a failure. What cannot be given back lapses, because nobody renews it.
  void asked.then(onLate).catch(() => {})
  signal?.throwIfAborted()
  throw new Unanswered(engine.status.location)
}
