/**
 * Waiting for work. Wake-ups are a hint, looking is the truth: whoever waits reads when somebody rings and about once
 * a second, and asks for a claim only when a look finds something or a lease has ended, which is told by nobody.
 */
import { pause } from '../../environment.ts'
import { closedError } from '../../errors.ts'
import type { ResultOf } from '../../operations/table.ts'
import { deathsAmong, type Healing, heal, judgeRunning } from '../caretaker/heal.ts'
import type { Session } from '../session/session.ts'
import { inTime, untilDeadline } from './deadline.ts'

export interface ClaimWait<Answer> {
  /** The queue that is looked at. */
  readonly queue: string
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  /** Who claims, where that is another than the handle's own agent. */
  readonly agent?: string | undefined
  /** Of a claim with a filter, its input: most of what is ready may not fit, and only a claim that will find something writes. */
  readonly wanted?: object | undefined
  /** `patienceMs`: for how long the store may be away. */
  claim(patienceMs: number): Promise<Answer>
  /** Gives up what a claim was granted when the wait was over. */
  giveBack(answer: Answer): Promise<unknown> | undefined
  /** Nothing to wait for any more. */
  isEnough(answer: Answer): boolean
}

/** Why what came too late was given back. */
export const waitIsOver = 'it was granted when the wait for it was over'

const lookEveryMs = 1000
/** What is due by our clock may not be by the store's: without this, such a difference would keep us busy. */
const lookAtLeastMs = 20
/** As often as a running process heals. */
const claimEveryMs = 5000
/** The dead ring for nobody; those who wait look for them, or nobody might. */
const probeEveryMs = 1000

export async function waitForWork<Answer>(session: Session, wait: ClaimWait<Answer>): Promise<Answer> {
  const { environment, engine } = session
  const deadline = environment.monotonic() + wait.waitMs
  let probedAt = environment.monotonic()
  for (;;) {
    wait.signal?.throwIfAborted()
    const { patienceMs } = untilDeadline(session, deadline)
    const answer = await inTime(session, wait.claim(patienceMs), deadline, (late) => wait.giveBack(late))
    if (wait.isEnough(answer)) return answer
    const claimedAt = environment.monotonic()
    for (let ready = false; !ready; ) {
      const woken = new AbortController()
      // Listening before looking: what is added in between is heard.
      const unwake = session.onRing({ kind: 'queue', name: wait.queue }, () => woken.abort())
      const stay = session.onClosing(() => woken.abort())
      try {
        const { nextDueAt, lapseInMs } = await inTime(session, look(session, wait, deadline), deadline)
        const now = environment.monotonic()
        const leftMs = deadline - now
        if (leftMs <= 0) return answer
        const dueMs =
          nextDueAt === null ? lookEveryMs : Math.max(lookAtLeastMs, nextDueAt - environment.now() + 1)
        // Expired means later than its end. What lapsed and stays, because nobody heals here, is no reason to hurry.
        const isLapsing = lapseInMs !== null && lapseInMs >= 0
        const lapseMs = isLapsing ? Math.max(lookAtLeastMs, lapseInMs + 1) : lookEveryMs
        const jitter = 0.75 + 0.5 * environment.random()
        const until = wait.signal ? AbortSignal.any([woken.signal, wait.signal]) : woken.signal
        await pause(environment, Math.min(lookEveryMs * jitter, dueMs, lapseMs, leftMs), until)
      } finally {
        unwake()
        stay()
      }
      wait.signal?.throwIfAborted()
      if (session.isClosed) throw closedError(engine.status.location)
      const now = environment.monotonic()
      if (session.settings.recovery.onWait && now - probedAt >= probeEveryMs) {
        probedAt = now
        await inTime(session, healTheDead(session), deadline)
      }
      const seen = await inTime(session, look(session, wait, deadline), deadline)
      // Once for each lapse: what stays although its lease is over is asked for no more often than anything else.
      const lapsedForMs = -(seen.lapseInMs ?? 0)
      const hasLapsed = lapsedForMs > 0 && environment.monotonic() - lapsedForMs >= claimedAt
      const isWanted = seen.ready && (await inTime(session, isThere(session, wait, deadline), deadline))
      ready = isWanted || hasLapsed || now - claimedAt >= claimEveryMs || now >= deadline
    }
  }
}

function look(
  session: Session,
  { queue, agent }: Pick<ClaimWait<never>, 'queue' | 'agent'>,
  deadline: number,
): Promise<ResultOf<'queue.look'>> {
  return session.call('queue.look', { queue, lapses: true }, { agent, ...untilDeadline(session, deadline) })
}

/** Whether something that is ready is wanted. */
async function isThere(
  session: Session,
  { wanted, agent }: Pick<ClaimWait<never>, 'wanted' | 'agent'>,
  deadline: number,
): Promise<boolean> {
  if (wanted === undefined) return true
  return session.isTaskThere(wanted, { agent, ...untilDeadline(session, deadline) })
}

/** Reads only, unless somebody is dead. */
async function healTheDead(session: Session): Promise<void> {
  const healing: Healing = {
    environment: session.environment,
    storeIsLocal: session.storeIsLocal,
    trigger: 'waiter',
    execute: (operation, input) => session.call(operation, input),
    log: (level, name, facts) => session.logger[level]?.(facts, name),
  }
  const deaths = deathsAmong(await judgeRunning(healing))
  if (deaths.length > 0) await heal(healing, deaths)
}
