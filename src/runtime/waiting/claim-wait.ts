/**
 * Waiting for work. A wake-up is only a hint; a read decides. A waiter reads when a bell rings and about once a second.
 * It tries to claim only when a read finds something or a lease has ended, because no bell rings for that.
 */
import { closedError } from '../../errors.ts'
import type { Session } from '../session/session.ts'
import { endOf, inTime, untilDeadline } from './deadline.ts'
import { claimEveryMs, hasLapsedSince, nextLookMs } from './next-look.ts'
import { wakeOn } from './wake-up.ts'

/** A claim that is repeated while there is nothing to claim. */
export interface ClaimWait<Answer> {
  /** The queue to watch. */
  readonly queue: string
  /** How long to wait, ms. */
  readonly waitMs: number
  /** Ends the wait, and the promise rejects with its reason. */
  readonly signal?: AbortSignal | undefined
  /** The claiming agent, if it is not the handle's own. */
  readonly agent?: string | undefined
  /**
   * For a claim with a filter, its input. Most ready items may not match, and only a claim that will find something
   * should write.
   */
  readonly wanted?: object | undefined
  /** `patienceMs`: how long the store may be unavailable. */
  claim(patienceMs: number): Promise<Answer>
  /** Gives up what was granted after the wait was over. */
  giveBack(answer: Answer): Promise<unknown> | undefined
  /** Whether there is nothing left to wait for. */
  isEnough(answer: Answer): boolean
}

/** The reason given when a late grant is given back. */
export const waitIsOver = 'it was granted after the wait for it had ended'

const lookEveryMs = 1000

export async function waitForWork<Answer>(session: Session, wait: ClaimWait<Answer>): Promise<Answer> {
  const { environment, engine } = session
  let deadline = environment.monotonic() + wait.waitMs
  const end = () => {
    deadline = endOf(deadline, environment.monotonic())
    return deadline
  }
  const soon = <Asked>(asked: Promise<Asked>) => inTime(session, asked, end(), undefined, wait.signal)
  const by = () => ({ agent: wait.agent, ...untilDeadline(session, end()) })
  const look = () => soon(session.call('queue.look', { queue: wait.queue, lapses: true }, by()))
  /** Whether something that is ready also matches. */
  const isThere = async () => wait.wanted === undefined || soon(session.isTaskThere(wait.wanted, by()))
  for (;;) {
    wait.signal?.throwIfAborted()
    const { patienceMs } = untilDeadline(session, end())
    const claimed = wait.claim(patienceMs)
    const answer = await inTime(session, claimed, end(), (late) => wait.giveBack(late), wait.signal)
    if (wait.isEnough(answer)) return answer
    const claimedAt = environment.monotonic()
    for (let ready = false; !ready; ) {
      const wakeUp = wakeOn(session, { kind: 'queue', name: wait.queue }, wait.signal)
      try {
        const seen = await look()
        const leftMs = deadline - environment.monotonic()
        if (leftMs <= 0) return answer
        await wakeUp.sleep(Math.min(nextLookMs(environment, seen, lookEveryMs), leftMs))
      } finally {
        wakeUp.end()
      }
      wait.signal?.throwIfAborted()
      if (session.isClosed) throw closedError(engine.status.location)
      const now = environment.monotonic()
      await soon(session.recovery.healTheDead())
      const seen = await look()
      const hasLapsed = hasLapsedSince(claimedAt, seen, environment.monotonic())
      const isWanted = seen.ready && (await isThere())
      ready = isWanted || hasLapsed || now - claimedAt >= claimEveryMs || now >= deadline
    }
  }
}
